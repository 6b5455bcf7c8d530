//===- BestSchedule.cpp - The best of several schedules -------------------===//
//
//   1. Chunk sizes are scheduled one after the other, the most promising first
//      (ChunkSizes.h), and timed: where data is forwarded with forwards held,
//      and then once more without, those first that were fast with.
//      Where ports carry several messages at once, waves are also joined
//      (JoinWaves.h).
//   2. That ends with one that takes less than 0.5 % more than its busiest port
//      carries, or when `effort` pieces have been scheduled, or one has more
//      pieces than it may. Where there are many, two sizes in a row that gain
//      nothing end a round.
//   3. What is forwarded is also tried in the rounds that its route names
//      (RoundSchedule.h), and those joined.
//   4. Where there are few latencies, pairs are tried as one message each that
//      need larger slots than step 1 has, if devices send or receive only.
//   5. Where there are few messages, all their waves are tried.
//   6. Over unequal links messages are put beside later ones (LaterWaves.h).
//   7. Of those that are equally fast the one of the fewest waves is kept, and
//      of these the first.
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

#include "LaterWaves.h"

#include "dt/Cost/SameSeconds.h"
#include "dt/Scheduling/ExactSchedule.h"
#include "dt/Scheduling/JoinWaves.h"
#include "dt/Scheduling/RoundSchedule.h"
#include "dt/Scheduling/Schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace dt;

namespace {

/// A schedule this close to what its busiest port carries is not improved.
constexpr double kGoodEnough = 1.005;

/// Schedules and times, until there is no more to gain or no effort left.
class Trials {
public:
  Trials(const WaveProblem &problem, const WaveOptions &options, double enough)
      : problem(problem), options(options), enough(enough) {}

  /// Invariant: `best` is the fastest of the trials so far. Returns the seconds
  /// of this one, if it has been scheduled.
  std::optional<double> add(const ChunkBytes &chunks, size_t candidate);
  /// Of the sizes that come after those of another kind.
  void beginRound() { misses = 0; }
  ChunkChoice best;

private:
  double take(std::vector<ScheduledMove> scheduled, size_t candidate);

  const WaveProblem &problem;
  const WaveOptions &options;
  const double enough;
  double busiest = 0; // of the best
  int64_t tried = 0;  // pieces
  int misses = 0;     // trials in a row that gained nothing
};

std::optional<double> Trials::add(const ChunkBytes &chunks, size_t candidate) {
  constexpr int kMostMisses = 2;
  constexpr int64_t kManyPieces = 20000;
  if (tried > options.effort || best.seconds < enough * busiest ||
      (tried > kManyPieces && misses >= kMostMisses))
    return std::nullopt;
  std::vector<ScheduledMove> scheduled =
      schedule(problem, chunks, options.mostPieces);
  bool isTooLong = scheduled.empty() && !problem.moves.empty();
  tried += isTooLong ? options.mostPieces : int64_t(scheduled.size());
  if (isTooLong)
    return std::nullopt;
  auto joined = joinWaves(problem, scheduled);
  ++misses;
  double seconds = take(std::move(scheduled), candidate);
  return joined ? std::min(seconds, take(std::move(*joined), candidate))
                : seconds;
}

/// Keeps the schedule if it is the best; returns its seconds.
double Trials::take(std::vector<ScheduledMove> scheduled, size_t candidate) {
  std::vector<TimedMessage> messages = problem.messages(scheduled);
  double seconds = predictSeconds(messages, problem.cluster);
  auto isBetter = [&] {
    if (std::abs(seconds - best.seconds) > kSameSeconds * best.seconds)
      return seconds < best.seconds;
    return scheduled.back().wave < best.moves.back().wave;
  };
  if (!best.moves.empty() && !isBetter())
    return seconds;
  misses = 0;
  best = {std::move(scheduled), seconds, candidate};
  PortSeconds ports = busiestPorts(messages, problem.cluster);
  busiest = std::max(ports.nic, ports.island);
  return seconds;
}

/// All that a pair has in one message, where slots of that size fit.
std::optional<std::string> scheduleWhole(const WaveProblem &problem,
                                         const WaveOptions &,
                                         WaveSchedule &out) {
  std::optional<ChunkBytes> chunks = wholeMessages(problem);
  if (!chunks)
    return "has too many bytes for whole messages";
  out.moves = schedule(problem, *chunks);
  if (out.moves.empty())
    return refuseMessages();
  int64_t needed = 0;
  for (auto [device, bytes] : arenaBytes(problem.messages(out.moves)))
    needed = std::max(needed, bytes);
  if (needed > problem.stagingBytes)
    return refuseStaging(problem, needed);
  putCopiesFirst(problem, out);
  return std::nullopt;
}

/// Joins its waves where that is faster.
void joinIfFaster(const WaveProblem &problem, WaveSchedule &schedule) {
  auto joined = joinWaves(problem, schedule.moves);
  if (!joined ||
      !isFaster(problem.seconds(*joined), problem.seconds(schedule.moves)))
    return;
  schedule.moves = std::move(*joined);
  putCopiesFirst(problem, schedule);
}

} // namespace

ChunkChoice dt::fastestOf(const WaveProblem &problem,
                          const std::vector<ChunkBytes> &candidates,
                          const WaveOptions &options, double enough) {
  Trials trials(problem, options, enough);
  // What holding forwards gains depends on the size: a chain of few chunks
  // waits for one more of them per hop, one of many hides its copies.
  bool forwards = !problem.moves.empty() && problem.moves.back().hop > 0;
  std::vector<std::pair<double, size_t>> held; // seconds, candidate
  for (size_t i = 0; i < candidates.size(); ++i) {
    ChunkBytes chunks = candidates[i];
    chunks.holdsForwards = forwards && !chunks.isWhole;
    std::optional<double> seconds = trials.add(chunks, i);
    if (seconds && chunks.holdsForwards)
      held.emplace_back(*seconds, i);
  }
  std::sort(held.begin(), held.end());
  trials.beginRound();
  for (auto [seconds, i] : held) {
    ChunkBytes chunks = candidates[i];
    chunks.holdsForwards = false;
    trials.add(chunks, i);
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
  ChunkChoice best = fastestOf(problem, candidates, options, kGoodEnough);
  bool isNone = best.moves.empty() && !problem.moves.empty();
  schedule.moves = std::move(best.moves);
  putCopiesFirst(problem, schedule);
  best.seconds = isNone ? std::numeric_limits<double>::infinity()
                        : delayMessages(problem, schedule, best.seconds);
  bool forwards = !problem.moves.empty() && problem.moves.back().hop > 0;
  for (WaveSolver solver :
       {forwards ? scheduleRounds : nullptr, scheduleWhole, scheduleExactly}) {
    WaveSchedule other;
    if (!solver || solver(problem, options, other))
      continue;
    joinIfFaster(problem, other);
    double seconds =
        delayMessages(problem, other, problem.seconds(other.moves));
    if (!isFaster(seconds, best.seconds))
      continue;
    best.seconds = seconds;
    schedule = std::move(other);
  }
  if (schedule.moves.empty() && !problem.moves.empty())
    return refuseMessages();
  return std::nullopt;
}
