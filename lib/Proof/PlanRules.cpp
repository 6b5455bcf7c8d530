//===- PlanRules.cpp - All rules of the transport level -------------------===//

#include "dt/Proof/PlanRules.h"

#include "dt/Proof/CollectiveRules.h"
#include "dt/Proof/RelayRules.h"

namespace dt {

MaybeFault checkRules(const TransportPlan &plan, const Arrivals &arrivals,
                      const Wanted &wanted, const Cluster &cluster,
                      const MemoryLimits &limits, const ParallelFor &parallel) {
  if (auto fault = arrivals.checkCoverage(wanted))
    return fault;
  if (auto fault = arrivals.checkFeeding())
    return fault;
  if (auto fault = checkMessages(plan.pieces, plan.slots, parallel))
    return fault;
  if (auto fault = checkRelays(plan))
    return fault;
  if (auto fault = checkCollectives(plan))
    return fault;
  if (auto fault = checkDirect(plan, parallel))
    return fault;
  if (auto fault = checkPorts(plan.pieces, cluster))
    return fault;
  if (auto fault =
          checkSlots(plan.pieces, plan.slots, limits.staging, parallel))
    return fault;
  StayingShards staying(plan);
  if (auto fault = checkStorage(plan, staying, parallel))
    return fault;
  return checkMemory(measureMemory(plan, staying), limits);
}

} // namespace dt
