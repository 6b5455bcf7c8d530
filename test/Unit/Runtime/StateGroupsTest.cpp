//===- StateGroupsTest.cpp - States that are always named together --------===//

#include "StateGroups.h"

#include <gtest/gtest.h>

using namespace dtrt;

namespace {

ShardRecord shardOf(uint64_t states) {
  ShardRecord shard;
  shard.states = states;
  return shard;
}

Segment segmentOf(uint32_t shard, uint64_t states) {
  Segment segment;
  segment.shard = shard;
  segment.states = states;
  return segment;
}

} // namespace

TEST(StateGroups, AreOneUntilASegmentNamesAPart) {
  StateGroups groups(
      std::vector<ShardRecord>{shardOf(0b1111), shardOf(0b0110)});
  groups.add(segmentOf(0, 0b1111));
  EXPECT_EQ(groups.firstOf(0, 0b1111), 0b0001u);
  EXPECT_EQ(groups.firstOf(0, 0b1100), 0b0001u) << "all of it, or nothing";
  EXPECT_EQ(groups.groupOf(0, 2), 0b1111u);
  EXPECT_EQ(groups.firstOf(1, 0b0110), 0b0010u);

  groups.add(segmentOf(0, 0b0110));
  EXPECT_EQ(groups.firstOf(0, 0b1111), 0b0011u);
  EXPECT_EQ(groups.firstOf(0, 0b1000), 0b0001u);
  EXPECT_EQ(groups.groupOf(0, 2), 0b0110u);
  EXPECT_EQ(groups.groupOf(0, 3), 0b1001u);

  groups.add(segmentOf(0, 0b1100));
  EXPECT_EQ(groups.firstOf(0, 0b1111), 0b1111u);
  EXPECT_EQ(groups.firstOf(1, 0b0110), 0b0010u) << "each shard has its own";
}

/// A wrong plan may name states that a shard does not have.
TEST(StateGroups, LeavesOtherStatesAlone) {
  StateGroups groups(std::vector<ShardRecord>{shardOf(0b0110)});
  EXPECT_EQ(groups.firstOf(0, 0b1111), 0b1011u);
  EXPECT_EQ(groups.groupOf(0, 3), 0b1000u);
}
