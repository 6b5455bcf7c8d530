//===- StayingStates.h - Storage that is the same before and after -*- C++ -*-//
//
// In mode flat a shard that does not change stays where it is: it has one
// storage, which is of the source before and of the destination after. Copies
// from it to itself say so, and move nothing.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_FORMAT_STAYINGSTATES_H
#define DTRT_FORMAT_STAYINGSTATES_H

#include "dtrt/format/PlanModel.h"

namespace dtrt {

/// A state of a destination shard whose storage is that of a source shard.
struct StayingState {
  uint32_t source = 0, destination = 0; // shards of the program
  unsigned state = 0;
};

/// Whether an element of a member that both shards have, a source and a
/// destination one, lies at the same place of it in the state, stored alike.
bool haveAlikeMembers(const Family &family, const ShardRecord &source,
                      const ShardRecord &destination, unsigned state);

/// Whether a copy reads each element at the very place where it writes it, but
/// for the side. Of shards that are alike.
bool isSamePlace(const Segment &from, const Segment &to);

/// The states that stay, by destination shard and state; none in mode rollback.
/// A state does where a source shard and a destination shard are alike, and no
/// others with it; all that the program brings there is copied from the same
/// place, padding excepted; and it neither creates nor releases any of it. By
/// tensor, what shares a storage with others comes and goes with these.
std::vector<StayingState> stayingStates(const PlanCommon &common,
                                        const RankProgram &program);

/// The same as masks of states, by destination shard.
std::vector<uint64_t> stayingMasks(const PlanCommon &common,
                                   const RankProgram &program);

/// What a copy to `to` writes that is not there already.
Segment movedPart(const Segment &to, const std::vector<uint64_t> &masks);

/// Bytes of storage of what stays, padding included.
uint64_t stayingBytes(const PlanCommon &common, const RankProgram &program);

} // namespace dtrt

#endif // DTRT_FORMAT_STAYINGSTATES_H
