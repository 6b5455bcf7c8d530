//===- WaveSolver.h - What answers wave problems ----------------*- C++ -*-===//
//
// Solvers are guests: they know the problem, and nobody trusts their answers.
//
//   greedy  wave by wave, the longest matching  Schedule.h       any size
//   exact   all orders of whole messages        ExactSchedule.h  few pairs
//   rounds  whole moves, hop after hop          RoundSchedule.h  many moves
//   best    the fastest of several chunk sizes, BestSchedule.h   any size
//           rounds and the exact one
//   flat    phases that storage has room for    FlatSchedule.h   with storage
//
//===----------------------------------------------------------------------===//

#ifndef DT_SCHEDULING_WAVESOLVER_H
#define DT_SCHEDULING_WAVESOLVER_H

#include "dt/Geometry/Limits.h"
#include "dt/Geometry/Parallel.h"
#include "dt/Routing/OldRoute.h"
#include "dt/Scheduling/WaveProblem.h"

namespace dt {

/// Messages of an old plan that stay as they are, whatever is scheduled beside
/// them.
struct WavesAround {
  std::vector<TimedMessage> messages;
  int32_t numWaves = 0; // others come behind these
  /// The first wave in which a move may go: what it brings has come then.
  std::function<int32_t(const Move &)> firstWave;
  /// Whether one of these messages has some of it, so that it may not come
  /// later than it did.
  std::function<bool(const Move &)> isPassedOn;
  /// Whether moves that are not passed on leave the waves that they had.
  bool isLoose = false;
};

struct WaveOptions {
  /// Pieces that may be scheduled to compare schedules.
  int64_t effort = 500000;
  /// Pieces that one schedule may have: of more there is none.
  int64_t mostPieces = kMaxPieces;
  /// Whether schedules are compared by what they take between others like them.
  bool repeats = false;
  /// Whether chunk sizes are compared as far as the effort goes, also those
  /// that suit half of the staging, and not only until one is good enough.
  bool isThorough = false;
  /// A plan that was made before, by flow: its waves are kept where they can
  /// be (Reschedule.h).
  const OldMoves *old = nullptr;
  /// Beside which the moves go; `Reschedule.h` alone looks at it.
  const WavesAround *around = nullptr;
  /// Seconds that no plan goes below, whatever its route; 0: not known.
  double lowerBound = 0;
  /// Makes schedules beside each other that are compared; null: one by one. The
  /// answer is the same.
  ParallelFor parallel = nullptr;

  ParallelFor threads() const { return parallel ? parallel : serialFor; }
  void forEach(size_t n, const std::function<void(size_t)> &body) const {
    threads()(n, body);
  }
};

/// Fills `schedule`, or says in one sentence why it cannot. The problem is
/// sound (WaveProblem::check); the answer is for verify() to judge.
using WaveSolver = std::optional<std::string> (*)(const WaveProblem &problem,
                                                  const WaveOptions &options,
                                                  WaveSchedule &schedule);

/// The solver of that name; nullptr when there is none.
WaveSolver findWaveSolver(const std::string &name);
/// "greedy, exact, rounds, best, flat", for errors and help.
std::string waveSolverNames();

/// What a solver says that does not look at storage and is asked to.
std::optional<std::string> refuseStorage(const WaveProblem &problem);
/// What a solver says that needs more staging.
std::string refuseStaging(const WaveProblem &problem, int64_t needed);
/// What a solver says for which there are no chunk sizes (ChunkSizes.h).
std::string refuseChunks(const WaveProblem &problem);
/// What a solver says whose schedules have more messages than the limit.
std::string refuseMessages();
/// All copies as one wave of their own, before all moves: for solvers that do
/// not look at storage. `schedule.moves` are those of the answer.
void putCopiesFirst(const WaveProblem &problem, WaveSchedule &schedule);

} // namespace dt

#endif // DT_SCHEDULING_WAVESOLVER_H
