//===- NcclCollectives.h - A library's collectives as calls -----*- C++ -*-===//
//
// A communicator of a member set numbers its ranks in the order of devices, so
// that the blocks of dtrt/types/Collective.h are NCCL's.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_NCCL_NCCLCOLLECTIVES_H
#define DTRT_LIB_NCCL_NCCLCOLLECTIVES_H

#include "NcclApi.h"

#include "dtrt/core/Transport.h"
#include "dtrt/transport/Traffic.h"

#include <vector>

namespace dtrt {

/// A rank's place in a communicator of a member set.
struct NcclMember {
  size_t members = 0;
  int rank = 0;
  int root = 0; // of a broadcast
};

/// Devices ascend. Fails where the device, or the root of a broadcast, is none
/// of them.
Result<NcclMember> memberOf(const std::vector<uint32_t> &devices,
                            uint32_t device, const CollectiveCall &call);

/// Puts the call on the stream. An all-to-all is ncclAlltoAll, or what that
/// does, where the library is older: a group with a message each way for every
/// pair.
ncclResult_t enqueueCall(const NcclApi &api, ncclComm_t handle,
                         const NcclMember &self, const CollectiveCall &call,
                         cudaStream_t stream);

/// Of each set and kind, the first call of each size: what is connected by one
/// of them serves all others. Members choose the same ones, so these are a part
/// of the plan's calls, in its order. Blocks are no larger than matters.
std::map<size_t, GroupCollective> warmCalls(const Traffic &traffic);

} // namespace dtrt

#endif // DTRT_LIB_NCCL_NCCLCOLLECTIVES_H
