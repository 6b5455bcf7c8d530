//===- TorchMemory.h - Storages of torch that come and go -------*- C++ -*-===//

#ifndef DTRT_TORCH_TORCHMEMORY_H
#define DTRT_TORCH_TORCHMEMORY_H

#include "dtrt/core/LiveStorage.h"

#include <c10/core/StorageImpl.h>

#include <optional>
#include <vector>

namespace dtrt {

/// The storage of one or several tensors on the host. All of them stay valid
/// objects: as after `untyped_storage().resize_()` they see what is there now.
///
/// What is made here is a mapping of its own, or lies in the process's shared
/// pages. Its pages come and go one by one; those that are not there cannot be
/// touched and count for no limit. Storages of torch's allocators go whole, but
/// their pages go to the system at once, whatever the allocator does with the
/// addresses.
class TorchMemory : public LiveMemory {
public:
  explicit TorchMemory(c10::weak_intrusive_ptr<c10::StorageImpl> storage);

  /// Whether it lies in the process's shared pages.
  bool isShared() const;
  /// What is made here from now on lies in shared pages, where there are any.
  void makeShared() { makesShared = true; }
  /// A tensor lies at [offset, offset + bytes) of it, before create or release.
  void add(uint64_t offset, uint64_t bytes);
  /// Why it cannot be given back: tensors that nobody has named lie there too,
  /// or it is not torch's own. Empty: it can.
  std::string whyItStays() const;

  struct Extent {
    std::byte *start = nullptr;
    uint64_t bytes = 0;
  };
  /// The storage as it was last made or given back here; none: neither was.
  const std::optional<Extent> &remade() const { return extent; }

  /// When all tensors are known, before the plan's copies are.
  virtual Status prepare() { return {}; }
  /// Mappings made here, and what has no memory yet.
  bool hasPages() const override;
  Result<std::byte *> create(uint64_t lo, uint64_t hi) override;
  Status release(uint64_t lo, uint64_t hi) override;
  bool canTake(const LiveMemory &from) const override;
  void take(LiveMemory &from) override;

protected:
  using Bytes = std::vector<std::pair<uint64_t, uint64_t>>;
  void set(c10::StorageImpl &storage, at::DataPtr data, uint64_t bytes);
  uint64_t needs() const { return needed; }
  const Bytes &ofTensors() const { return tensors; }
  c10::intrusive_ptr<c10::StorageImpl> lock() const { return weak.lock(); }

private:
  bool isMapped(const c10::StorageImpl &storage) const;
  Status reserve(c10::StorageImpl &storage);
  void countAll();
  uint64_t named() const;
  /// Adds bytes [lo, hi) to their pages, or takes them away. Calls fn(first,
  /// last) for runs of pages that begin, or cease, to have any.
  template <typename Fn> void count(uint64_t lo, uint64_t hi, bool live, Fn fn);

  c10::weak_intrusive_ptr<c10::StorageImpl> weak;
  bool makesShared = false;
  uint64_t page;
  std::optional<Extent> extent;
  uint64_t needed = 0;         // bytes, to the end of the last tensor
  Bytes tensors;               // their bytes
  uint64_t live = 0;           // bytes that exist
  std::vector<uint32_t> pages; // the same of each page
};

} // namespace dtrt

#endif // DTRT_TORCH_TORCHMEMORY_H
