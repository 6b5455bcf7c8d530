//===- TorchGpuMemory.cpp - Storages of torch in a pool of pages ----------===//

#include "TorchGpuMemory.h"

#include "dtrt/cuda/GpuMemory.h"

#include <algorithm>
#include <mutex>

namespace dtrt {

namespace {

struct Reservation {
  std::shared_ptr<GpuPages> pool;
  std::byte *start = nullptr;
};

/// When the last tensor there has gone. The trainer may have work on the GPU
/// that uses it, as with any memory that is freed.
void giveBack(void *context) {
  std::unique_ptr<Reservation> own(static_cast<Reservation *>(context));
  (void)awaitGpu(own->pool->gpu());
  (void)own->pool->free(own->start);
}

/// Addresses of torch's allocator that have lost their pages, for good.
void park(at::DataPtr data) {
  static std::mutex mutex;
  static auto *all = new std::vector<at::DataPtr>;
  std::lock_guard<std::mutex> lock(mutex);
  all->push_back(std::move(data));
}

bool isOurs(const at::DataPtr &data) { return data.get_deleter() == &giveBack; }

} // namespace

TorchGpuMemory::TorchGpuMemory(
    c10::weak_intrusive_ptr<c10::StorageImpl> storage,
    std::shared_ptr<GpuPages> pool)
    : TorchMemory(std::move(storage)), pages(std::move(pool)) {}

TorchGpuMemory::~TorchGpuMemory() {
  if (kept && !isOurs(kept))
    park(std::move(kept));
  auto storage = lock();
  bool isTorn =
      hasGone && bytes->live() > 0 && storage && !isOurs(storage->data_ptr());
  if (!isTorn)
    return;
  park(storage->set_data_ptr(at::DataPtr()));
  set(*storage, at::DataPtr(), 0);
}

Status TorchGpuMemory::prepare() {
  auto storage = lock();
  if (!storage || storage->nbytes() > 0 || kept)
    return {};
  auto start = pages->reserve(needs());
  DTRT_RETURN_IF_ERROR(start);
  kept = at::DataPtr(*start, new Reservation{pages, *start}, &giveBack,
                     storage->device());
  return {};
}

bool TorchGpuMemory::hasPages() const {
  auto storage = lock();
  return storage &&
         (storage->nbytes() == 0 || pages->has(storage->data_ptr().get()));
}

std::byte *TorchGpuMemory::address() const {
  auto storage = lock();
  if (storage && storage->nbytes() > 0)
    return static_cast<std::byte *>(storage->data_ptr().get());
  return static_cast<std::byte *>(kept.get());
}

PooledBytes TorchGpuMemory::pooled() const {
  if (bytes)
    return *bytes;
  auto storage = lock();
  return PooledBytes(ofTensors(), storage ? storage->nbytes() : 0);
}

PooledBytes &TorchGpuMemory::bytesOf(const c10::StorageImpl &storage) {
  if (!bytes)
    bytes.emplace(ofTensors(), storage.nbytes());
  return *bytes;
}

Result<std::byte *> TorchGpuMemory::create(uint64_t lo, uint64_t hi) {
  auto storage = lock();
  if (!storage)
    return makeError("the storage of a destination tensor is gone");
  DTRT_RETURN_IF_ERROR(prepare());
  PooledBytes &own = bytesOf(*storage);
  if (storage->nbytes() == 0) {
    set(*storage, std::move(kept), needs());
    kept = at::DataPtr();
  }
  auto *start = static_cast<std::byte *>(storage->data_ptr().get());
  DTRT_RETURN_IF_ERROR(own.create(*pages, start, lo, hi));
  return start;
}

Status TorchGpuMemory::release(uint64_t lo, uint64_t hi) {
  auto storage = lock();
  if (!storage)
    return {};
  auto *start = static_cast<std::byte *>(storage->data_ptr().get());
  PooledBytes &own = bytesOf(*storage);
  hasGone = true;
  DTRT_RETURN_IF_ERROR(own.release(*pages, start, lo, hi));
  if (own.live() > 0)
    return {};
  kept = storage->set_data_ptr(at::DataPtr());
  set(*storage, at::DataPtr(), 0);
  return {};
}

bool TorchGpuMemory::canTake(const LiveMemory &from) const {
  return TorchMemory::canTake(from) && hasPages() && from.hasPages();
}

} // namespace dtrt
