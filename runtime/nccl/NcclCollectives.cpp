//===- NcclCollectives.cpp - A library's collectives as calls -------------===//

#include "NcclCollectives.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace dtrt {

namespace {

/// Which algorithm NCCL takes depends on a call's size, and each connects ranks
/// in its own way; by this size of a block it is taken to have settled.
constexpr uint64_t kWarmBlock = uint64_t(16) << 20;

/// The blocks of all other members; nobody reads a member's own.
ncclResult_t exchange(const NcclApi &api, ncclComm_t handle,
                      const NcclMember &self, const CollectiveCall &call,
                      cudaStream_t stream) {
  ncclResult_t result = api.GroupStart();
  for (size_t k = 0; k < self.members; ++k) {
    if (int(k) == self.rank)
      continue;
    uint64_t at = k * call.blockBytes;
    for (bool receive : {false, true}) {
      if (result != ncclSuccess && result != ncclInProgress)
        break;
      result = receive ? api.Recv(call.get + at, call.blockBytes, ncclUint8,
                                  int(k), handle, stream)
                       : api.Send(call.give + at, call.blockBytes, ncclUint8,
                                  int(k), handle, stream);
    }
  }
  ncclResult_t ended = api.GroupEnd(); // in any case: it is the thread's state
  return result == ncclSuccess || result == ncclInProgress ? ended : result;
}

} // namespace

Result<NcclMember> memberOf(const std::vector<uint32_t> &devices,
                            uint32_t device, const CollectiveCall &call) {
  NcclMember self;
  self.members = devices.size();
  auto rankOf = [&](uint32_t of, int &rank) {
    auto found = std::lower_bound(devices.begin(), devices.end(), of);
    rank = int(found - devices.begin());
    return found != devices.end() && *found == of;
  };
  if (!rankOf(device, self.rank))
    return makeError("device ", device, " is not in member set ", call.members);
  if (call.kind == CollectiveKind::Broadcast && !rankOf(call.root, self.root))
    return makeError("root ", call.root, " is not in member set ",
                     call.members);
  return self;
}

ncclResult_t enqueueCall(const NcclApi &api, ncclComm_t handle,
                         const NcclMember &self, const CollectiveCall &call,
                         cudaStream_t stream) {
  switch (call.kind) {
  case CollectiveKind::Broadcast: {
    std::byte *block = call.give ? call.give : call.get; // in place
    return api.Broadcast(block, block, call.blockBytes, ncclUint8, self.root,
                         handle, stream);
  }
  case CollectiveKind::AllGather:
    return api.AllGather(call.give, call.get, call.blockBytes, ncclUint8,
                         handle, stream);
  case CollectiveKind::AllToAll:
    return api.AlltoAll ? api.AlltoAll(call.give, call.get, call.blockBytes,
                                       ncclUint8, handle, stream)
                        : exchange(api, handle, self, call, stream);
  }
  return ncclInvalidArgument;
}

std::map<size_t, GroupCollective> warmCalls(const Traffic &traffic) {
  std::map<size_t, GroupCollective> chosen;
  std::set<std::tuple<uint32_t, CollectiveKind, uint64_t>> seen;
  for (const auto &[group, call] : traffic.calls) {
    GroupCollective warm = call;
    warm.blockBytes = std::min(call.blockBytes, kWarmBlock);
    if (seen.insert({warm.members, warm.kind, warm.blockBytes}).second)
      chosen[group] = warm;
  }
  return chosen;
}

} // namespace dtrt
