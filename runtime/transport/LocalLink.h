//===- LocalLink.h - Messages of one pair inside a host ---------*- C++ -*-===//
//
// One socket per pair carries frames both ways. A sender says where in its
// arena or in its shared pages a message lies, or that it is in its shards, and
// the receiver that it has taken it; a message that lies elsewhere follows its
// frame. A frame of the next group may be there already: nothing is read beyond
// what the group under way needs.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TRANSPORT_LOCALLINK_H
#define DTRT_TRANSPORT_LOCALLINK_H

#include "LocalSocket.h"

#include "dtrt/core/Transport.h"

#include <chrono>

namespace dtrt {

/// Memory of a peer's arena, mapped here, read only.
class PeerArena {
public:
  PeerArena() = default;
  PeerArena(PeerArena &&other) noexcept { *this = std::move(other); }
  PeerArena &operator=(PeerArena &&other) noexcept {
    std::swap(start, other.start);
    std::swap(size, other.size);
    return *this;
  }
  ~PeerArena();
  /// Memory that may still shrink, or is not as large as was said, is refused:
  /// to read beyond it would end this process.
  static Result<PeerArena> map(const Parcel &parcel);

  const std::byte *data() const { return start; }
  uint64_t bytes() const { return size; }

private:
  const std::byte *start = nullptr;
  uint64_t size = 0;
};

/// Lets memory neither grow nor shrink any more, and others only read it.
bool sealSharedMemory(const Descriptor &memory);

/// Where a rank has what it sends.
struct SentFrom {
  enum Memory { Arena, Pages, Elsewhere } memory = Elsewhere;
  uint64_t offset = 0;
};

class LocalLink {
public:
  /// `name`: of the peer, in errors; `peer`: its rank.
  LocalLink(std::string name, Descriptor socket, GoneRanks peer = {})
      : name(std::move(name)), peer(std::move(peer)),
        stream(std::move(socket)) {}

  const Descriptor &socket() const { return stream; }
  /// What the peer has handed over; nothing, where it has no arena.
  Status mapPeerArena(const Parcel &parcel);

  /// What this rank reads of the peer's pages; must outlive the link's groups.
  void readPages(const ShardPlaces &of) { peerPages = &of; }

  /// Adds a message of the group under way; at most one each way. `from`: of
  /// one that is sent, unless it lies in the shards of its view.
  void post(const TransportMessage &message, SentFrom from = {});
  /// Whether the group's messages are done; the peer has its own view of it.
  bool done() const { return !incoming && !outgoing && outputLeft() == 0; }
  /// What to poll the socket for.
  short events() const;
  /// Goes as far as it goes without waiting. An error names the peer, or is
  /// what the peer itself has failed with.
  Status progress();
  Status timedOut(std::chrono::duration<double> timeout) const;
  /// Tells the peer that this rank has failed.
  void sayAborted(const std::string &why);

private:
  struct Frame {
    uint64_t kind = 0;
    uint64_t offset = 0; // in the sender's arena or pages
    uint64_t bytes = 0;
  };

  size_t outputLeft() const { return headLeft + bodyLeft + owesTaken; }
  void put(const Frame &frame);
  Status write();
  Status read();
  Status handle(const Frame &frame);
  Status takeFrom(const std::byte *memory, uint64_t size, const Frame &frame);
  Status takeFromShards();
  Status finishBody();
  Status lost(const std::string &reason) const;
  std::string nameOfPending() const;

  std::string name;
  GoneRanks peer; // when it is lost
  Descriptor stream;
  PeerArena peerArena;
  const ShardPlaces *peerPages = nullptr;
  std::optional<TransportMessage> incoming, outgoing;
  bool owesTaken = false;

  // What is being written.
  Frame head;
  size_t headLeft = 0;
  const std::byte *body = nullptr;
  size_t bodyLeft = 0;
  // What is being read.
  Frame got;
  size_t gotBytes = 0;
  std::byte *into = nullptr;
  size_t intoLeft = 0;
  std::string abortText; // not empty: is being read
};

} // namespace dtrt

#endif // DTRT_TRANSPORT_LOCALLINK_H
