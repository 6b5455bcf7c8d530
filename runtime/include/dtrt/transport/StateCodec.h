//===- StateCodec.h - Elements of one state in fewer bytes ------*- C++ -*-===//
//
// Byte planes, of which those that gain by it are compressed; without loss.
// On CPUs by zstd (StateCodec.cpp), on GPUs by nvCOMP
// (runtime/cuda/AnsCodec.h). Encoded by zstd, a run of elements is
//
//   mask      1 byte: bit p says that plane p is compressed
//   sizes     4 bytes, little-endian, for each of these
//   planes    in order, each as it is or compressed
//
// or, where the mask is zero, the elements as they are.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TRANSPORT_STATECODEC_H
#define DTRT_TRANSPORT_STATECODEC_H

#include "dtrt/types/Status.h"

#include <cstdint>
#include <memory>

namespace dtrt {

/// Of the bytes that zstd makes, which peers compare; 0: this build has none.
uint8_t zstdCodecVersion();

/// What a state gains, found out from a sample of it.
struct CodecGain {
  uint8_t planes = 0; // those that gain
  uint64_t raw = 0, encoded = 0;
  double encodeSeconds = 0, decodeSeconds = 0;

  double ratio() const { return double(raw) / double(encoded); }
  /// Of raw bytes, where one end waits for the other.
  double bytesPerSecond() const {
    return double(raw) / (encodeSeconds + decodeSeconds);
  }
  /// Whether it may pay there were it so much faster.
  bool mayPayOn(double linkBytesPerSecond, double faster) const {
    return planes == 0 || paysOn(linkBytesPerSecond / faster);
  }
  /// Whether a link of this rate B ends sooner with it, one end after the
  /// other: raw / C + encoded / B < raw / B, that is C > B r / (r - 1).
  bool paysOn(double linkBytesPerSecond) const {
    return planes != 0 && encoded < raw &&
           encodeSeconds + decodeSeconds <
               double(raw - encoded) / linkBytesPerSecond;
  }
};

class StateCodec {
public:
  /// On CPUs. `mostBytes`: of a run. Fails where the build has no zstd.
  static Result<std::unique_ptr<StateCodec>> create(size_t mostBytes);
  virtual ~StateCodec() = default;

  /// The bytes that the run has become; 0: it does not fit into `room`.
  virtual size_t encode(const std::byte *run, size_t bytes, unsigned width,
                        uint8_t planes, std::byte *out, size_t room) = 0;
  /// The encoded bytes that were read; an error where they are none.
  virtual Result<size_t> decode(const std::byte *in, size_t inBytes,
                                std::byte *run, size_t bytes,
                                unsigned width) = 0;
  /// Encodes a sample and decodes it again, on memory of the same size twice.
  CodecGain measure(const std::byte *sample, size_t bytes, unsigned width);
  /// Of a sample: so long that its time is that of a long run, and short beside
  /// the message, for a link waits for the first ones.
  virtual size_t sampleBytes() const = 0;
  /// Of the shortest run that stands for others: what it takes longer for a
  /// byte is to the codec's disadvantage.
  virtual size_t leastSampleBytes() const = 0;
  /// Of a short one, whose time for a byte is not kMostOff times that of a long
  /// one; 0: there is no such length.
  virtual size_t quickSampleBytes() const = 0;
  static constexpr double kMostOff = 3;
  /// Of the library's own state.
  virtual size_t libraryBytes() const = 0;

private:
  virtual uint8_t planesThatGain(const std::byte *sample, size_t count,
                                 unsigned width) = 0;
  /// Where a sample of so many bytes can be decoded.
  virtual std::byte *sampleRoom(size_t bytes) = 0;
  /// Of a clock that shows what the codec costs, and little else.
  virtual double secondsNow() const = 0;
};

} // namespace dtrt

#endif // DTRT_TRANSPORT_STATECODEC_H
