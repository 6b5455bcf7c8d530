//===- StayingShards.h - Storage that is the same before and after -*- C++ -*-//
//
// In flat memory a shard that does not change stays where it is: its storage is
// of the source before and of the destination after, and exists once.
//
//===----------------------------------------------------------------------===//

#ifndef DT_PROOF_STAYINGSHARDS_H
#define DT_PROOF_STAYINGSHARDS_H

#include "dt/Proof/Certificate.h"

namespace dt {

/// The shards of a flat plan that stay. A shard does where both sides have it
/// alike, in states that both store alike; all that arrives in it is copied
/// from the same elements of the source; and no step creates or releases any of
/// it. Tensors that share storages by tensor come and go with these. Pieces are
/// placed (placePieces).
class StayingShards {
public:
  /// The plan must outlive this.
  explicit StayingShards(const TransportPlan &plan);

  /// Devices, ascending, on which some of the flow may stay.
  std::vector<int64_t> devicesOf(uint32_t flow) const;
  /// What stays there, in bytes.
  int64_t bytesOf(uint32_t flow, int64_t device) const;
  /// Whether the device has the flow, and all of it stays.
  bool allOf(uint32_t flow, int64_t device) const;

private:
  /// A shard of a flow on a device that is the same on both sides.
  struct Alike {
    const Shard *shard = nullptr;
    uint64_t states = 0; // that stay
  };
  struct Place {
    size_t before = 0, after = 0; // shards on both sides
    std::vector<Alike> shards;
  };
  void pair(uint32_t flow, const ShardIndex &source,
            const ShardIndex &destination);
  void drop(uint32_t flow, int64_t device, const Shard &shard,
            uint64_t states);

  const TransportPlan &plan;
  std::vector<std::map<int64_t, Place>> places; // by flow, then device
  std::vector<uint64_t> all;                    // states of each flow
};

} // namespace dt

#endif // DT_PROOF_STAYINGSHARDS_H
