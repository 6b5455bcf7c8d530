//===- Transport.h - How bytes get to another device ------------*- C++ -*-===//
//
// A transport runs groups of messages. A group is a rendezvous: it returns when
// all its messages are done, and a rank has one group at a time. Messages of an
// ordered pair of devices are matched in the order of the groups that hold
// them; a group has at most one message per ordered pair.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_CORE_TRANSPORT_H
#define DTRT_CORE_TRANSPORT_H

#include "dtrt/format/PlanReader.h"
#include "dtrt/types/Status.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace dtrt {

struct MessageRegions;
struct MessageView;
class StreamTransport;

struct TransportMessage {
  bool receive = false;
  uint32_t peer = 0;
  std::byte *data = nullptr; // read only, unless receive
  uint64_t bytes = 0;
  /// Where the bytes lie in the sender's, or shall lie in the receiver's
  /// shards; then `data` is not used where the transport sees peers' memory.
  /// Only for transports that can do it (TransportCaps).
  const MessageView *view = nullptr;
  /// Whose bytes they are, for a transport that asks for it; null: not told, at
  /// either end.
  const MessageRegions *regions = nullptr;
  /// It lies in the host's memory, wherever others do.
  bool onHost = false;
  /// Receive: where the peer has the bytes, if it leaves them in its shards.
  const MessageView *peerView = nullptr;
};

/// A member's part in a library's collective. Memory is blocks, as
/// dtrt/types/Collective.h has them; none is touched after it but by its owner.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::Broadcast;
  uint32_t members = 0; // which of the sets that were prepared
  uint32_t root = 0;    // device, of a broadcast
  uint64_t blockBytes = 0;
  std::byte *give = nullptr, *get = nullptr; // null: no blocks
  /// What is in the blocks, by pair: for transports that look at it.
  const std::vector<TransportMessage> *messages = nullptr;
};

/// Where a peer's source buffers lie, in memory of it that this process reads:
/// bytes from `start`, in the order of `sourcePlaces` (PeerShards.h).
struct ShardPlaces {
  static constexpr uint64_t kNowhere = UINT64_MAX;
  const std::byte *start = nullptr;
  uint64_t bytes = 0; // of that memory
  std::vector<uint64_t> places;
};

/// What a transport can do beyond moving bytes.
struct TransportCaps {
  /// All devices are in one address space, so that messages may go from shard
  /// to shard without staging.
  bool seesPeerMemory = false;
  /// It uses the regions of messages, which are not found otherwise.
  bool usesRegions = false;
  /// It works on between `begin` and `end`, while the rank does something else.
  bool overlaps = false;
  /// Devices, ascending. Messages from these may have a view, into which the
  /// transport unpacks them as they come; `data` stays scratch memory for it.
  /// Groups then end later, and unpacking costs no copy of its own.
  std::vector<uint32_t> unpacksFrom;
  /// Devices, ascending, whose messages never leave the host; both ends know it
  /// of each other.
  std::vector<uint32_t> sameHost;
  /// Devices, ascending, whose source shards this process reads (`placesOf`),
  /// and those that read this one's. A message to the latter may have a view of
  /// shards that have a place, in place of `data`.
  std::vector<uint32_t> readsFrom, readBy;

  bool isOnSameHost(uint32_t peer) const {
    return std::binary_search(sameHost.begin(), sameHost.end(), peer);
  }
  bool isReadBy(uint32_t peer) const {
    return std::binary_search(readBy.begin(), readBy.end(), peer);
  }
  bool unpacksFromPeer(uint32_t peer) const {
    return std::binary_search(unpacksFrom.begin(), unpacksFrom.end(), peer);
  }
};

/// One device's end of a transport.
class Transport {
public:
  virtual ~Transport() = default;
  virtual uint32_t device() const = 0;
  /// This, where groups can be put on a GPU's stream.
  virtual StreamTransport *onStreams() { return nullptr; }
  /// What it can do. Once it has connected it may be able to do more.
  virtual TransportCaps caps() const { return {}; }
  /// Connects to every peer, after all ranks have compared their digests.
  /// Collective; called once before the first group.
  virtual Status connect(const Digest &digest,
                         const std::vector<uint32_t> &peers) = 0;
  /// After `connect`, on all ranks, at most once: lets peers of this host read
  /// what this process has in its SharedPages. `places`: offsets there, of all
  /// source buffers. Who can read whom is in `caps` afterwards.
  virtual Status shareShards(const std::vector<uint64_t> & /*places*/) {
    return {};
  }
  /// Of a device of `caps().readsFrom`; null: of any other.
  virtual const ShardPlaces *placesOf(uint32_t /*peer*/) const {
    return nullptr;
  }
  /// After `connect`: memory for the staging arena, zeroed, which stays the
  /// transport's and stays until it is destroyed; null: the caller's own will
  /// do. At most once.
  virtual Result<std::byte *> allocateArena(uint64_t /*bytes*/) {
    return nullptr;
  }
  /// After `connect`, on all ranks: most messages of the groups to come lie in
  /// this memory (null: they do not), which stays until `leave`.
  virtual Status registerArena(std::byte * /*data*/, uint64_t /*bytes*/) {
    return {};
  }
  /// Collective, once, before the first group: what first uses cost. Where the
  /// process has other communicators, none of them may be at work: the caller
  /// is between two steps of training.
  virtual Status warmUp() { return {}; }
  virtual Status group(const std::vector<TransportMessage> &messages) = 0;
  /// A group in two parts, of which `end` is called when `begin` went well. In
  /// between, the memory of the messages is the transport's.
  virtual Status begin(const std::vector<TransportMessage> &messages) {
    return group(messages);
  }
  virtual Status end() { return {}; }
  /// After `connect`, on all ranks, before the first group: the member sets of
  /// the collectives to come. Makes a communicator for each that this device is
  /// in.
  virtual Status
  prepareCollectives(const std::vector<std::vector<uint32_t>> &sets) {
    return sets.empty() ? Status()
                        : makeError("this transport has no library's "
                                    "collectives, which the plan needs");
  }
  /// A rendezvous of all members of a set, in place of a group.
  virtual Status collective(const CollectiveCall & /*call*/) {
    return makeError("this transport has no library's collectives");
  }
  /// Tells every rank that this one has failed; no rank hangs after it.
  virtual void abort(const Status &why) = 0;
  /// No further group of this rank will come; a second call does nothing.
  virtual void leave() = 0;
};

} // namespace dtrt

#endif // DTRT_CORE_TRANSPORT_H
