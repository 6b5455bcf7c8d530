//===- PlanRules.h - All rules of the transport level -----------*- C++ -*-===//

#ifndef DT_PROOF_PLANRULES_H
#define DT_PROOF_PLANRULES_H

#include "dt/Proof/StorageRules.h"

namespace dt {

/// The first rule that a plan breaks, if it breaks any: what the lemmas suppose
/// of it. `plan` is staged and its pieces are placed (placePieces); `arrivals`
/// and `wanted` are its own.
MaybeFault checkRules(const TransportPlan &plan, const Arrivals &arrivals,
                      const Wanted &wanted, const Cluster &cluster,
                      const MemoryLimits &limits,
                      const ParallelFor &parallel = serialFor);

} // namespace dt

#endif // DT_PROOF_PLANRULES_H
