//===- BoxStarts.cpp - Boxes by where they start --------------------------===//

#include "BoxStarts.h"

#include <algorithm>

namespace dtrt {

size_t BoxStarts::bucketOf(const int64_t *place, size_t rank) const {
  uint64_t hash = 0x9e3779b97f4a7c15ull;
  for (size_t dim = 0; dim < rank; ++dim) {
    hash = (hash ^ uint64_t(place[dim])) * 0xd6e8feb86659fd93ull;
    hash ^= hash >> 32;
  }
  return hash & (heads.size() - 1);
}

void BoxStarts::link(const BoxList &list, uint32_t box) {
  uint32_t &head = heads[bucketOf(list.low(box), list.rank())];
  nexts[box] = head;
  head = box;
}

void BoxStarts::grow(const BoxList &list) {
  auto box = uint32_t(nexts.size());
  nexts.resize(list.count());
  if (list.count() > heads.size()) {
    size_t size = std::max<size_t>(16, heads.size());
    while (size < list.count())
      size *= 2;
    heads.assign(size, kNone);
    box = 0;
  }
  for (; box < list.count(); ++box)
    link(list, box);
}

} // namespace dtrt
