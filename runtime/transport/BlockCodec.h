//===- BlockCodec.h - Blocks of messages in fewer bytes ---------*- C++ -*-===//
//
// A message is cut into blocks of one size; a block holds runs of elements of
// one state each, which both ends know by the message's regions. A sender
// measures each state of each family of tensors once, on the first long run of
// it, and compresses it for links on which that pays; all else travels as it
// is. A block that would not be shorter is sent raw: its length says so.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_TRANSPORT_BLOCKCODEC_H
#define DTRT_LIB_TRANSPORT_BLOCKCODEC_H

#include "StateCodec.h"

#include "dtrt/core/Transport.h"
#include "dtrt/transport/CompressedTransport.h"

#include <map>
#include <vector>

namespace dtrt {

/// Bytes of one state and family that follow each other in a message.
struct ElementRun {
  uint32_t family = 0;
  unsigned state = 0;
  unsigned width = 1;
  uint64_t begin = 0, end = 0; // in the message
  std::string name;            // of the state
};

/// In order, without gaps. A message whose regions are not told is one run of
/// single bytes.
std::vector<ElementRun> runsOf(const TransportMessage &message);

class BlockCodec {
public:
  static Result<std::unique_ptr<BlockCodec>> create(uint64_t blockBytes);

  uint64_t blockBytes() const { return size; }
  /// Of the message from `at` on.
  uint64_t bytesAt(const TransportMessage &message, uint64_t at) const {
    return std::min(size, message.bytes - at);
  }
  /// At most as many bytes as the block has.
  size_t encode(const TransportMessage &message,
                const std::vector<ElementRun> &runs, uint64_t at,
                double linkBytesPerSecond, std::byte *out);
  Status decode(const TransportMessage &message,
                const std::vector<ElementRun> &runs, uint64_t at,
                const std::byte *in, size_t inBytes);
  /// Of all messages that were encoded here.
  const CompressionReport &report() const { return totals; }

private:
  BlockCodec(uint64_t blockBytes, std::unique_ptr<StateCodec> codec)
      : size(blockBytes), codec(std::move(codec)) {}
  uint8_t planesFor(const ElementRun &run, const std::byte *data, size_t bytes,
                    double linkBytesPerSecond);

  uint64_t size;
  std::unique_ptr<StateCodec> codec;
  std::map<std::pair<uint32_t, unsigned>, CodecGain> gains;
  CompressionReport totals;
};

} // namespace dtrt

#endif // DTRT_LIB_TRANSPORT_BLOCKCODEC_H
