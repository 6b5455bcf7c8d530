//===- Collectives.h - Blocks of a library's collectives --------*- C++ -*-===//

#ifndef DTRT_FORMAT_COLLECTIVES_H
#define DTRT_FORMAT_COLLECTIVES_H

#include "dtrt/cost/TimedCollectives.h"
#include "dtrt/format/PlanModel.h"

namespace dtrt {

/// Bytes of the blocks that a member gives.
inline uint64_t bytesGiven(const PlanCommon &common,
                           const GroupCollective &call, uint32_t device) {
  return call.blockBytes * blocksGiven(call.kind,
                                       common.memberSets[call.members].size(),
                                       call.root == device);
}
/// And of those that it gets.
inline uint64_t bytesGot(const PlanCommon &common, const GroupCollective &call,
                         uint32_t device) {
  return call.blockBytes * blocksGot(call.kind,
                                     common.memberSets[call.members].size(),
                                     call.root == device);
}

inline TimedCollective timedCollective(const PlanCommon &common, int32_t wave,
                                       const GroupCollective &call) {
  const std::vector<uint32_t> &members = common.memberSets[call.members];
  return {wave,
          call.kind,
          {members.begin(), members.end()},
          call.root,
          int64_t(call.blockBytes)};
}

} // namespace dtrt

#endif // DTRT_FORMAT_COLLECTIVES_H
