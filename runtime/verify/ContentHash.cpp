//===- ContentHash.cpp - What a message carries ---------------------------===//

#include "ContentHash.h"

#include "dtrt/format/ShardView.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <random>

namespace dtrt {

/// Another in every process: nobody who writes a plan can know which contents
/// would hash alike.
static uint64_t hashSeed() {
  static const uint64_t seed = [] {
    std::random_device device;
    return uint64_t(device()) << 32 | device();
  }();
  return seed;
}

void ContentHash::add(const Segment &segment) {
  for (unsigned state : statesOf(segment.states))
    addBox(segment.family, state, segment.offset, segment.size);
}

void ContentHash::addBox(uint32_t family, unsigned state,
                         const DimVector &offset, const DimVector &size) {
  if (extend(family, state, offset, size))
    return;
  flush();
  pending = true;
  lastFamily = family;
  lastState = state;
  lastOffset = offset;
  lastSize = size;
}

/// A box continues the last one when they differ in one dim, where it starts
/// at the other's end, and all dims outside that one have size 1.
bool ContentHash::extend(uint32_t family, unsigned state,
                         const DimVector &offset, const DimVector &size) {
  if (!pending || family != lastFamily || state != lastState)
    return false;
  size_t dim = 0;
  while (dim < offset.size() && offset[dim] == lastOffset[dim] &&
         size[dim] == 1 && lastSize[dim] == 1)
    ++dim;
  if (dim == offset.size() || offset[dim] != lastOffset[dim] + lastSize[dim])
    return false;
  for (size_t inner = dim + 1; inner < offset.size(); ++inner)
    if (offset[inner] != lastOffset[inner] || size[inner] != lastSize[inner])
      return false;
  lastSize[dim] += size[dim];
  return true;
}

void ContentHash::flush() {
  if (!pending)
    return;
  words.push_back(lastFamily);
  words.push_back(lastState);
  words.insert(words.end(), lastOffset.begin(), lastOffset.end());
  words.insert(words.end(), lastSize.begin(), lastSize.end());
  pending = false;
}

Digest ContentHash::finish() {
  flush();
  XXH128_hash_t hash = XXH3_128bits_withSeed(
      words.data(), words.size() * sizeof(int64_t), hashSeed());
  words.clear();
  return {hash.low64, hash.high64};
}

} // namespace dtrt
