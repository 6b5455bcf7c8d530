//===- BlockCodec.h - Blocks of messages in fewer bytes ---------*- C++ -*-===//
//
// A message is cut into blocks of one size; a block holds runs of elements of
// one state each, which both ends know by the message's regions. A sender
// measures each state of each family of tensors once, on the first long run of
// it, and compresses it for links on which that pays; all else travels as it
// is. Where a short sample shows that a link is far too fast, that is enough. A
// block that would not be shorter is sent raw: its length says so.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_TRANSPORT_BLOCKCODEC_H
#define DTRT_LIB_TRANSPORT_BLOCKCODEC_H

#include "dtrt/core/Transport.h"
#include "dtrt/transport/CompressedTransport.h"
#include "dtrt/transport/StateCodec.h"

#include <map>
#include <vector>

namespace dtrt {

/// A family of tensors and one of its states.
using StateKey = std::pair<uint32_t, unsigned>;

/// Bytes of one state and family that follow each other in a message.
struct ElementRun {
  StateKey key;
  unsigned width = 1;
  uint64_t begin = 0, end = 0; // in the message
  std::string name;            // of the state

  uint64_t bytes() const { return end - begin; }
};

/// In order, without gaps. A message whose regions are not told is one run of
/// single bytes.
std::vector<ElementRun> runsOf(const TransportMessage &message);

class BlockCodec {
public:
  /// On CPUs, of messages in the host's memory.
  static Result<std::unique_ptr<BlockCodec>> create(uint64_t blockBytes);
  /// `codec` may reach messages where they lie, else `copy` brings each block
  /// to the host, and back. `copy` null: they lie there.
  BlockCodec(uint64_t blockBytes, std::unique_ptr<StateCodec> codec,
             CopyBytes copy, bool reachesMessages);

  uint64_t blockBytes() const { return size; }
  /// Of the message from `at` on.
  uint64_t bytesAt(const TransportMessage &message, uint64_t at) const {
    return std::min(size, message.bytes - at);
  }
  /// Whether any of it is worth compressing for a link of this rate. Measures
  /// what it has not met before.
  Result<bool> paysOn(double linkBytesPerSecond,
                      const TransportMessage &message,
                      const std::vector<ElementRun> &runs);
  /// Whether `paysOn` has measured the run in a message, at the latest then.
  bool isMeasured(const ElementRun &run) const {
    return run.bytes() >= leastSample();
  }
  /// Shorter ones are never compressed.
  static bool isTooShort(const ElementRun &run);

  /// At most as many bytes as the block has.
  Result<size_t> encode(const TransportMessage &message,
                        const std::vector<ElementRun> &runs, uint64_t at,
                        double linkBytesPerSecond, std::byte *out);
  Status decode(const TransportMessage &message,
                const std::vector<ElementRun> &runs, uint64_t at,
                const std::byte *in, size_t inBytes);
  /// A message that is sent as it is.
  void countRaw(const std::vector<ElementRun> &runs);
  /// Of all messages that were sent from here.
  const CompressionReport &report() const { return totals; }

private:
  using PartBytes = std::map<std::string, CompressionReport::State>;

  uint64_t leastSample() const {
    return std::min<uint64_t>(codec->leastSampleBytes(), size / 2);
  }
  bool isAway() const { return copy && !reaches; }
  uint8_t planesFor(const ElementRun &run, double linkBytesPerSecond) const;
  Status measureFor(double linkBytesPerSecond, const ElementRun &run,
                    const TransportMessage &message);
  Result<CodecGain> measure(const ElementRun &run,
                            const TransportMessage &message, size_t most);
  Result<const std::byte *> read(const std::byte *data, size_t bytes);
  Status move(std::byte *to, const std::byte *from, size_t bytes) const;
  Result<size_t> encodeParts(const std::vector<ElementRun> &runs, uint64_t at,
                             const std::byte *data, size_t raw,
                             double linkBytesPerSecond, std::byte *out,
                             PartBytes &parts);
  Result<size_t> decodeParts(const std::vector<ElementRun> &runs, uint64_t at,
                             std::byte *data, size_t raw, const std::byte *in,
                             size_t inBytes);

  uint64_t size;
  std::unique_ptr<StateCodec> codec;
  CopyBytes copy;
  bool reaches;
  std::vector<std::byte> here; // a block of a message that lies elsewhere
  /// Of a long sample, or of a short one.
  struct Measured {
    CodecGain gain;
    bool isWhole = false;
  };
  std::map<StateKey, Measured> gains;
  CompressionReport totals;
};

} // namespace dtrt

#endif // DTRT_LIB_TRANSPORT_BLOCKCODEC_H
