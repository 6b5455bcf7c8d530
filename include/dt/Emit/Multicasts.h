//===- Multicasts.h - Data that receivers pass on ---------------*- C++ -*-===//

#ifndef DT_EMIT_MULTICASTS_H
#define DT_EMIT_MULTICASTS_H

#include "dt/Proof/TransportPlan.h"
#include "dt/Routing/Router.h"

namespace dt {

/// Devices that share data which some of them pass on, as
/// dtrt::PlanSummary::multicasts defines it.
struct Multicast {
  std::vector<int64_t> devices; // ascending
  /// Of these, who sends what it had before.
  std::vector<int64_t> holders; // ascending

  bool isBroadcast() const { return holders.size() == 1; }
  bool isAllGather() const { return holders.size() == devices.size(); }
};

/// All multicasts of the waves of a plan, each set of devices once, in
/// ascending order. `flows` are its flows with cells.
std::vector<Multicast> multicasts(const TransportPlan &plan,
                                  const std::vector<Flow> &flows);

} // namespace dt

#endif // DT_EMIT_MULTICASTS_H
