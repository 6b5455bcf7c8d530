//===- BestSchedule.cpp - The best of several schedules -------------------===//

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
    std::vector<ScheduledMove> scheduled;
    if (!schedule(problem, candidates[i], scheduled, best.needed))
      continue;
    tried += int64_t(scheduled.size());
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
  ChunkChoice best =
      fastestOf(problem, candidates, options.effort, kGoodEnough);
  if (best.moves.empty() && !problem.moves.empty())
    return refuseStaging(problem, best.needed);
  schedule.moves = std::move(best.moves);
  WaveSchedule exact;
  if (!scheduleExactly(problem, options, exact) &&
      problem.seconds(exact.moves) < best.seconds * (1 - 1e-12))
    schedule = std::move(exact);
  else
    putCopiesFirst(problem, schedule);
  return std::nullopt;
}
