//===- PeakMemory.cpp - Memory that an input takes ------------------------===//

#include "PeakMemory.h"

#include <atomic>
#include <sanitizer/allocator_interface.h>

namespace dtrt::fuzz {

namespace {

std::atomic<size_t> live{0}, peak{0};

void countAllocation(const volatile void *, size_t size) {
  size_t now = live += size;
  for (size_t most = peak; now > most;)
    if (peak.compare_exchange_weak(most, now))
      break;
}

void countFree(const volatile void *block) {
  if (block)
    live -= __sanitizer_get_allocated_size(const_cast<const void *>(block));
}

size_t before = 0;

} // namespace

/// What was allocated before the hooks were there is not counted, but freed
/// outside of inputs only.
PeakMemory::PeakMemory() {
  static const int installed =
      __sanitizer_install_malloc_and_free_hooks(countAllocation, countFree);
  (void)installed;
  before = live;
  peak = before;
}

size_t PeakMemory::bytes() const { return peak - before; }

} // namespace dtrt::fuzz
