//===- PagePool.cpp - Tensors in a storage of a pool ----------------------===//

#include "dtrt/core/PagePool.h"

namespace dtrt {

Status PooledBytes::create(PageUse &pages, std::byte *start, uint64_t lo,
                           uint64_t hi) {
  DTRT_RETURN_IF_ERROR(pages.hold(start + lo, hi - lo));
  numLive += hi - lo;
  return {};
}

Status PooledBytes::release(PageUse &pages, std::byte *start, uint64_t lo,
                            uint64_t hi) {
  if (whole > 0) {
    for (auto [first, last] : tensors)
      DTRT_RETURN_IF_ERROR(create(pages, start, first, last));
    DTRT_RETURN_IF_ERROR(pages.letGo(start, whole));
    whole = 0;
  }
  DTRT_RETURN_IF_ERROR(pages.letGo(start + lo, hi - lo));
  numLive -= hi - lo;
  return {};
}

} // namespace dtrt
