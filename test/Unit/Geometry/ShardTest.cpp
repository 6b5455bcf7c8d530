// Regions and local views of shards with packed parts and flat ranges.

#include "dt/Geometry/Shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace dt;

namespace {

int64_t uniform(std::mt19937 &random, int64_t lo, int64_t hi) {
  return std::uniform_int_distribution<int64_t>(lo, hi)(random);
}

/// Up to two parts of each dim, dims in any order, one leading dim or none.
Shard randomShard(std::mt19937 &random) {
  Shard shard;
  shard.numLeading = unsigned(uniform(random, 0, 1));
  unsigned inner = unsigned(uniform(random, 1, 3));
  for (unsigned d = 0; d < shard.numLeading + inner; ++d) {
    std::vector<Interval> parts;
    int64_t end = 0;
    for (int64_t i = 0, n = uniform(random, 1, 2); i < n; ++i) {
      int64_t begin = end + uniform(random, 0, 2);
      end = begin + uniform(random, 1, 3);
      parts.push_back({begin, end});
    }
    shard.dims.emplace_back(parts.begin(), parts.end());
  }
  std::vector<int64_t> order(inner);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  shard.order = Permutation::of(order).value();
  return shard;
}

/// Inside one part of each dim.
Box randomBoxOf(const Shard &shard, std::mt19937 &random) {
  std::vector<int64_t> offsets, sizes;
  for (const auto &parts : shard.dims) {
    const Interval &part =
        parts[size_t(uniform(random, 0, int64_t(parts.size()) - 1))];
    offsets.push_back(uniform(random, part.lo, part.hi - 1));
    sizes.push_back(uniform(random, 1, part.hi - offsets.back()));
  }
  return Box::fromOffsetSize(offsets, sizes);
}

/// Whether the elements of a view follow each other, one after the other.
bool isDense(const LocalView &view) {
  std::vector<int64_t> index(view.sizes.size());
  for (int64_t expected = 0;; ++expected) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d)
      at += index[d] * view.strides[d];
    if (at != expected)
      return false;
    size_t d = index.size();
    while (d > 0 && ++index[d - 1] == view.sizes[d - 1])
      index[--d] = 0;
    if (d == 0)
      return true;
  }
}

/// gate/up [2f, h] with f = 4, h = 3 at tp 1 of 2, on layers 2 and 3.
Shard gateUp() {
  Shard shard;
  shard.numLeading = 1;
  shard.dims = {{{2, 4}}, {{2, 4}, {6, 8}}, {{0, 3}}};
  return shard;
}

TEST(ShardTest, hasLocalSizes) {
  Shard shard = gateUp();
  EXPECT_EQ(shard.localShape(), (std::vector<int64_t>{2, 4, 3}));
  EXPECT_EQ(shard.numMembers(), 2);
  EXPECT_EQ(shard.elementsPerMember(), 12);
  shard.range = Interval{4, 9};
  EXPECT_EQ(shard.elementsPerMember(), 5);
}

TEST(ShardTest, packedPartsAreARegionEach) {
  std::vector<Box> boxes = regions(gateUp(), {8, 8, 3});
  ASSERT_EQ(boxes.size(), 2u);
  EXPECT_EQ(toString(boxes[0]), "[2:4)x[2:4)x[0:3)");
  EXPECT_EQ(toString(boxes[1]), "[2:4)x[6:8)x[0:3)");
}

TEST(ShardTest, aRangeRunsAcrossPackedParts) {
  Shard shard = gateUp();
  shard.range = Interval{4, 11};
  std::vector<Box> boxes = regions(shard, {8, 8, 3});
  ASSERT_EQ(boxes.size(), 3u);
  EXPECT_EQ(toString(boxes[0]), "[2:4)x[3:4)x[1:3)");
  EXPECT_EQ(toString(boxes[1]), "[2:4)x[6:7)x[0:3)");
  EXPECT_EQ(toString(boxes[2]), "[2:4)x[7:8)x[0:2)");
}

TEST(ShardTest, paddingIsNoRegion) {
  Shard shard;
  shard.dims = {{{4, 8}}, {{0, 2}}};
  EXPECT_EQ(toString(regions(shard, {6, 2}).at(0)), "[4:6)x[0:2)");
  EXPECT_EQ(toString(padding(shard, {6, 2}).at(0)), "[6:8)x[0:2)");
  shard.range = Interval{0, 3};
  EXPECT_TRUE(padding(shard, {6, 2}).empty());
  shard.dims[0] = {{8, 9}};
  shard.range.reset();
  EXPECT_TRUE(regions(shard, {6, 2}).empty());
  EXPECT_EQ(padding(shard, {6, 2}).size(), 1u);
}

TEST(ShardTest, aViewCountsFromTheRangeStart) {
  Shard shard = gateUp();
  Box box = Box::fromOffsetSize({3, 6, 1}, {1, 2, 2});
  std::optional<LocalView> view = localView(shard, box);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->offset, 7);
  EXPECT_EQ(view->sizes, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(view->strides, (std::vector<int64_t>{3, 1}));
  shard.range = Interval{7, 12};
  EXPECT_EQ(localView(shard, box)->offset, 0);
  shard.range = Interval{8, 12};
  EXPECT_FALSE(localView(shard, box));
  shard.range = Interval{7, 11};
  EXPECT_FALSE(localView(shard, box));
}

TEST(ShardTest, aBoxAcrossPartsHasNoView) {
  EXPECT_FALSE(localView(gateUp(), Box::fromOffsetSize({2, 3, 0}, {1, 4, 1})));
  EXPECT_FALSE(localView(gateUp(), Box::fromOffsetSize({1, 2, 0}, {2, 1, 1})));
  EXPECT_FALSE(localView(gateUp(), Box::whole({8, 8})));
}

TEST(ShardTest, aBoxIsOneRunWhereItsElementsFollowEachOther) {
  std::mt19937 random(7);
  int64_t numRuns = 0, numOthers = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    SCOPED_TRACE(trial);
    Shard shard = randomShard(random);
    Box box = randomBoxOf(shard, random);
    std::optional<LocalView> view = localView(shard, box);
    ASSERT_TRUE(view);
    bool isOneMember = shard.numLeading == 0 || box[0].size() == 1;
    bool expected = isOneMember && isDense(*view);
    ASSERT_EQ(isOneRun(shard, box), expected) << toString(box);
    ++(expected ? numRuns : numOthers);
  }
  EXPECT_GT(numRuns, 1000);
  EXPECT_GT(numOthers, 1000);
}

} // namespace
