//===- CollectiveTimer.h - How long a collective takes ----------*- C++ -*-===//
//
// As calls of a library, or as messages: scheduled as if the collective had the
// cluster to itself, and timed by the simulation whose result plans state
// (dtrt/cost/Simulation.h). So a plan of nothing else is predicted to take as
// long.
//
//===----------------------------------------------------------------------===//

#ifndef DT_PASSES_COLLECTIVETIMER_H
#define DT_PASSES_COLLECTIVETIMER_H

#include "TransitionAnalysis.h"
#include "dt/Scheduling/LibraryWaves.h"

namespace dt {

class CollectiveTimer {
public:
  /// `info` must outlive this.
  explicit CollectiveTimer(const TransitionInfo &info);

  double secondsOf(const std::vector<LibraryCall> &calls) const;
  /// Of the transfers of a collective of flow `number`, as messages; infinite
  /// where they have no schedule.
  double secondsOf(CollectiveOp op, uint32_t number) const;

private:
  const TransitionInfo &info;
  std::vector<int64_t> elementBytes; // by flow
  StoredFlows stored;
};

} // namespace dt

#endif // DT_PASSES_COLLECTIVETIMER_H
