//===- RegionHash.h - Hashes of runs of bytes, on CPUs and GPUs -*- C++ -*-===//
//
// Two sums of 64 bits over the words of a region, each word mixed with its
// place in it: what is added in any order is the same, so that blocks of
// threads share a region. It finds what a wire breaks, not what an adversary
// makes.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_CUDA_REGIONHASH_H
#define DTRT_LIB_CUDA_REGIONHASH_H

#include "dtrt/core/BoxCopy.h"

namespace dtrt {

struct RegionHash {
  uint64_t low = 0, high = 0;
  bool operator==(const RegionHash &other) const {
    return low == other.low && high == other.high;
  }
};

/// One region of a launch.
struct HashRow {
  const std::byte *data = nullptr;
  uint64_t bytes = 0;
  uint64_t firstTile = 0;    // tiles of the rows before it
  RegionHash *sum = nullptr; // which is added to
};

/// Bytes of a tile, which one block of threads hashes at a time.
constexpr uint64_t kHashTileBytes = 32768;
constexpr uint64_t kHashWordBytes = 8;

inline uint64_t hashTilesOf(uint64_t bytes) {
  return (bytes + kHashTileBytes - 1) / kHashTileBytes;
}

/// The finalizer of splitmix64 (S. Vigna, public domain).
DTRT_HOST_DEVICE inline uint64_t mixBits(uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ull;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebull;
  return bits ^ (bits >> 31);
}

/// The row that a tile belongs to: the last whose first tile is not above it,
/// of those that have tiles.
DTRT_HOST_DEVICE inline uint32_t hashRowOfTile(const HashRow *rows,
                                               uint32_t count, uint64_t tile) {
  uint32_t lo = 0, hi = count;
  while (hi - lo > 1) {
    uint32_t middle = lo + (hi - lo) / 2;
    if (rows[middle].firstTile <= tile)
      lo = middle;
    else
      hi = middle;
  }
  return lo;
}

/// Word number `index` of a region; the last one may be short.
DTRT_HOST_DEVICE inline uint64_t hashWord(const HashRow &row, uint64_t index) {
  const std::byte *at = row.data + index * kHashWordBytes;
  uint64_t left = row.bytes - index * kHashWordBytes;
  if (left < kHashWordBytes)
    return readElement(at, uint32_t(left), 1);
  auto place = reinterpret_cast<uint64_t>(at);
  uint32_t access = place % 8 == 0 ? 8 : place % 4 == 0 ? 4 : place % 2 ? 1 : 2;
  return readElement(at, uint32_t(kHashWordBytes), access);
}

/// What one of `threads` threads adds for a tile of its row.
DTRT_HOST_DEVICE inline RegionHash hashShare(const HashRow &row, uint64_t tile,
                                             uint32_t thread,
                                             uint32_t threads) {
  uint64_t first = (tile - row.firstTile) * (kHashTileBytes / kHashWordBytes);
  uint64_t words = (row.bytes + kHashWordBytes - 1) / kHashWordBytes;
  uint64_t end = first + kHashTileBytes / kHashWordBytes;
  RegionHash sum;
  for (uint64_t i = first + thread; i < end && i < words; i += threads) {
    uint64_t word = hashWord(row, i);
    sum.low += mixBits(word ^ mixBits(i + 1));
    sum.high += mixBits(word ^ mixBits(~i));
  }
  return sum;
}

} // namespace dtrt

#endif // DTRT_LIB_CUDA_REGIONHASH_H
