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

void BoxSet::add(const std::vector<int64_t> &offset,
                 const std::vector<int64_t> &size, uint32_t instruction) {
  boxes.add(offset, size);
  starts.add(boxes);
  int64_t boxVolume = 1;
  for (int64_t extent : size)
    if (__builtin_mul_overflow(boxVolume, extent, &boxVolume))
      boxVolume = INT64_MAX;
  // A wrong plan may write the same region any number of times.
  if (__builtin_add_overflow(total, boxVolume, &total))
    total = INT64_MAX;
  instructions.push_back(instruction);
}

/// `items` are sorted by where they start in `dim`.
std::optional<std::pair<size_t, size_t>>
BoxSet::sweepPairs(const Items &items, unsigned dim) const {
  Items active;
  for (uint32_t item : items) {
    size_t kept = 0;
    for (uint32_t other : active) {
      if (boxes.high(other)[dim] <= boxes.low(item)[dim])
        continue;
      if (boxes.overlap(item, other))
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
  bool last = dim == boxes.rank();
  unsigned by =
      last ? boxes.thinnestDim(&items.front(), &items.back() + 1) : dim;
  std::sort(items.begin(), items.end(), [&](uint32_t a, uint32_t b) {
    return std::make_pair(boxes.low(a)[by], a) <
           std::make_pair(boxes.low(b)[by], b);
  });
  if (last)
    return sweepPairs(items, by);
  size_t start = 0;
  int64_t reach = boxes.high(items[0])[dim];
  for (size_t i = 1; i <= items.size(); ++i) {
    if (i < items.size() && boxes.low(items[i])[dim] < reach) {
      reach = std::max(reach, boxes.high(items[i])[dim]);
      continue;
    }
    auto found =
        sweep(Items(items.begin() + start, items.begin() + i), dim + 1);
    if (found)
      return found;
    if (i < items.size())
      reach = boxes.high(items[i])[dim];
    start = i;
  }
  return std::nullopt;
}

std::optional<std::pair<size_t, size_t>> BoxSet::findOverlap() const {
  if (boxes.rank() == 0) // scalars: every box is the one element
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
      if (boxes.low(box)[dim] > offset[dim] ||
          boxes.high(box)[dim] < offset[dim] + size[dim])
        return false;
    return true;
  };
  for (uint32_t box = starts.first(offset.data(), offset.size());
       box != BoxStarts::kNone; box = starts.next(box))
    if (holds(box))
      return true;
  int64_t wanted = 1;
  std::vector<int64_t> end;
  for (size_t dim = 0; dim < size.size(); ++dim) {
    wanted *= size[dim];
    end.push_back(offset[dim] + size[dim]);
  }
  forest.grow(boxes);
  return forest.commonVolume(boxes, offset.data(), end.data(), wanted) >=
         wanted;
}

} // namespace dtrt
