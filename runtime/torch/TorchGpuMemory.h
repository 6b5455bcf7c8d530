//===- TorchGpuMemory.h - Storages of torch in a pool of pages --*- C++ -*-===//

#ifndef DTRT_TORCH_TORCHGPUMEMORY_H
#define DTRT_TORCH_TORCHGPUMEMORY_H

#include "TorchMemory.h"

#include "dtrt/cuda/GpuPages.h"

#include <memory>
#include <optional>

namespace dtrt {

/// The storage of one or several tensors on a GPU, at addresses of the
/// process's pool of pages, or without memory yet. Other storages have no
/// pages: they stay as they are.
///
/// A storage keeps its addresses while it has no memory, as copies are prepared
/// by addresses. Those that torch's allocator has given out of the pool
/// (torch.cuda.MemPool) never go back to it without their pages: it would give
/// them to the next tensor.
class TorchGpuMemory : public TorchMemory {
public:
  TorchGpuMemory(c10::weak_intrusive_ptr<c10::StorageImpl> storage,
                 std::shared_ptr<GpuPages> pool);
  ~TorchGpuMemory() override;

  /// Addresses for a storage that has none.
  Status prepare() override;
  bool hasPages() const override;
  std::byte *address() const override;
  Result<std::byte *> create(uint64_t lo, uint64_t hi) override;
  Status release(uint64_t lo, uint64_t hi) override;
  bool canTake(const LiveMemory &from) const override;
  PagePool *pool() const override { return pages.get(); }
  PooledBytes pooled() const override;

private:
  PooledBytes &bytesOf(const c10::StorageImpl &storage);

  std::shared_ptr<GpuPages> pages;
  at::DataPtr kept;                 // the addresses of a storage without memory
  std::optional<PooledBytes> bytes; // once some were created or released
  bool hasGone = false;             // a part of it
};

} // namespace dtrt

#endif // DTRT_TORCH_TORCHGPUMEMORY_H
