//===- PagePool.h - Pages that memories have in common ----------*- C++ -*-===//

#ifndef DTRT_CORE_PAGEPOOL_H
#define DTRT_CORE_PAGEPOOL_H

#include "dtrt/types/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace dtrt {

/// Which bytes exist, each as often as it is held. A page is in use while any
/// byte of it exists.
class PageUse {
public:
  virtual ~PageUse() = default;
  /// Bytes [at, at + bytes) exist once more. All of them, or after an error
  /// none that did not before.
  virtual Status hold(std::byte *at, uint64_t bytes) = 0;
  /// Once less.
  virtual Status letGo(std::byte *at, uint64_t bytes) = 0;
};

/// What would be in use: begins with what is, and changes nothing of it.
class PageRehearsal : public PageUse {
public:
  /// The most pages at once, above those at the beginning.
  virtual uint64_t mostMore() const = 0;
};

/// Pages of a device.
class PagePool : public PageUse {
public:
  virtual std::unique_ptr<PageRehearsal> rehearse() const = 0;
  /// So many pages more than are in use now are there for `hold`. After an
  /// error there are no more than before.
  virtual Status makeSure(uint64_t pages) = 0;
};

/// The bytes of tensors that lie in one storage of a pool.
class PooledBytes {
public:
  using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

  /// `tensors`: bytes [lo, hi) of each, from the start of the storage. `whole`:
  /// what is held of the storage, padding included; 0: it does not exist yet.
  PooledBytes(Ranges tensors, uint64_t whole)
      : tensors(std::move(tensors)), whole(whole) {}

  /// Bytes [lo, hi) of the storage at `start` exist.
  Status create(PageUse &pages, std::byte *start, uint64_t lo, uint64_t hi);
  /// They do not any more. At the first release padding goes too: from then on
  /// bytes are held that are in tensors, each as often as it is in one.
  Status release(PageUse &pages, std::byte *start, uint64_t lo, uint64_t hi);
  /// Bytes of tensors that exist, once some have been created or released.
  uint64_t live() const { return numLive; }

private:
  Ranges tensors;
  uint64_t whole, numLive = 0;
};

} // namespace dtrt

#endif // DTRT_CORE_PAGEPOOL_H
