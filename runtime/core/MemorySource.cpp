//===- MemorySource.cpp - Where owned buffers come from -------------------===//

#include "dtrt/core/MemorySource.h"

#include <cstdlib>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

namespace dtrt {

namespace {
/// Bytes; blocks of at least this size start on such a page.
constexpr uint64_t kHugePage = 2 << 20;
} // namespace

MemorySource hostMemory() {
  auto allocate = [](uint64_t bytes) {
    bool huge = bytes >= kHugePage;
    uint64_t alignment = huge ? kHugePage : kCacheLine;
    uint64_t size = roundUp(bytes, alignment);
    void *block = std::aligned_alloc(alignment, size);
#ifdef MADV_HUGEPAGE
    if (block && huge)
      madvise(block, size, MADV_HUGEPAGE); // a wish: strided copies touch
                                           // many pages
#endif
    if (block)
      memset(block, 0, bytes); // maps the pages now, not while bytes move
    return static_cast<std::byte *>(block);
  };
  return {allocate, [](std::byte *block) { std::free(block); }, {}, 0};
}

MemorySource hostPages() {
  uint64_t page = uint64_t(sysconf(_SC_PAGESIZE));
  // The page before a block says how long it is.
  auto allocate = [page](uint64_t bytes) -> std::byte * {
    uint64_t length = page + roundUp(bytes, page);
    void *block =
        mmap(nullptr, length, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, /*fd=*/-1, 0);
    if (block == MAP_FAILED)
      return nullptr;
    memcpy(block, &length, sizeof length);
    return static_cast<std::byte *>(block) + page;
  };
  auto free = [page](std::byte *block) {
    uint64_t length = 0;
    memcpy(&length, block - page, sizeof length);
    munmap(block - page, length);
  };
  auto discard = [](std::byte *at, uint64_t bytes) {
    madvise(at, bytes, MADV_DONTNEED);
  };
  return {allocate, free, discard, page};
}

} // namespace dtrt
