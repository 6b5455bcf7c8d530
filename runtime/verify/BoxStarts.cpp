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

void BoxStarts::add(const BoxList &list) {
  nexts.resize(list.count());
  if (list.count() <= heads.size())
    return link(list, uint32_t(list.count() - 1));
  heads.assign(std::max<size_t>(16, 2 * heads.size()), kNone);
  for (uint32_t box = 0; box < list.count(); ++box)
    link(list, box);
}

} // namespace dtrt
