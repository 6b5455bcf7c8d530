//===- SharedShards.h - Ranks that read each other's shards -----*- C++ -*-===//

#ifndef DTRT_TRANSPORT_SHAREDSHARDS_H
#define DTRT_TRANSPORT_SHAREDSHARDS_H

#include "dtrt/core/ExecutionPlan.h"
#include "dtrt/core/PeerShards.h"
#include "dtrt/core/Storage.h"
#include "dtrt/core/Transport.h"
#include "dtrt/format/PlanReader.h"

namespace dtrt {

/// After `connect`, on all ranks: peers of this host read what source shards
/// lie in this process's SharedPages, and this rank theirs, as `options` then
/// says to an executor, which the result must outlive.
Result<std::unique_ptr<PeerShards>> shareShards(const PlanReader &plan,
                                                const LocalStorage &storage,
                                                Transport &transport,
                                                ExecutionOptions &options);

} // namespace dtrt

#endif // DTRT_TRANSPORT_SHAREDSHARDS_H
