//===- TorchMemory.cpp - Storages of torch that come and go ---------------===//

#include "TorchMemory.h"

#include "dtrt/transport/SharedPages.h"

#include <algorithm>

#include <sys/mman.h>
#include <unistd.h>

namespace dtrt {

namespace {

/// Smaller ones come from torch's allocator, and whole.
constexpr uint64_t kLeastMapped = 64 << 10;

/// One part in so many of a storage may belong to no tensor: the padding
/// between tensors of a buffer.
constexpr uint64_t kPaddingShare = 8;

struct Mapping {
  void *start = nullptr;
  size_t bytes = 0;
};

void unmap(void *context) {
  auto *mapping = static_cast<Mapping *>(context);
  munmap(mapping->start, mapping->bytes);
  delete mapping;
}

void freeShared(void *context) {
  auto *mapping = static_cast<Mapping *>(context);
  SharedPages::ofProcess().free(static_cast<std::byte *>(mapping->start),
                                mapping->bytes);
  delete mapping;
}

/// Addresses without memory in the shared pages; null when there are none.
at::DataPtr reserveShared(uint64_t bytes) {
  std::byte *start = SharedPages::ofProcess().reserve(bytes);
  if (!start)
    return {};
  return {start, new Mapping{start, bytes}, &freeShared,
          at::Device(at::DeviceType::CPU)};
}

/// Addresses without memory; null when there are none.
at::DataPtr mapAddresses(uint64_t bytes) {
  void *start = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
                     /*fd=*/-1, 0);
  if (start == MAP_FAILED)
    return {};
  return {start, new Mapping{start, bytes}, &unmap,
          at::Device(at::DeviceType::CPU)};
}

at::DataPtr allocate(c10::StorageImpl &storage, uint64_t bytes, bool shared) {
  if (shared)
    if (at::DataPtr made = reserveShared(bytes))
      return made;
  if (bytes >= kLeastMapped)
    return mapAddresses(bytes);
  try {
    return storage.allocator()->allocate(bytes);
  } catch (const std::exception &) {
    return {};
  }
}

} // namespace

TorchMemory::TorchMemory(c10::weak_intrusive_ptr<c10::StorageImpl> storage)
    : weak(std::move(storage)), page(uint64_t(sysconf(_SC_PAGESIZE))) {}

void TorchMemory::add(uint64_t offset, uint64_t bytes) {
  needed = std::max(needed, offset + bytes);
  tensors.emplace_back(offset, offset + bytes);
}

/// Bytes of the tensors, which may overlap as tied ones do.
uint64_t TorchMemory::named() const {
  auto sorted = tensors;
  std::sort(sorted.begin(), sorted.end());
  uint64_t bytes = 0, end = 0;
  for (auto [lo, hi] : sorted) {
    bytes += hi - std::min(hi, std::max(lo, end));
    end = std::max(end, hi);
  }
  return bytes;
}

std::string TorchMemory::whyItStays() const {
  auto storage = weak.lock();
  if (!storage)
    return "is gone";
  if (!storage->resizable() || !storage->allocator())
    return "is not torch's own, so that it cannot be given back";
  uint64_t bytes = storage->nbytes(), ours = named();
  if (bytes > ours && bytes - ours > bytes / kPaddingShare)
    return "has " + std::to_string(bytes) +
           " bytes, of which the tensors of the plan are " +
           std::to_string(ours) + ": others would be lost with it";
  return "";
}

bool TorchMemory::isMapped(const c10::StorageImpl &storage) const {
  auto deleter = storage.data_ptr().get_deleter();
  return deleter == &unmap || deleter == &freeShared;
}

bool TorchMemory::isShared() const {
  auto storage = weak.lock();
  return storage && storage->data_ptr().get_deleter() == &freeShared;
}

bool TorchMemory::hasPages() const {
  auto storage = weak.lock();
  return storage && (storage->nbytes() == 0 || isMapped(*storage));
}

template <typename Fn>
void TorchMemory::count(uint64_t lo, uint64_t hi, bool add, Fn fn) {
  live += add ? hi - lo : lo - hi;
  uint64_t first = 0, last = 0; // a run of changed pages
  for (uint64_t i = lo / page; i * page < hi; ++i) {
    uint64_t part = std::min(hi, (i + 1) * page) - std::max(lo, i * page);
    uint32_t before = pages[i];
    pages[i] += uint32_t(add ? part : -part);
    if ((before == 0) == (pages[i] == 0))
      continue;
    if (i != last) {
      if (first < last)
        fn(first, last);
      first = i;
    }
    last = i + 1;
  }
  if (first < last)
    fn(first, last);
}

