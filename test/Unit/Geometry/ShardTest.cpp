// Regions and local views of shards with packed parts and flat ranges.

#include "dt/Geometry/Shard.h"

#include <gtest/gtest.h>

using namespace dt;

namespace {

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

} // namespace
