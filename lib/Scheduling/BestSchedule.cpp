//===- BestSchedule.cpp - The best of several schedules -------------------===//
//
//   1. Chunk sizes are scheduled one after the other, the most promising first
//      (ChunkSizes.h), and timed.
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

} // namespace

ChunkChoice dt::fastestOf(const WaveProblem &problem,
                          const std::vector<ChunkBytes> &candidates,
                          int64_t effort, double enough) {
  ChunkChoice best;
  double busiest = 0; // of the best
  int64_t tried = 0;
  // Invariant: `best` is the fastest of the candidates before i.
  for (size_t i = 0; i < candidates.size() && tried <= effort; ++i) {
    std::vector<ScheduledMove> scheduled = schedule(problem, candidates[i]);
    tried += int64_t(scheduled.size());
    if (scheduled.empty() && !problem.moves.empty())
      continue; // more messages than the limit
    std::vector<TimedMessage> messages = problem.messages(scheduled);
    double seconds = predictSeconds(messages, problem.cluster);
    if (best.moves.empty() || seconds < best.seconds) {
      best.moves = std::move(scheduled);
      best.seconds = seconds;
      best.candidate = i;
      PortSeconds ports = busiestPorts(messages, problem.cluster);
      busiest = std::max(ports.nic, ports.island);
    }
    if (best.seconds < enough * busiest)
      break;
  }
  return best;
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
