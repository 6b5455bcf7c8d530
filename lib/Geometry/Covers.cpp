//===- Covers.cpp - What lists of boxes leave out or have twice -----------===//

#include "dt/Geometry/Covers.h"

#include "dt/Geometry/Cells.h"

namespace dt {

std::optional<Box> firstTwice(const std::vector<Box> &boxes) {
  std::optional<IndexPair> first;
  for (IndexPair pair : overlappingPairs(boxes, boxes))
    if (pair.first < pair.second && (!first || pair < *first))
      first = pair;
  if (!first)
    return std::nullopt;
  return intersect(boxes[first->first], boxes[first->second]);
}

std::optional<Box> firstShared(const std::vector<Box> &a,
                               const std::vector<Box> &b) {
  std::optional<IndexPair> first;
  for (IndexPair pair : overlappingPairs(a, b))
    if (!first || pair < *first)
      first = pair;
  if (!first)
    return std::nullopt;
  return intersect(a[first->first], b[first->second]);
}

std::optional<Box> firstUncovered(const std::vector<Box> &boxes,
                                  const std::vector<Box> &cover) {
  std::vector<int64_t> missing;
  for (const Box &box : boxes)
    missing.push_back(box.volume());
  std::vector<IndexPair> pairs = overlappingPairs(boxes, cover);
  for (auto [i, j] : pairs)
    missing[i] -= intersect(boxes[i], cover[j]).volume();
  for (uint32_t i = 0; i < boxes.size(); ++i) {
    if (missing[i] == 0)
      continue;
    std::vector<Cell> inside;
    for (IndexPair pair : pairs)
      if (pair.first == i)
        inside.push_back({cover[pair.second], 0});
    // None where boxes of `cover` share elements, which then count twice.
    std::vector<Box> holes = uncovered(boxes[i], inside);
    if (!holes.empty())
      return holes.front();
  }
  return std::nullopt;
}

} // namespace dt