/// When all tensors are known: which bytes there are.
void TorchMemory::countAll() {
  if (!pages.empty())
    return;
  auto storage = weak.lock();
  bool exists = storage && storage->nbytes() > 0;
  pages.resize(
      std::max<uint64_t>(needed, exists ? storage->nbytes() : 0) / page + 1);
  // Tensors may overlap, as tied ones do: then the storage stays to the end.
  for (auto [lo, hi] : tensors)
    if (exists)
      count(lo, hi, /*add=*/true, [](uint64_t, uint64_t) {});
}

void TorchMemory::set(c10::StorageImpl &storage, at::DataPtr data,
                      uint64_t bytes) {
  extent = {static_cast<std::byte *>(data.get()), bytes};
  storage.set_data_ptr_noswap(std::move(data));
  storage.set_nbytes(bytes);
}

Status TorchMemory::reserve(c10::StorageImpl &storage) {
  at::DataPtr data = allocate(storage, needed, makesShared);
  if (!data)
    return makeError("cannot allocate ", needed,
                     " bytes for a destination tensor");
  set(storage, std::move(data), needed);
  return {};
}

Result<std::byte *> TorchMemory::create(uint64_t lo, uint64_t hi) {
  countAll();
  auto storage = weak.lock();
  if (!storage)
    return makeError("the storage of a destination tensor is gone");
  if (storage->nbytes() == 0)
    DTRT_RETURN_IF_ERROR(reserve(*storage));
  if (storage->nbytes() < needed)
    return makeError("the storage of a destination tensor has ",
                     storage->nbytes(), " bytes, expected ", needed);
  auto *start = static_cast<std::byte *>(storage->mutable_data());
  bool isThere = true;
  count(lo, hi, /*add=*/true, [&](uint64_t first, uint64_t last) {
    if (isMapped(*storage))
      isThere &= mprotect(start + first * page, (last - first) * page,
                          PROT_READ | PROT_WRITE) == 0;
  });
  if (!isThere)
    return makeError("cannot allocate ", hi - lo,
                     " bytes for a destination tensor");
  return start;
}

Status TorchMemory::release(uint64_t lo, uint64_t hi) {
  countAll();
  auto storage = weak.lock();
  if (!storage)
    return {};
  auto *start = static_cast<std::byte *>(storage->mutable_data());
  uint64_t bytes = storage->nbytes();
  count(lo, hi, /*add=*/false, [&](uint64_t first, uint64_t last) {
    std::byte *from = start + first * page;
    uint64_t length = (last - first) * page;
    if (isShared()) {
      SharedPages::ofProcess().close(from, length);
    } else if (isMapped(*storage)) {
      madvise(from, length, MADV_DONTNEED);
      mprotect(from, length, PROT_NONE);
    }
  });
  if (live > 0)
    return {};
  if (!isMapped(*storage)) {
    // Whole pages of it: what lies beside them is the allocator's.
    auto at = reinterpret_cast<uintptr_t>(start);
    uintptr_t first = (at + page - 1) / page * page;
    uintptr_t last = (at + bytes) / page * page;
    if (first < last)
      madvise(reinterpret_cast<void *>(first), last - first, MADV_DONTNEED);
  }
  set(*storage, at::DataPtr(), 0);
  return {};
}

bool TorchMemory::canTake(const LiveMemory &from) const {
  const auto *other = dynamic_cast<const TorchMemory *>(&from);
  auto storage = weak.lock();
  auto source = other ? other->weak.lock() : nullptr;
  return storage && source && storage != source && other->needed == needed &&
         source->nbytes() == needed &&
         (storage->nbytes() == 0 || storage->nbytes() == needed) &&
         storage->resizable() && storage->device() == source->device();
}

void TorchMemory::take(LiveMemory &from) {
  auto &other = static_cast<TorchMemory &>(from);
  auto storage = weak.lock(), source = other.weak.lock();
  if (!storage || !source)
    return;
  uint64_t bytes = source->nbytes();
  at::DataPtr data = source->set_data_ptr(at::DataPtr());
  other.set(*source, at::DataPtr(), 0);
  set(*storage, std::move(data), bytes);
}

} // namespace dtrt
