// Box algebra against sets of elements.

#include "RandomGeometry.h"

#include <algorithm>

using namespace dt;
using namespace dt::test;

namespace {

constexpr int kRounds = 300;

TEST(BoxTest, splitsAFlatRange) {
  std::vector<Box> boxes = splitFlatRange({3, 4}, {2, 9});
  ASSERT_EQ(boxes.size(), 3u);
  EXPECT_EQ(toString(boxes[0]), "[0:1)x[2:4)");
  EXPECT_EQ(toString(boxes[1]), "[1:2)x[0:4)");
  EXPECT_EQ(toString(boxes[2]), "[2:3)x[0:1)");
}

TEST(BoxTest, aScalarIsOneElement) {
  EXPECT_EQ(Box().volume(), 1);
  EXPECT_EQ(splitFlatRange({}, {0, 1}).size(), 1u);
  EXPECT_TRUE(splitFlatRange({}, {0, 0}).empty());
  EXPECT_TRUE(splitFlatRange({4, 0}, {0, 0}).empty());
  EXPECT_TRUE(overlaps(Box(), Box()));
}

TEST(BoxTest, ordersByLowerEndsThenUpperEnds) {
  Box a = Box::fromOffsetSize({0, 2}, {9, 1});
  Box b = Box::fromOffsetSize({0, 3}, {1, 1});
  EXPECT_TRUE(a < b);
  EXPECT_FALSE(b < a);
  EXPECT_TRUE(Box::whole({2, 2}) < Box::whole({2, 3}));
}

TEST(BoxTest, intersectsAsSetsDo) {
  Random random;
  for (int round = 0; round < kRounds; ++round) {
    Shape shape = random.shape(random.number(1, 3), 6);
    Box a = random.box(shape), b = random.box(shape);
    std::set<Point> pointsA = pointsOf(a), pointsB = pointsOf(b), both;
    std::set_intersection(pointsA.begin(), pointsA.end(), pointsB.begin(),
                          pointsB.end(), std::inserter(both, both.end()));
    EXPECT_EQ(pointsOf(intersect(a, b)), both);
    EXPECT_EQ(overlaps(a, b), !both.empty());
    EXPECT_EQ(a.contains(b), both == pointsB);
    EXPECT_EQ(a.volume(), int64_t(pointsA.size()));
  }
}

TEST(BoxTest, subtractsAsSetsDo) {
  Random random;
  for (int round = 0; round < kRounds; ++round) {
    Shape shape = random.shape(random.number(1, 4), 5);
    Box a = random.box(shape), b = random.box(shape);
    std::vector<Box> pieces;
    subtract(a, b, pieces);
    EXPECT_LE(pieces.size(), 2 * shape.size());
    std::set<Point> expected = pointsOf(a);
    for (const Point &point : pointsOf(b))
      expected.erase(point);
    EXPECT_EQ(pointsOf(pieces), expected);
  }
}

TEST(BoxTest, splitsEveryFlatRangeInFlatOrder) {
  Random random;
  for (int round = 0; round < kRounds; ++round) {
    Shape shape = random.shape(random.number(1, 4), 5);
    std::vector<Point> flat;
    forEachPoint(Box::whole(shape),
                 [&](const Point &point) { flat.push_back(point); });
    int64_t lo = random.number(0, flat.size());
    int64_t hi = random.number(lo, flat.size());
    std::vector<Point> split;
    std::vector<Box> boxes = splitFlatRange(shape, {lo, hi});
    EXPECT_LE(boxes.size(), 2 * shape.size() - 1);
    for (const Box &box : boxes)
      forEachPoint(box, [&](const Point &point) { split.push_back(point); });
    EXPECT_EQ(split, std::vector<Point>(flat.begin() + lo, flat.begin() + hi));
  }
}

TEST(BoxTest, mergesWhatTouches) {
  std::vector<Box> quarters;
  for (int64_t row : {2, 0})
    for (int64_t column : {0, 3})
      quarters.push_back(Box::fromOffsetSize({row, column}, {2, 3}));
  std::vector<Box> merged = mergeAdjacent(quarters);
  ASSERT_EQ(merged.size(), 1u);
  EXPECT_EQ(merged.front(), Box::whole({4, 6}));
}

TEST(BoxTest, mergingKeepsElementsAndIgnoresOrder) {
  Random random;
  for (int round = 0; round < kRounds; ++round) {
    Shape shape = random.shape(random.number(1, 3), 5);
    std::vector<Box> cells; // unit boxes of a random part of the shape
    forEachPoint(Box::whole(shape), [&](const Point &point) {
      if (random.chance(70))
        cells.push_back(Box::fromOffsetSize(point, Shape(shape.size(), 1)));
    });
    std::vector<Box> merged = mergeAdjacent(cells);
    EXPECT_EQ(pointsOf(merged), pointsOf(cells));
    EXPECT_TRUE(std::is_sorted(merged.begin(), merged.end()));
    EXPECT_EQ(mergeAdjacent(merged), merged);
    random.shuffle(cells);
    EXPECT_EQ(mergeAdjacent(cells), merged);
  }
}

// Few dims lie in the box itself, many in memory of their own.
TEST(BoxTest, isCopiedAndMovedWhateverItsDims) {
  for (unsigned from = 0; from <= kMaxRank; ++from)
    for (unsigned to = 0; to <= kMaxRank; ++to) {
      Box box(from), other(to);
      for (unsigned dim = 0; dim < from; ++dim)
        box[dim] = {dim, 2 * dim + 1};
      Box copy = box;
      EXPECT_EQ(copy, box);
      other = copy;
      EXPECT_EQ(other, box);
      if (from > 0)
        other[from - 1].hi += 1;
      EXPECT_EQ(copy, box); // shares nothing with the other one
      Box moved = std::move(copy), assigned(to);
      EXPECT_EQ(moved, box);
      assigned = std::move(moved);
      EXPECT_EQ(assigned, box);
      // What was moved from can be read, and used again.
      EXPECT_GE(copy.volume(), 0);
      copy = assigned;
      moved = assigned;
      EXPECT_EQ(copy, box);
      EXPECT_EQ(moved, box);
      Box &self = assigned;
      assigned = self;
      EXPECT_EQ(assigned, box);
      assigned = std::move(self);
      EXPECT_EQ(assigned, box);
    }
}

} // namespace
