//===- BoxTree.cpp - Which of many boxes contain one ----------------------===//

#include "dt/Geometry/BoxTree.h"

#include <algorithm>
#include <numeric>

namespace dt {

namespace {

/// Boxes that are looked at one by one.
constexpr uint32_t kLeaf = 8;

} // namespace

BoxTree::BoxTree(std::vector<Box> given) : boxes(std::move(given)) {
  items.resize(boxes.size());
  std::iota(items.begin(), items.end(), 0);
  if (!items.empty())
    build(0, uint32_t(items.size()));
}

uint32_t BoxTree::build(uint32_t first, uint32_t last) {
  auto at = uint32_t(nodes.size());
  Box hull = boxes[items[first]];
  Box starts = hull; // the hull of the lower ends
  for (uint32_t i = first; i < last; ++i)
    for (unsigned dim = 0; dim < hull.rank(); ++dim) {
      Interval own = boxes[items[i]][dim];
      hull[dim] = {std::min(hull[dim].lo, own.lo),
                   std::max(hull[dim].hi, own.hi)};
      starts[dim] = {hull[dim].lo,
                     i == first ? own.lo : std::max(starts[dim].hi, own.lo)};
    }
  nodes.push_back({hull, first, last, 0, 0});
  unsigned widest = 0;
  for (unsigned dim = 1; dim < hull.rank(); ++dim)
    if (starts[dim].size() > starts[widest].size())
      widest = dim;
  if (last - first <= kLeaf || hull.rank() == 0 || starts[widest].empty())
    return at;
  uint32_t middle = first + (last - first) / 2;
  std::nth_element(items.begin() + first, items.begin() + middle,
                   items.begin() + last, [&](uint32_t a, uint32_t b) {
                     return boxes[a][widest].lo < boxes[b][widest].lo;
                   });
  uint32_t left = build(first, middle), right = build(middle, last);
  nodes[at].left = left;
  nodes[at].right = right;
  return at;
}

} // namespace dt
