// ZeRO-1 buckets: border cases of Megatron-Core's layout.

#include "dt/Megatron/Buckets.h"

#include "RandomGeometry.h"

using namespace dt;
using namespace dt::test;

namespace {

TEST(BucketsTest, laysOutInReverseOrderAtAlignedStarts) {
  BucketLayout layout = layOutBuckets({{10}, {100}, {64}}, 1, 0);
  EXPECT_EQ(layout.params[2].span, (Interval{0, 64}));
  EXPECT_EQ(layout.params[1].span, (Interval{64, 164}));
  EXPECT_EQ(layout.params[0].span, (Interval{192, 202}));
  ASSERT_EQ(layout.buckets.size(), 1u);
  EXPECT_EQ(layout.buckets[0], (Interval{0, 256}));
}

TEST(BucketsTest, oneParamIsSplitOverThreeRanks) {
  BucketLayout layout = layOutBuckets({{1000}}, 3, 0);
  EXPECT_EQ(layout.buckets[0], (Interval{0, 1152})); // 3 * lcm(3, 128)
  EXPECT_EQ(layout.ownedRange(0, 0), (Interval{0, 384}));
  EXPECT_EQ(layout.ownedRange(0, 1), (Interval{384, 768}));
  EXPECT_EQ(layout.ownedRange(0, 2), (Interval{768, 1000}));
  EXPECT_EQ(layout.owners(0), (Interval{0, 3}));
}

TEST(BucketsTest, aRankMayHoldOnlyBucketPadding) {
  BucketLayout layout = layOutBuckets({{100}}, 3, 0);
  EXPECT_EQ(layout.buckets[0], (Interval{0, 384}));
  EXPECT_EQ(layout.ownedRange(0, 0), (Interval{0, 100}));
  EXPECT_TRUE(layout.ownedRange(0, 1).empty());
  EXPECT_EQ(layout.owners(0), (Interval{0, 1}));
}

TEST(BucketsTest, aBucketClosesOnceItIsFull) {
  BucketLayout layout = layOutBuckets({{10}, {100}, {64}}, 2, 164);
  ASSERT_EQ(layout.buckets.size(), 2u);
  EXPECT_EQ(layout.buckets[0], (Interval{0, 256}));
  EXPECT_EQ(layout.buckets[1], (Interval{256, 384}));
  EXPECT_EQ(layout.params[0].bucket, 1u);
  EXPECT_EQ(layout.params[0].span, (Interval{256, 266}));
  // One element more to go: all in one bucket.
  EXPECT_EQ(layOutBuckets({{10}, {100}, {64}}, 2, 203).buckets.size(), 1u);
}

TEST(BucketsTest, aSharedEmbeddingIsAloneInItsBucket) {
  BucketLayout layout = layOutBuckets({{10}, {20, true}, {30}}, 2, 0);
  ASSERT_EQ(layout.buckets.size(), 3u);
  EXPECT_EQ(layout.params[2].bucket, 0u);
  EXPECT_EQ(layout.params[1].bucket, 1u);
  EXPECT_EQ(layout.params[0].bucket, 2u);
  EXPECT_EQ(layout.params[1].span, (Interval{128, 148}));
  EXPECT_EQ(layout.params[0].span, (Interval{256, 266}));
}

TEST(BucketsTest, aSharedEmbeddingAtAnEndLeavesNoEmptyBucket) {
  EXPECT_EQ(layOutBuckets({{10, true}, {20}}, 2, 0).buckets.size(), 2u);
  EXPECT_EQ(layOutBuckets({{10}, {20, true}}, 2, 0).buckets.size(), 2u);
  EXPECT_EQ(layOutBuckets({}, 2, 0).buckets.size(), 0u);
}

TEST(BucketsTest, everyElementHasOneOwner) {
  Random random;
  for (int round = 0; round < 200; ++round) {
    std::vector<BucketParam> params(random.number(1, 12));
    for (BucketParam &param : params)
      param = {random.number(1, 3000), random.chance(10)};
    int64_t numRanks = random.number(1, 9);
    BucketLayout layout =
        layOutBuckets(params, numRanks, random.number(0, 5000));
    for (size_t i = 0; i < params.size(); ++i) {
      int64_t next = 0; // the ranks' ranges follow each other
      Interval owners = layout.owners(i);
      for (int64_t rank = 0; rank < numRanks; ++rank) {
        Interval owned = layout.ownedRange(i, rank);
        EXPECT_EQ(owned.empty(), rank < owners.lo || rank >= owners.hi);
        if (owned.empty())
          continue;
        EXPECT_EQ(owned.lo, next);
        next = owned.hi;
        Interval bucket = layout.buckets[layout.params[i].bucket];
        int64_t share = bucket.size() / numRanks;
        int64_t place = layout.params[i].span.lo + owned.lo - bucket.lo;
        EXPECT_EQ(place / share, rank);
        EXPECT_EQ((place + owned.size() - 1) / share, rank);
      }
      EXPECT_EQ(next, params[i].size);
    }
    for (Interval bucket : layout.buckets)
      EXPECT_EQ(bucket.size() % numRanks, 0);
  }
}

} // namespace
