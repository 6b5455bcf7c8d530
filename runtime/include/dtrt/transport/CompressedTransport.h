//===- CompressedTransport.h - Slow links in fewer bytes --------*- C++ -*-===//
//
// Wraps a transport. Where the plan says that a link may be compressed, and
// both ends can, its messages go block by block: while one is on the wire, the
// next is compressed and the last is put where it belongs. What comes is what
// was sent, to the bit. A peer that cannot is found out when the two connect;
// its messages then go as they are.
//
// Frames and what else it takes are counted in the plan (Compression.h).
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TRANSPORT_COMPRESSEDTRANSPORT_H
#define DTRT_TRANSPORT_COMPRESSEDTRANSPORT_H

#include "dtrt/core/Transport.h"

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace dtrt {

/// Whether this build can: it has zstd.
bool canCompress();

/// What a sender has made of messages over compressed links.
struct CompressionReport {
  struct State {
    uint64_t rawBytes = 0;
    uint64_t sentBytes = 0;
  };
  std::map<std::string, State> states; // by name
};

/// `report`: is told at the end of every group; may be empty.
std::unique_ptr<Transport> makeCompressedTransport(
    std::unique_ptr<Transport> inner, const Cluster &cluster,
    const Compression &compression,
    std::function<void(const CompressionReport &)> report = {});

} // namespace dtrt

#endif // DTRT_TRANSPORT_COMPRESSEDTRANSPORT_H
