//===- CheckPattern.h - Known values for checked runs -----------*- C++ -*-===//
//
// In a checked run every element's value is a function of tensor, state and
// position in the Virtual Parameter Space, so a byte that ends up in the wrong
// place is seen wherever it came from. Source padding holds values that no
// destination expects, destination buffers start poisoned, and destination
// padding must end up as its fill says, zeros without one.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_CORE_CHECKPATTERN_H
#define DTRT_CORE_CHECKPATTERN_H

#include "dtrt/core/Storage.h"

namespace dtrt {

/// The value's low bytes are the element; `position` is row-major in the full
/// tensor.
uint64_t patternSeed(const std::string &tensor, const std::string &state);
inline uint64_t patternValue(uint64_t seed, uint64_t position) {
  uint64_t x = (position + seed) * 0x9e3779b97f4a7c15ull;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ull;
  return x ^ (x >> 32);
}

/// Writes the pattern to a source shard's buffers.
void fillSource(LocalStorage &storage, uint32_t shard);
/// Overwrites a destination shard's buffers with a poison value.
void poisonDestination(LocalStorage &storage, uint32_t shard);
/// Poisons all of the destination, then fills all of the source: what stays
/// (StayingStates.h) has one buffer for both.
void fillShards(LocalStorage &storage);

struct CheckReport {
  uint64_t bytesChecked = 0;
  uint64_t mismatches = 0; // elements
  /// The first few, one line each: tensor, state, position, device.
  std::vector<std::string> first;
};

/// Compares a destination shard's buffers with the pattern.
void checkDestination(const LocalStorage &storage, uint32_t shard,
                      CheckReport &report);

} // namespace dtrt

#endif // DTRT_CORE_CHECKPATTERN_H
