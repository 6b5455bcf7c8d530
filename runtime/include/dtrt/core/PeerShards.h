//===- PeerShards.h - Messages in the shards of other processes -*- C++ -*-===//
//
// Where a process can read the source shards of another one, that packs no
// message: the receiver copies from shard to shard. The plan says what the
// sender would pack, and the sender where its buffers lie.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_CORE_PEERSHARDS_H
#define DTRT_CORE_PEERSHARDS_H

#include "dtrt/core/Packing.h"
#include "dtrt/core/Transport.h"

#include <functional>
#include <map>
#include <memory>

namespace dtrt {

/// Of each source buffer, in the order of shard, state and member, where it
/// lies in memory that `offsetOf(data, bytes)` knows; ShardPlaces::kNowhere:
/// not in that memory, or nowhere.
std::vector<uint64_t> sourcePlaces(
    const LocalStorage &storage,
    const std::function<std::optional<uint64_t>(const std::byte *, uint64_t)>
        &offsetOf);

/// By source shard, whether all of its buffers have a place.
std::vector<bool> placedShards(const LocalStorage &storage,
                               const std::vector<uint64_t> &places);

class PeerShards {
public:
  using LoadProgram = std::function<Result<RankProgram>(uint32_t device)>;

  /// Reads the programs of those whose shards the transport reads. Fails where
  /// a peer's places are not those of its program.
  static Result<std::unique_ptr<PeerShards>> prepare(const PlanCommon &common,
                                                     uint32_t device,
                                                     const Transport &transport,
                                                     const LoadProgram &load);

  /// What the peer's message of that wave is, where it may leave it in its
  /// shards; null: it packs it.
  const MessageView *viewOf(uint32_t peer, int32_t wave) const;
  /// Calls fn(data, bytes) for each source buffer of which this device reads.
  void forEachBuffer(
      const std::function<void(const std::byte *, uint64_t)> &fn) const;

private:
  /// Of one message.
  struct Source {
    std::vector<PreparedSegment> segments;
    MessageView view;
  };
  struct Peer {
    RankProgram program;
    std::unique_ptr<LocalStorage> storage;
    std::map<int32_t, Source> messages; // by wave
  };

  static Status bind(LocalStorage &storage, const ShardPlaces &places);
  static Status findMessages(const PlanCommon &common, uint32_t device,
                             Peer &peer, const std::vector<uint64_t> &places);

  std::map<uint32_t, Peer> peers; // by device
};

} // namespace dtrt

#endif // DTRT_CORE_PEERSHARDS_H
