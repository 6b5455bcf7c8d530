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
/// from the same elements of the source, padding excepted; and no step creates
/// or releases any of it. Tensors that share storages by tensor come and go
/// with these. Pieces are placed (placePieces).
class StayingShards {
public:
  /// The plan must outlive this.
  explicit StayingShards(const TransportPlan &plan);
  /// With its indexes (indexShards), for those who have them.
  StayingShards(const TransportPlan &plan, const ShardIndex &source,
                const ShardIndex &destination);

  /// What stays of the flow on the device, in bytes of storage.
  int64_t bytesOf(uint32_t flow, int64_t device) const;
  /// Whether the device has the flow, and all of it stays.
  bool allOf(uint32_t flow, int64_t device) const;
  /// Whether all of a copied piece stays.
  bool isKept(const PlanPiece &copied) const;
  /// Destination bytes of a copied piece that stay.
  int64_t bytesOf(const PlanPiece &copied) const;

private:
  /// A shard of a flow on a device that is the same on both sides.
  struct Alike {
    const Shard *shard = nullptr;
    uint32_t number = 0;   // among the device's of the destination
    uint64_t states = 0;   // that may stay
    bool isCopied = false; // some of it; else nothing stays
  };
  struct Place {
    size_t before = 0, after = 0; // shards on both sides
    std::vector<Alike> shards;
  };
  void look(const ShardIndex &source, const ShardIndex &destination);
  void pair(uint32_t flow, const ShardIndex &source,
            const ShardIndex &destination);
  void lookAtStorage(const ShardIndex &source, const ShardIndex &destination);
  void lookAtPieces();
  std::optional<size_t> find(uint32_t flow, int64_t device,
                             const Shard &shard) const;
  Alike *find(const PlanPiece &piece);
  const Alike *find(const PlanPiece &piece) const;
  const Place *placeOf(uint32_t flow, int64_t device) const;

  const TransportPlan &plan;
  std::vector<std::map<int64_t, Place>> places; // by flow, then device
  std::vector<uint64_t> all;                    // states of each flow
};

} // namespace dt

#endif // DT_PROOF_STAYINGSHARDS_H
