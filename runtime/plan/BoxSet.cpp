//===- BoxSet.cpp - Which boxes of a shard are written --------------------===//
//
// Disjointness is tested by splitting the boxes into runs that do not touch in
// one dim, then each run in the next dim. Real plans cut along grids, so runs
// soon have one box; whatever is left when the dims are used up is swept in its
// thinnest dim.
//
//===----------------------------------------------------------------------===//

#include "BoxSet.h"

#include <algorithm>

namespace dtrt {

namespace {
uint64_t placeHash(const int64_t *offset, size_t rank) {
  uint64_t hash = 0x9e3779b97f4a7c15ull;
  for (size_t dim = 0; dim < rank; ++dim) {
    hash = (hash ^ uint64_t(offset[dim])) * 0xd6e8feb86659fd93ull;
    hash ^= hash >> 32;
  }
  return hash;
}
} // namespace

void BoxSet::add(const std::vector<int64_t> &offset,
                 const std::vector<int64_t> &size, uint32_t instruction) {
  rank = offset.size();
  int64_t boxVolume = 1;
  for (size_t dim = 0; dim < rank; ++dim) {
    lows.push_back(offset[dim]);
    highs.push_back(offset[dim] + size[dim]);
    if (__builtin_mul_overflow(boxVolume, size[dim], &boxVolume))
      boxVolume = INT64_MAX;
  }
  // A wrong plan may write the same region any number of times.
  if (__builtin_add_overflow(total, boxVolume, &total))
    total = INT64_MAX;
  byPlace.emplace(placeHash(offset.data(), rank), count());
  instructions.push_back(instruction);
}

bool BoxSet::overlap(size_t a, size_t b) const {
  for (size_t dim = 0; dim < rank; ++dim)
    if (lows[a * rank + dim] >= highs[b * rank + dim] ||
        lows[b * rank + dim] >= highs[a * rank + dim])
      return false;
  return true;
}

unsigned BoxSet::thinnestDim(const Items &items) const {
  unsigned best = 0;
  double bestShare = 2;
  for (unsigned dim = 0; dim < rank; ++dim) {
    int64_t lo = INT64_MAX, hi = 0;
    double sizes = 0;
    for (uint32_t item : items) {
      lo = std::min(lo, lows[item * rank + dim]);
      hi = std::max(hi, highs[item * rank + dim]);
      sizes += double(highs[item * rank + dim] - lows[item * rank + dim]);
    }
    double share = sizes / double(items.size()) / double(hi - lo);
    if (share < bestShare) {
      bestShare = share;
      best = dim;
    }
  }
  return best;
}

/// `items` are sorted by where they start in `dim`.
std::optional<std::pair<size_t, size_t>>
BoxSet::sweepPairs(const Items &items, unsigned dim) const {
  Items active;
  for (uint32_t item : items) {
    size_t kept = 0;
    for (uint32_t other : active) {
      if (highs[other * rank + dim] <= lows[item * rank + dim])
        continue;
      if (overlap(item, other))
        return std::make_pair(size_t(other), size_t(item));
      active[kept++] = other;
    }
    active.resize(kept);
    active.push_back(item);
  }
  return std::nullopt;
}

std::optional<std::pair<size_t, size_t>> BoxSet::sweep(Items items,
                                                       unsigned dim) const {
  if (items.size() < 2)
    return std::nullopt;
  bool last = dim == rank;
  unsigned by = last ? thinnestDim(items) : dim;
  std::sort(items.begin(), items.end(), [&](uint32_t a, uint32_t b) {
    return std::make_pair(lows[a * rank + by], a) <
           std::make_pair(lows[b * rank + by], b);
  });
  if (last)
    return sweepPairs(items, by);
  size_t start = 0;
  int64_t reach = highs[items[0] * rank + dim];
  for (size_t i = 1; i <= items.size(); ++i) {
    if (i < items.size() && lows[items[i] * rank + dim] < reach) {
      reach = std::max(reach, highs[items[i] * rank + dim]);
      continue;
    }
    auto found =
        sweep(Items(items.begin() + start, items.begin() + i), dim + 1);
    if (found)
      return found;
    if (i < items.size())
      reach = highs[items[i] * rank + dim];
    start = i;
  }
  return std::nullopt;
}

std::optional<std::pair<size_t, size_t>> BoxSet::findOverlap() const {
  if (rank == 0) // scalars: every box is the one element
    return count() < 2 ? std::nullopt
                       : std::optional(std::make_pair(size_t(0), size_t(1)));
  Items items(count());
  for (size_t i = 0; i < items.size(); ++i)
    items[i] = uint32_t(i);
  return sweep(std::move(items), 0);
}

bool BoxSet::covers(const std::vector<int64_t> &offset,
                    const std::vector<int64_t> &size) const {
  auto holds = [&](size_t box) {
    for (size_t dim = 0; dim < offset.size(); ++dim)
      if (lows[box * rank + dim] > offset[dim] ||
          highs[box * rank + dim] < offset[dim] + size[dim])
        return false;
    return true;
  };
  auto same = byPlace.equal_range(placeHash(offset.data(), offset.size()));
  for (auto at = same.first; at != same.second; ++at)
    if (holds(at->second))
      return true;
  int64_t wanted = 1, found = 0;
  for (int64_t extent : size)
    wanted *= extent;
  for (size_t box = 0; box < count(); ++box) {
    int64_t common = 1;
    for (size_t dim = 0; dim < offset.size() && common > 0; ++dim)
      common *= std::max<int64_t>(
          0, std::min(highs[box * rank + dim], offset[dim] + size[dim]) -
                 std::max(lows[box * rank + dim], offset[dim]));
    found += common;
  }
  return found >= wanted;
}

} // namespace dtrt
