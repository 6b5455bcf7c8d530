//===- CoversTest.cpp - Lists of boxes against sets of elements -----------===//

#include "dt/Geometry/Covers.h"
#include "dt/Geometry/Painted.h"

#include "gtest/gtest.h"

#include <random>
#include <set>

using namespace dt;

namespace {

using Elements = std::multiset<std::pair<int64_t, int64_t>>;

Box randomBox(std::mt19937 &random) {
  Box box(2);
  for (unsigned dim = 0; dim < 2; ++dim) {
    int64_t lo = int64_t(random() % 8);
    box[dim] = {lo, lo + 1 + int64_t(random() % 4)};
  }
  return box;
}

void add(const Box &box, Elements &out) {
  for (int64_t r = box[0].lo; r < box[0].hi; ++r)
    for (int64_t c = box[1].lo; c < box[1].hi; ++c)
      out.insert({r, c});
}

Elements elementsOf(const std::vector<Box> &boxes) {
  Elements out;
  for (const Box &box : boxes)
    add(box, out);
  return out;
}

/// Elements of a box that are `least` times or more in `elements`.
int64_t countIn(const Box &box, const Elements &elements, size_t least) {
  int64_t count = 0;
  Elements own;
  add(box, own);
  for (const auto &element : own)
    count += elements.count(element) >= least;
  return count;
}

} // namespace

TEST(Covers, AgreeWithSetsOfElements) {
  std::mt19937 random(5);
  int twice = 0, shared = 0, holes = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<Box> a, b, disjoint;
    for (unsigned i = random() % 5; i > 0; --i)
      a.push_back(randomBox(random));
    for (unsigned i = random() % 12; i > 0; --i)
      b.push_back(randomBox(random));
    for (const Box &box : b)
      if (!firstShared(disjoint, {box}))
        disjoint.push_back(box);
    Elements ofA = elementsOf(a), ofB = elementsOf(b),
             covered = elementsOf(disjoint);
    // Disjoint lists have each element once.
    ASSERT_FALSE(firstTwice(disjoint));
    ASSERT_EQ(covered.size(), std::set(covered.begin(), covered.end()).size());
    auto common = firstTwice(a);
    ASSERT_EQ(bool(common),
              ofA.size() != std::set(ofA.begin(), ofA.end()).size());
    if (common) {
      ASSERT_EQ(countIn(*common, ofA, 2), common->volume());
      ++twice;
    }
    auto both = firstShared(a, b);
    int64_t inBoth = 0;
    for (const Box &box : a)
      inBoth += countIn(box, ofB, 1);
    ASSERT_EQ(bool(both), inBoth > 0);
    if (both) {
      ASSERT_EQ(countIn(*both, ofA, 1), both->volume());
      ASSERT_EQ(countIn(*both, ofB, 1), both->volume());
      ++shared;
    }
    auto hole = firstUncovered(a, disjoint);
    int64_t inside = 0;
    for (const Box &box : a)
      inside += countIn(box, covered, 1);
    ASSERT_EQ(bool(hole), inside != int64_t(ofA.size()));
    if (hole) {
      ASSERT_EQ(countIn(*hole, covered, 1), 0);
      ASSERT_EQ(countIn(*hole, ofA, 1), hole->volume());
      ++holes;
    }
  }
  EXPECT_GT(std::min({twice, shared, holes}), 300);
}

TEST(Covers, NameTheFirst) {
  auto box = [](int64_t lo, int64_t hi) {
    return Box::fromOffsetSize({lo}, {hi - lo});
  };
  EXPECT_EQ(*firstTwice({box(0, 4), box(8, 12), box(2, 6), box(9, 10)}),
            box(2, 4));
  EXPECT_EQ(*firstShared({box(0, 1), box(4, 8)}, {box(6, 9), box(4, 5)}),
            box(6, 8));
  EXPECT_EQ(*firstUncovered({box(0, 4), box(4, 8)}, {box(0, 5), box(6, 8)}),
            box(5, 6));
  EXPECT_FALSE(firstUncovered({}, {box(0, 5)}));
  EXPECT_EQ(*firstUncovered({box(0, 4)}, {}), box(0, 4));
  EXPECT_FALSE(firstUncovered({box(0, 4)}, {box(0, 4), box(0, 4)}));
}

TEST(Painted, SaysOnceOfEachElementThatItIsNew) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    Painted painted;
    std::vector<bool> seen(40);
    for (int i = 0; i < 20; ++i) {
      auto lo = int64_t(random() % 39);
      int64_t hi = lo + 1 + int64_t(random()) % (39 - lo);
      std::vector<bool> before = seen;
      int64_t end = lo; // of the part before
      painted.add({lo, hi}, [&](Interval part) {
        EXPECT_LE(end, part.lo) << "parts ascend";
        end = part.hi;
        for (int64_t at = part.lo; at < part.hi; ++at) {
          EXPECT_FALSE(seen[at]) << at;
          seen[at] = true;
        }
      });
      EXPECT_LE(end, hi);
      for (int64_t at = 0; at < 40; ++at)
        EXPECT_EQ(bool(seen[at]), before[at] || (lo <= at && at < hi)) << at;
    }
  }
}
