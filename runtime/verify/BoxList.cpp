//===- BoxList.cpp - Many boxes of one rank -------------------------------===//

#include "BoxList.h"

#include <algorithm>

namespace dtrt {

void BoxList::add(const DimVector &offset, const DimVector &size) {
  dims = offset.size();
  ++boxes;
  for (size_t dim = 0; dim < dims; ++dim) {
    lows.push_back(offset[dim]);
    highs.push_back(offset[dim] + size[dim]);
  }
}

int64_t BoxList::volume(size_t box) const {
  int64_t volume = 1;
  for (size_t dim = 0; dim < dims; ++dim)
    volume *= high(box)[dim] - low(box)[dim];
  return volume;
}

bool BoxList::holds(size_t box, const int64_t *element) const {
  for (size_t dim = 0; dim < dims; ++dim)
    if (element[dim] < low(box)[dim] || element[dim] >= high(box)[dim])
      return false;
  return true;
}

int64_t BoxList::commonVolume(size_t box, const int64_t *lo,
                              const int64_t *hi) const {
  int64_t volume = 1;
  for (size_t dim = 0; dim < dims && volume > 0; ++dim)
    volume *= std::max<int64_t>(0, std::min(high(box)[dim], hi[dim]) -
                                       std::max(low(box)[dim], lo[dim]));
  return volume;
}

unsigned BoxList::thinnestDim(const uint32_t *first,
                              const uint32_t *last) const {
  unsigned best = 0;
  double bestShare = 2;
  for (unsigned dim = 0; dim < dims; ++dim) {
    int64_t lo = INT64_MAX, hi = 0;
    double sizes = 0;
    for (const uint32_t *box = first; box != last; ++box) {
      lo = std::min(lo, low(*box)[dim]);
      hi = std::max(hi, high(*box)[dim]);
      sizes += double(high(*box)[dim] - low(*box)[dim]);
    }
    double share = sizes / double(last - first) / double(hi - lo);
    if (share < bestShare) {
      bestShare = share;
      best = dim;
    }
  }
  return best;
}

} // namespace dtrt
