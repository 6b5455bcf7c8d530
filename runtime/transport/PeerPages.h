//===- PeerPages.h - What ranks of a host show of their pages ---*- C++ -*-===//
//
// A rank hands the file of its SharedPages to its links, with a table of where
// its source buffers lie there; a peer maps the file to read, never to write.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TRANSPORT_PEERPAGES_H
#define DTRT_TRANSPORT_PEERPAGES_H

#include "LocalSocket.h"

#include "dtrt/core/Transport.h"

namespace dtrt {

/// A rank's table, in its own shared pages as long as this is there. Without a
/// descriptor where no buffer lies in them, or where the system has no more.
class SharedTable {
public:
  explicit SharedTable(const std::vector<uint64_t> &places);
  ~SharedTable();
  SharedTable(const SharedTable &) = delete;
  SharedTable &operator=(const SharedTable &) = delete;

  /// Of the pages' file, through which it can only be read; -1: none.
  int descriptor() const { return file.get(); }
  /// Where in the file the table lies; 0 without one.
  uint64_t offset() const;

private:
  const uint64_t bytes;
  std::byte *start = nullptr;
  Descriptor file;
};

/// The pages of a peer, mapped here.
class PeerPages {
public:
  PeerPages() = default;
  PeerPages(PeerPages &&other) noexcept { *this = std::move(other); }
  PeerPages &operator=(PeerPages &&other) noexcept {
    std::swap(shards, other.shards);
    return *this;
  }
  ~PeerPages();
  /// `parcel`: the file, and where in it the table lies. A file whose size can
  /// change and a table beyond it are the peer's fault (PeerLost); a mapping
  /// that the system refuses is none (System).
  static Result<PeerPages> map(const Parcel &parcel);

  const ShardPlaces &places() const { return shards; }

private:
  ShardPlaces shards;
};

} // namespace dtrt

#endif // DTRT_TRANSPORT_PEERPAGES_H
