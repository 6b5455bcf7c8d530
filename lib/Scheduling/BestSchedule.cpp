//===- BestSchedule.cpp - The best of several schedules -------------------===//
//
//   1. Chunk sizes are scheduled one after the other, the most promising first
//      (ChunkSizes.h), and timed. Where data is forwarded, the first is tried
//      with forwards held and without, the others as it was faster, and the
//      fastest of these the other way.
//   2. That ends with one that takes less than 0.5 % more than its busiest port
//      carries, or when `effort` pieces have been scheduled.
//   3. Where there are few messages, all their waves are tried.
//   4. The first of those that are equally fast is kept.
//
// test/Problems/waves-unequal.json, where port 0 sends 5 MB:
//
//   chunk    waves  messages  us
//   1 MB     5      7         217
//   2 MB     3      4         216, kept
//   5 MB     5      7         217
//   uncut    2      3         217
//   exact    2      3         217
//
//===----------------------------------------------------------------------===//

#include "dt/Scheduling/BestSchedule.h"

#include "dt/Scheduling/ExactSchedule.h"
#include "dt/Scheduling/Schedule.h"

#include <algorithm>

using namespace dt;

namespace {

/// A schedule this close to what its busiest port carries is not improved.
constexpr double kGoodEnough = 1.005;

/// Schedules and times, until there is no more to gain or no effort left.
class Trials {
public:
  Trials(const WaveProblem &problem, int64_t effort, double enough)
      : problem(problem), effort(effort), enough(enough) {}

  /// Invariant: `best` is the fastest of the trials so far.
  void add(const ChunkBytes &chunks, size_t candidate);
  ChunkChoice best;

private:
  const WaveProblem &problem;
  const int64_t effort; // in pieces
  const double enough;
  double busiest = 0; // of the best
  int64_t tried = 0;  // pieces
};

void Trials::add(const ChunkBytes &chunks, size_t candidate) {
  if (tried > effort || best.seconds < enough * busiest)
    return;
  std::vector<ScheduledMove> scheduled = schedule(problem, chunks);
  tried += int64_t(scheduled.size());
  if (scheduled.empty() && !problem.moves.empty())
    return; // more messages than the limit
  std::vector<TimedMessage> messages = problem.messages(scheduled);
  double seconds = predictSeconds(messages, problem.cluster);
  if (!best.moves.empty() && seconds >= best.seconds)
    return;
  best = {std::move(scheduled), seconds, candidate, chunks.holdsForwards};
  PortSeconds ports = busiestPorts(messages, problem.cluster);
  busiest = std::max(ports.nic, ports.island);
}

} // namespace

ChunkChoice dt::fastestOf(const WaveProblem &problem,
                          const std::vector<ChunkBytes> &candidates,
                          int64_t effort, double enough) {
  Trials trials(problem, effort, enough);
  bool forwards = !problem.moves.empty() && problem.moves.back().hop > 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    ChunkBytes chunks = candidates[i];
    chunks.holdsForwards =
        forwards && !chunks.isWhole && (i == 0 || trials.best.holdsForwards);
    trials.add(chunks, i);
    if (i > 0 || !chunks.holdsForwards)
      continue;
    chunks.holdsForwards = false;
    trials.add(chunks, i);
  }
  // A chain of few chunks waits for one more of them per hop, one of many gains
  // the copies: what is faster for the first size need not be for the best.
  if (forwards && trials.best.candidate > 0) {
    ChunkBytes chunks = candidates[trials.best.candidate];
    chunks.holdsForwards = !chunks.isWhole && !trials.best.holdsForwards;
    trials.add(chunks, trials.best.candidate);
  }
  return std::move(trials.best);
}

std::optional<std::string> dt::scheduleBest(const WaveProblem &problem,
                                            const WaveOptions &options,
                                            WaveSchedule &schedule) {
  if (auto error = refuseStorage(problem))
    return error;
  std::vector<ChunkBytes> candidates = candidateChunks(problem);
  for (ChunkBytes &chunks : candidates)
    chunks.hasShortEnds = !chunks.isWhole;
  if (candidates.empty())
    return refuseChunks(problem);
  ChunkChoice best =
      fastestOf(problem, candidates, options.effort, kGoodEnough);
  if (best.moves.empty() && !problem.moves.empty())
    return refuseMessages();
  schedule.moves = std::move(best.moves);
  WaveSchedule exact;
  if (!scheduleExactly(problem, options, exact) &&
      problem.seconds(exact.moves) < best.seconds * (1 - 1e-12))
    schedule = std::move(exact);
  else
    putCopiesFirst(problem, schedule);
  return std::nullopt;
}
