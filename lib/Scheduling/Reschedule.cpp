//===- Reschedule.cpp - Around the waves of an old plan -------------------===//

#include "dt/Scheduling/Reschedule.h"

#include "KeptWaves.h"
#include "dt/Routing/Reroute.h"
#include "dt/Scheduling/BestSchedule.h"

using namespace dt;

std::optional<std::string> dt::reschedule(const WaveProblem &problem,
                                          const WaveOptions &options,
                                          KeptSchedule &kept) {
  bool isKept = !scheduleKept(problem, options, kept);
  double seconds = isKept ? problem.seconds(kept.schedule.moves) : 0;
  if (isKept && seconds <= kWorthKeeping * options.lowerBound)
    return std::nullopt;
  WaveSchedule other;
  if (auto error = scheduleBest(problem, options, other))
    return isKept ? std::nullopt : error;
  if (!isKept || seconds > kWorthKeeping * problem.seconds(other.moves))
    kept = {std::move(other), 0};
  return std::nullopt;
}
