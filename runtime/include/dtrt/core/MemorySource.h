//===- MemorySource.h - Where owned buffers come from -----------*- C++ -*-===//

#ifndef DTRT_CORE_MEMORYSOURCE_H
#define DTRT_CORE_MEMORYSOURCE_H

#include "dtrt/types/Status.h"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace dtrt {

/// Bytes; every buffer of a storage starts on one.
constexpr uint64_t kCacheLine = 64;

/// `bytes`, up to whole units.
inline uint64_t roundUp(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Where owned buffers come from: host memory, or a device's. `allocate` gives
/// nothing when there is no more.
struct MemorySource {
  std::function<std::byte *(uint64_t)> allocate;
  std::function<void(std::byte *)> free;
  /// Gives whole pages of a block back to the machine; they may be written
  /// again. Empty where a block can only be freed whole.
  std::function<void(std::byte *, uint64_t)> discard;
  uint64_t page = 0; // bytes; blocks start on one
  /// Of blocks that are only addresses, with a page: whole pages of one are
  /// memory from `provide`, with any content, until `takeBack`. Nobody but a
  /// device may read or write them.
  std::function<Status(std::byte *, uint64_t)> provide = {}, takeBack = {};
};
/// Zeroed, on cache lines.
MemorySource hostMemory();
/// Addresses whose pages exist from the first write until they are discarded.
MemorySource hostPages();

} // namespace dtrt

#endif // DTRT_CORE_MEMORYSOURCE_H
