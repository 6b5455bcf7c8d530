//===- NcclPeers.h - Whom a program has messages with -----------*- C++ -*-===//

#ifndef DTRT_CORE_NCCLPEERS_H
#define DTRT_CORE_NCCLPEERS_H

#include "dtrt/cost/NcclBuffers.h"
#include "dtrt/format/PlanModel.h"

namespace dtrt {

/// Where the plan's cluster says that they are. An all-to-all has messages with
/// all of its members, other collectives have none.
NcclPeers ncclPeersOf(const PlanCommon &common, const RankProgram &program);

/// Whether the plan's devices stand on several nodes.
bool hasSeveralNodes(const PlanCommon &common);

} // namespace dtrt

#endif // DTRT_CORE_NCCLPEERS_H
