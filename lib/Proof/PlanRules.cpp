//===- PlanRules.cpp - All rules of the transport level -------------------===//

#include "dt/Proof/PlanRules.h"

#include "FirstFault.h"
#include "dt/Proof/CollectiveRules.h"
#include "dt/Proof/RelayRules.h"

#include <functional>
#include <iterator>

namespace dt {

static MaybeFault checkStorageAndMemory(const TransportPlan &plan,
                                        const MemoryLimits &limits,
                                        const ParallelFor &parallel) {
  StayingShards staying(plan);
  if (auto fault = checkStorage(plan, staying, parallel))
    return fault;
  return checkMemory(measureMemory(plan, staying), limits);
}

MaybeFault checkRules(const TransportPlan &plan, const Arrivals &arrivals,
                      const Wanted &wanted, const Cluster &cluster,
                      const MemoryLimits &limits, const ParallelFor &parallel) {
  const std::function<MaybeFault()> rules[] = {
      [&] { return arrivals.checkCoverage(wanted); },
      [&] { return arrivals.checkFeeding(); },
      [&] { return checkMessages(plan.pieces, plan.slots, parallel); },
      [&] { return checkRelays(plan); },
      [&] { return checkCollectives(plan); },
      [&] { return checkDirect(plan, parallel); },
      [&] { return checkPorts(plan.pieces, cluster); },
      [&] {
        return checkSlots(plan.pieces, plan.slots, limits.staging, parallel);
      },
      [&] { return checkStorageAndMemory(plan, limits, parallel); }};
  return firstFault(
      std::size(rules), parallel, [&](size_t i) { return rules[i](); },
      /*atOnce=*/1);
}

} // namespace dt
