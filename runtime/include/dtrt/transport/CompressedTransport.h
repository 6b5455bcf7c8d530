//===- CompressedTransport.h - Slow links in fewer bytes --------*- C++ -*-===//
//
// Wraps a transport. Where the plan says that a link may be compressed, and
// both ends can, its messages go block by block: while one is on the wire, the
// next is compressed and the last is put where it belongs. What comes is what
// was sent, to the bit. A peer that cannot is found out when the two connect;
// its messages then go as they are, and so do those of states that are found
// not to gain on their link.
//
// Messages may lie on a GPU, whose own codec is used where both ends have one.
// Frames and what else it takes are counted in the plan (Compression.h).
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TRANSPORT_COMPRESSEDTRANSPORT_H
#define DTRT_TRANSPORT_COMPRESSEDTRANSPORT_H

#include "dtrt/core/Transport.h"
#include "dtrt/transport/HostStagedTransport.h"
#include "dtrt/transport/StateCodec.h"

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

/// Where messages lie that do not lie in the host's memory. Frames do: the
/// transport within is told so (TransportMessage::onHost).
struct CodecMemory {
  CopyBytes copy; // between there and the host; null: they lie in the host's
  /// A codec that reaches them there, for blocks of a size, in so much memory
  /// of theirs; null: there is none.
  std::function<Result<std::unique_ptr<StateCodec>>(size_t blockBytes,
                                                    uint64_t memoryBytes)>
      makeCodec;
  /// Of its bytes, which peers compare; never 0.
  uint8_t codecVersion = 0;
};

/// `report`: is told at the end of every group; may be empty.
std::unique_ptr<Transport> makeCompressedTransport(
    std::unique_ptr<Transport> inner, const Cluster &cluster,
    const Compression &compression,
    std::function<void(const CompressionReport &)> report = {},
    CodecMemory memory = {});

} // namespace dtrt

#endif // DTRT_TRANSPORT_COMPRESSEDTRANSPORT_H
