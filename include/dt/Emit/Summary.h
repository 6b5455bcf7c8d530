//===- Summary.h - The numbers that a plan states ---------------*- C++ -*-===//

#ifndef DT_EMIT_SUMMARY_H
#define DT_EMIT_SUMMARY_H

#include "dt/Geometry/Parallel.h"
#include "dt/Proof/TransportPlan.h"
#include "dt/Routing/Router.h"
#include "dt/Scheduling/PlanMessage.h"
#include "dtrt/format/PlanModel.h"

namespace dt {

/// Sets bytes, times, memory and counts of a staged plan; limits, mode and
/// proof fields stay. `flows` are its flows with cells.
void summarize(const TransportPlan &plan,
               const std::vector<PlanMessage> &messages,
               const std::vector<Flow> &flows, const Cluster &cluster,
               dtrt::PlanSummary &out, const ParallelFor &parallel = serialFor);

} // namespace dt

#endif // DT_EMIT_SUMMARY_H
