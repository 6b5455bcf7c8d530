//===- Summary.h - The numbers that a plan states ---------------*- C++ -*-===//

#ifndef DT_EMIT_SUMMARY_H
#define DT_EMIT_SUMMARY_H

#include "dt/Proof/TransportPlan.h"
#include "dt/Routing/Router.h"
#include "dtrt/PlanModel.h"

namespace dt {

/// Bytes, times, memory and counts of a staged plan. `flows` are its flows with
/// cells. Limits, mode and proof fields are left to the caller.
dtrt::PlanSummary summarize(const TransportPlan &plan,
                            const std::vector<Flow> &flows,
                            const Cluster &cluster);

} // namespace dt

#endif // DT_EMIT_SUMMARY_H
