//===- Compression.h - Which links are compressed ---------------*- C++ -*-===//
//
// A plan may say that messages between nodes, where a pair is slower than some
// rate, travel in fewer bytes. Both ends read it in the plan; whether it pays
// is the sender's to find out (BlockCodec.h). Messages go in blocks of one
// size, so that the memory for it is known ahead and counts as staging.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_COST_COMPRESSION_H
#define DTRT_COST_COMPRESSION_H

#include "dtrt/cost/Cluster.h"

namespace dtrt {

struct Compression {
  double belowGBps = 0;    // pairs that are slower; 0: none
  uint64_t blockBytes = 0; // of a message, before it is compressed

  static constexpr uint64_t kDefaultBlock = uint64_t(1) << 20;
  static constexpr uint64_t kLeastBlock = uint64_t(1) << 12;
  static constexpr uint64_t kMostBlock = uint64_t(1) << 26;
  /// A block is never longer than its raw bytes, and the length of the next one
  /// follows it.
  static constexpr uint64_t kHeaderBytes = 4;
  /// Of a sender: on the wire, next on it, being made.
  static constexpr uint64_t kFramesOut = 3;
  /// Of a receiver: on the wire, being read.
  static constexpr uint64_t kFramesIn = 2;
  /// At most, of the library's own state at both ends.
  static constexpr uint64_t kLibraryBytes = uint64_t(2) << 20;

  bool isOn() const { return belowGBps > 0; }
  uint64_t frameBytes() const { return blockBytes + kHeaderBytes; }
  /// Whether messages from one device to another may be compressed.
  bool covers(const Cluster &cluster, int64_t from, int64_t to) const {
    return isOn() && !cluster.sameNode(from, to) &&
           cluster.bytesPerSecond(from, to) < belowGBps * 1e9;
  }
  /// For as many messages as a NIC carries each way in a wave.
  uint64_t framesPerDevice(const Cluster &cluster) const {
    return uint64_t(cluster.messagesPerPort(/*interNode=*/true)) *
           (kFramesOut + kFramesIn);
  }
  /// What it takes of a device's staging at most: frames, and a block to sort
  /// bytes in.
  uint64_t bytesPerDevice(const Cluster &cluster) const {
    return isOn() ? framesPerDevice(cluster) * frameBytes() + blockBytes +
                        kLibraryBytes
                  : 0;
  }
  friend bool operator==(const Compression &a, const Compression &b) {
    return a.belowGBps == b.belowGBps && a.blockBytes == b.blockBytes;
  }
};

} // namespace dtrt

#endif // DTRT_COST_COMPRESSION_H
