//===- BoxForest.cpp - What of a growing list meets a box -----------------===//

#include "BoxForest.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace dtrt {

namespace {
/// Boxes that are looked at one by one: outside all trees, and of a leaf.
constexpr uint32_t kOutside = 32, kLeaf = 8;
} // namespace

void BoxForest::grow(const BoxList &list) {
  uint32_t count = uint32_t(list.count());
  if (count - known <= kOutside)
    return;
  Tree tree;
  tree.first = known;
  while (!trees.empty() && trees.back().items.size() <= count - tree.first) {
    tree.first = trees.back().first;
    trees.pop_back();
  }
  tree.items.resize(count - tree.first);
  std::iota(tree.items.begin(), tree.items.end(), tree.first);
  build(list, tree, 0, uint32_t(tree.items.size()));
  trees.push_back(std::move(tree));
  known = count;
}

void BoxForest::build(const BoxList &list, Tree &tree, uint32_t begin,
                      uint32_t end) {
  const size_t rank = list.rank(), node = tree.nodes.size();
  tree.nodes.push_back({begin, end, 0});
  uint32_t *items = tree.items.data();
  for (size_t dim = 0; dim < rank; ++dim) {
    int64_t lo = list.low(items[begin])[dim], hi = list.high(items[begin])[dim];
    for (uint32_t i = begin; i < end; ++i) {
      lo = std::min(lo, list.low(items[i])[dim]);
      hi = std::max(hi, list.high(items[i])[dim]);
    }
    tree.lows.push_back(lo);
    tree.highs.push_back(hi);
  }
  if (end - begin <= kLeaf)
    return;
  unsigned dim = list.thinnestDim(items + begin, items + end);
  uint32_t middle = begin + (end - begin) / 2;
  auto key = [&](uint32_t box) {
    return std::make_pair(list.low(box)[dim], box);
  };
  std::nth_element(items + begin, items + middle, items + end,
                   [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  build(list, tree, begin, middle);
  tree.nodes[node].second = uint32_t(tree.nodes.size());
  build(list, tree, middle, end);
}

void BoxForest::addVolume(const BoxList &list, const Tree &tree, uint32_t node,
                          const int64_t *lo, const int64_t *hi, int64_t enough,
                          int64_t &found) {
  const size_t rank = list.rank();
  for (size_t dim = 0; dim < rank; ++dim)
    if (tree.lows[node * rank + dim] >= hi[dim] ||
        lo[dim] >= tree.highs[node * rank + dim])
      return;
  const Node &at = tree.nodes[node];
  if (at.second == 0) {
    for (uint32_t i = at.begin; i < at.end; ++i)
      found += list.commonVolume(tree.items[i], lo, hi);
    return;
  }
  addVolume(list, tree, node + 1, lo, hi, enough, found);
  if (found < enough)
    addVolume(list, tree, at.second, lo, hi, enough, found);
}

int64_t BoxForest::commonVolume(const BoxList &list, const int64_t *lo,
                                const int64_t *hi, int64_t enough) const {
  int64_t found = 0;
  for (size_t box = known; box < list.count(); ++box)
    found += list.commonVolume(box, lo, hi);
  for (size_t tree = trees.size(); tree-- > 0 && found < enough;)
    addVolume(list, trees[tree], 0, lo, hi, enough, found);
  return found;
}

} // namespace dtrt
