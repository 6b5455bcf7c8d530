//===- WaveSolver.cpp - What answers wave problems ------------------------===//

#include "dt/Scheduling/WaveSolver.h"

#include "dt/Geometry/Limits.h"
#include "dt/Scheduling/BestSchedule.h"
#include "dt/Scheduling/ExactSchedule.h"
#include "dt/Scheduling/FlatSchedule.h"
#include "dt/Scheduling/RoundSchedule.h"
#include "dt/Scheduling/Schedule.h"

using namespace dt;

namespace {

struct Named {
  const char *name;
  WaveSolver solver;
};
constexpr Named kSolvers[] = {{"greedy", scheduleGreedily},
                              {"exact", scheduleExactly},
                              {"rounds", scheduleRounds},
                              {"best", scheduleBest},
                              {"flat", scheduleFlat}};

} // namespace

WaveSolver dt::findWaveSolver(const std::string &name) {
  for (const Named &named : kSolvers)
    if (name == named.name)
      return named.solver;
  return nullptr;
}

std::string dt::waveSolverNames() {
  std::string out;
  for (const Named &named : kSolvers)
    out += (out.empty() ? "" : ", ") + std::string(named.name);
  return out;
}

std::optional<std::string> dt::refuseStorage(const WaveProblem &problem) {
  if (!problem.storage)
    return std::nullopt;
  return "limits storage, which only the solver 'flat' looks at";
}

std::string dt::refuseStaging(const WaveProblem &problem, int64_t needed) {
  return "needs at least " + std::to_string(needed) +
         " bytes of staging per device, more than the limit of " +
         std::to_string(problem.stagingBytes) + " (memory.staging)";
}

std::string dt::refuseChunks(const WaveProblem &problem) {
  int64_t needed = stagingNeeded(problem);
  if (problem.stagingBytes < needed)
    return refuseStaging(problem, needed);
  needed = smallestStaging(problem);
  if (needed == 0)
    return refuseMessages();
  return refuseStaging(problem, needed) +
         ", so that no port cuts its bytes more than " +
         std::to_string(kMaxPortCuts) + " times";
}

std::string dt::refuseMessages() {
  return "has more messages than the limit of " + std::to_string(kMaxMessages);
}

void dt::putCopiesFirst(const WaveProblem &problem, WaveSchedule &schedule) {
  schedule.copies.clear();
  if (problem.copies.empty())
    return;
  for (const LocalMove &copy : problem.copies)
    schedule.copies.push_back({copy, 0});
  for (ScheduledMove &piece : schedule.moves)
    ++piece.wave;
}
