//===- MemberOverlapsTest.cpp - Which ranges of storage meet --------------===//
//
// Random boxes of few and of many members, pair by pair.
//
//===----------------------------------------------------------------------===//

#include "MemberOverlaps.h"

#include "dt/Geometry/Limits.h"
#include "gtest/gtest.h"

#include <random>
#include <set>

using namespace dt;

namespace {

/// Members of `leading` dims, up to `widest` in each, and elements of them.
std::vector<Box> randomBoxes(std::mt19937 &random, size_t count,
                             unsigned leading, int64_t widest) {
  auto below = [&](int64_t end) { return int64_t(random() % uint64_t(end)); };
  std::vector<Box> boxes;
  for (size_t i = 0; i < count; ++i) {
    Box &box = boxes.emplace_back(leading + 1);
    for (unsigned dim = 0; dim < leading; ++dim) {
      box[dim].lo = below(4);
      box[dim].hi = box[dim].lo + 1 + below(widest);
    }
    box[leading].lo = below(20);
    box[leading].hi = box[leading].lo + below(10); // none is some of them
  }
  return boxes;
}

std::set<IndexPair> bruteForce(const std::vector<Box> &a,
                               const std::vector<Box> &b) {
  std::set<IndexPair> out;
  for (uint32_t i = 0; i < a.size(); ++i)
    for (uint32_t j = 0; j < b.size(); ++j)
      if (!intersect(a[i], b[j]).empty())
        out.insert({i, j});
  return out;
}

TEST(MemberOverlaps, AreThoseOfAllPairs) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    unsigned leading = seed % 3;
    int64_t widest = 1 + int64_t(seed / 3 % 4);
    std::vector<Box> a = randomBoxes(random, random() % 40, leading, widest);
    std::vector<Box> b = randomBoxes(random, random() % 40, leading, widest);
    WorkLimit limit(kMaxPieces);
    std::set<IndexPair> found;
    for (IndexPair pair : memberOverlaps(a, b, limit))
      found.insert(pair);
    EXPECT_EQ(found, bruteForce(a, b));
  }
}

TEST(MemberOverlaps, OfBoxesThatAreApartAreNone) {
  int apart = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    unsigned leading = seed % 3;
    std::vector<Box> boxes = randomBoxes(random, random() % 10, leading, 1);
    bool hasEmpty = false, meet = false;
    for (const Box &box : boxes)
      hasEmpty |= box.empty();
    for (IndexPair pair : bruteForce(boxes, boxes))
      meet |= pair.first != pair.second;
    if (meet || !hasEmpty) {
      EXPECT_EQ(areApart(boxes), !meet);
    }
    apart += areApart(boxes);
  }
  EXPECT_GT(apart, 50);
}

TEST(MemberOverlaps, AreNoMoreThanTheLimit) {
  std::vector<Box> boxes(30, Box(2));
  for (Box &box : boxes)
    box[0] = {3, 4}, box[1] = {0, 8};
  WorkLimit limit(100);
  EXPECT_LE(memberOverlaps(boxes, boxes, limit).size(), 100u);
  EXPECT_TRUE(limit.isExceeded());
}

/// Behind a long box, every lookup passes all before it: a square of them would
/// take minutes.
TEST(MemberOverlaps, BehindALongBoxAreFoundInTime) {
  constexpr int64_t kBoxes = 1 << 19;
  std::vector<Box> rows(kBoxes, Box(2)), uses(kBoxes, Box(2));
  for (int64_t i = 0; i < kBoxes; ++i) {
    rows[size_t(i)][0] = uses[size_t(i)][0] = {0, 1};
    rows[size_t(i)][1] = uses[size_t(i)][1] = {2 * i, 2 * i + 1};
  }
  rows[0][1].hi = 2 * kBoxes;
  WorkLimit limit(kMaxPieces);
  EXPECT_EQ(memberOverlaps(rows, uses, limit).size(), size_t(2 * kBoxes - 1));
  EXPECT_FALSE(limit.isExceeded());
}

TEST(MemberOverlaps, OfManyMembersAreSaidOnce) {
  std::vector<Box> boxes(2, Box(2));
  for (Box &box : boxes)
    box[0] = {0, int64_t(1) << 40}, box[1] = {0, 8};
  WorkLimit limit(kMaxPieces);
  EXPECT_EQ(memberOverlaps(boxes, boxes, limit).size(), 4u);
}

} // namespace
