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
  tree.nodes.push_back({begin, end, 0, 0});
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
  for (uint32_t i = begin; i < end; ++i)
    if (__builtin_add_overflow(tree.nodes[node].volume, list.volume(items[i]),
                               &tree.nodes[node].volume))
      tree.nodes[node].volume = INT64_MAX;
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

/// What is looked for, and how much of it has been found.
struct BoxForest::Search {
  const int64_t *lo, *hi;
  int64_t enough, found;
  Steps &steps;

  /// The same boxes may be in the list any number of times.
  void add(int64_t volume) {
    if (__builtin_add_overflow(found, volume, &found))
      found = INT64_MAX;
  }
  bool goesOn() const { return found < enough && !steps.spent(); }
};

void BoxForest::addVolume(const BoxList &list, const Tree &tree, uint32_t node,
                          Search &search) {
  if (!search.steps.take())
    return;
  const size_t rank = list.rank();
  bool inside = true;
  for (size_t dim = 0; dim < rank; ++dim) {
    int64_t low = tree.lows[node * rank + dim];
    int64_t high = tree.highs[node * rank + dim];
    if (low >= search.hi[dim] || search.lo[dim] >= high)
      return;
    inside = inside && search.lo[dim] <= low && high <= search.hi[dim];
  }
  const Node &at = tree.nodes[node];
  if (inside)
    return search.add(at.volume);
  if (at.second == 0) {
    for (uint32_t i = at.begin; i < at.end; ++i)
      search.add(list.commonVolume(tree.items[i], search.lo, search.hi));
    return;
  }
  addVolume(list, tree, node + 1, search);
  if (search.goesOn())
    addVolume(list, tree, at.second, search);
}

int64_t BoxForest::commonVolume(const BoxList &list, const int64_t *lo,
                                const int64_t *hi, int64_t enough,
                                Steps &steps) const {
  Search search = {lo, hi, enough, 0, steps};
  for (size_t box = known; box < list.count(); ++box)
    search.add(list.commonVolume(box, lo, hi));
  for (size_t tree = trees.size(); tree-- > 0 && search.goesOn();)
    addVolume(list, trees[tree], 0, search);
  return search.found;
}

} // namespace dtrt
