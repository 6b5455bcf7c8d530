//===- SharedPages.cpp - Memory that processes of a host can read ---------===//

#include "dtrt/transport/SharedPages.h"

#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace dtrt {

SharedPages &SharedPages::ofProcess() {
  // More than any host has, and a hundredth of what addresses there are.
  constexpr uint64_t kAddresses = uint64_t(1) << 40;
  // Tensors may outlive what is destroyed at a process's end.
  static auto *pages = new SharedPages(kAddresses);
  return *pages;
}

SharedPages::SharedPages(uint64_t addresses)
    : size(addresses), page(uint64_t(sysconf(_SC_PAGESIZE))), owner(getpid()) {
  file = memfd_create("dynatrain-pages", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  // No seal against writes: it would also keep pages from going.
  bool isFixed =
      file >= 0 && ftruncate(file, off_t(size)) == 0 &&
      fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  if (!isFixed)
    return;
  void *mapped =
      mmap(nullptr, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (mapped == MAP_FAILED)
    return;
  base = static_cast<std::byte *>(mapped);
  unused[0] = size;
}

SharedPages::~SharedPages() {
  if (base)
    munmap(base, size);
  if (file >= 0)
    ::close(file);
}

bool SharedPages::isOwner() const { return getpid() == owner; }

uint64_t SharedPages::wholePages(uint64_t bytes) const {
  return (bytes + page - 1) / page * page;
}

std::byte *SharedPages::reserve(uint64_t bytes) {
  if (!base || bytes == 0 || bytes > size || !isOwner())
    return nullptr;
  bytes = wholePages(bytes);
  std::lock_guard<std::mutex> lock(mutex);
  for (auto it = unused.begin(); it != unused.end(); ++it) {
    auto [offset, left] = *it;
    if (left < bytes)
      continue;
    unused.erase(it);
    if (left > bytes)
      unused[offset + bytes] = left - bytes;
    return base + offset;
  }
  return nullptr;
}

void SharedPages::free(std::byte *start, uint64_t bytes) {
  if (!isOwner())
    return;
  bytes = wholePages(bytes);
  close(start, bytes);
  std::lock_guard<std::mutex> lock(mutex);
  auto offset = uint64_t(start - base);
  auto next = unused.upper_bound(offset);
  if (next != unused.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = unused.erase(next);
  }
  if (next != unused.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  unused[offset] = bytes;
}

bool SharedPages::open(std::byte *start, uint64_t bytes) {
  return mprotect(start, wholePages(bytes), PROT_READ | PROT_WRITE) == 0;
}

void SharedPages::close(std::byte *start, uint64_t bytes) {
  if (!isOwner())
    return;
  bytes = wholePages(bytes);
  (void)fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  off_t(start - base), off_t(bytes));
  (void)mprotect(start, bytes, PROT_NONE);
}

std::optional<uint64_t> SharedPages::offsetOf(const std::byte *data,
                                              uint64_t bytes) const {
  if (!base || data < base || data > base + size ||
      bytes > uint64_t(base + size - data))
    return std::nullopt;
  return uint64_t(data - base);
}

void SharedPages::populate(const std::byte *data, uint64_t bytes) {
  auto page = uint64_t(sysconf(_SC_PAGESIZE));
  uint64_t lead = reinterpret_cast<uintptr_t>(data) % page;
  (void)madvise(const_cast<std::byte *>(data - lead), lead + bytes,
                MADV_POPULATE_READ);
}

int SharedPages::openReadOnly() const {
  if (file < 0)
    return -1;
  std::string name = "/proc/self/fd/" + std::to_string(file);
  return ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
}

} // namespace dtrt
