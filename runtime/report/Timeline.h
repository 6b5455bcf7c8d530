//===- Timeline.h - What every port does when -------------------*- C++ -*-===//

#ifndef DTRT_LIB_REPORT_TIMELINE_H
#define DTRT_LIB_REPORT_TIMELINE_H

#include "dtrt/cost/Simulation.h"
#include "dtrt/format/PlanReader.h"

namespace dtrt {

/// What programs do that takes time.
struct TimedWork {
  /// By wave, source and destination: the order in which the compiler predicts
  /// them.
  std::vector<TimedMessage> messages;
  std::vector<TimedCopy> copies; // by wave and device
};
Result<TimedWork> readWork(const PlanReader &plan);

/// Runs a plan against its own cluster.
Result<Timeline> buildTimeline(const PlanReader &plan);

} // namespace dtrt

#endif // DTRT_LIB_REPORT_TIMELINE_H
