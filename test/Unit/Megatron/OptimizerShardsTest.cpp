// ZeRO-1 shards of whole layouts: which tensors share a buffer, and where only
// one bucket is formed. Buckets by themselves: BucketsTest.cpp.

#include "dt/Megatron/OptimizerShards.h"

#include <gtest/gtest.h>

#include <map>

using namespace dt;

namespace {

using Ranges = std::map<int64_t, Interval>; // per device
using Axes = std::vector<std::string>;

/// One tensor of `size` elements on a stage ("pp" restricted) or on all ranks.
BucketedParam tensor(const Mesh &mesh, int64_t order, int64_t size,
                     std::vector<int64_t> stages = {}, Axes axes = {"dp"}) {
  BucketedParam param;
  param.shape = {size};
  param.placement.dims.resize(1);
  if (!stages.empty())
    param.placement.at.push_back({"pp", std::move(stages)});
  param.mesh = &mesh;
  param.axes = std::move(axes);
  param.orderBase = order;
  return param;
}

/// The range that each device owns of each tensor.
std::vector<Ranges> rangesOf(const std::vector<BucketedParam> &params,
                             int64_t bucketSize) {
  size_t culprit = 0;
  std::string error;
  auto holdings = evaluateBucketed(params, bucketSize, culprit, error);
  EXPECT_TRUE(holdings) << error;
  std::vector<Ranges> out(params.size());
  for (size_t i = 0; holdings && i < params.size(); ++i)
    for (const Holding &holding : (*holdings)[i])
      for (int64_t device : holding.devices)
        out[i][device] =
            holding.shard.range.value_or(Interval{0, params[i].shape[0]});
  return out;
}

TEST(OptimizerShards, splitsATensorOverThreeRanks) {
  Mesh mesh{{{"dp", 3}}, {}};
  auto ranges = rangesOf({tensor(mesh, 0, 10), tensor(mesh, 1, 1000)}, 1 << 20);
  // One bucket of 3 x 384: the large tensor, padding to 64, the small one.
  EXPECT_EQ(ranges[1],
            (Ranges{{0, {0, 384}}, {1, {384, 768}}, {2, {768, 1000}}}));
  EXPECT_EQ(ranges[0], (Ranges{{2, {0, 10}}}));
}

TEST(OptimizerShards, leavesRanksThatHoldOnlyPaddingWithoutShards) {
  Mesh mesh{{{"dp", 4}}, {}};
  auto ranges = rangesOf({tensor(mesh, 0, 40)}, 1 << 20);
  EXPECT_EQ(ranges[0], (Ranges{{0, {0, 32}}, {1, {32, 40}}}));
}

TEST(OptimizerShards, cutsOnlyTheFirstStageIntoBuckets) {
  Mesh mesh{{{"pp", 2}, {"dp", 2}}, {}};
  auto ranges = rangesOf({tensor(mesh, 0, 128, {0}), tensor(mesh, 1, 128, {0}),
                          tensor(mesh, 2, 128, {1}), tensor(mesh, 3, 128, {1})},
                         128);
  // Two buckets, each halved.
  EXPECT_EQ(ranges[0], (Ranges{{0, {0, 64}}, {1, {64, 128}}}));
  EXPECT_EQ(ranges[1], (Ranges{{0, {0, 64}}, {1, {64, 128}}}));
  // One bucket, in reverse order.
  EXPECT_EQ(ranges[2], (Ranges{{3, {0, 128}}}));
  EXPECT_EQ(ranges[3], (Ranges{{2, {0, 128}}}));
}

TEST(OptimizerShards, givesEveryModelChunkABufferAndTheFirstItsBuckets) {
  // Virtual stage s of pp 2 is chunk s / 2 of stage s % 2.
  Mesh mesh{{{"pp", 2}, {"dp", 2}}, {}};
  auto ranges = rangesOf({tensor(mesh, 0, 128, {0}), tensor(mesh, 1, 128, {0}),
                          tensor(mesh, 2, 128, {2}), tensor(mesh, 3, 128, {2}),
                          tensor(mesh, 4, 128, {1}), tensor(mesh, 5, 128, {3})},
                         128);
  Ranges halves = {{0, {0, 64}}, {1, {64, 128}}};
  EXPECT_EQ(ranges[0], halves);
  EXPECT_EQ(ranges[1], halves);
  // The second chunk of the first stage is one bucket of two tensors.
  EXPECT_EQ(ranges[2], (Ranges{{1, {0, 128}}}));
  EXPECT_EQ(ranges[3], (Ranges{{0, {0, 128}}}));
  // The second stage has one tensor in each of two buffers.
  Ranges later = {{2, {0, 64}}, {3, {64, 128}}};
  EXPECT_EQ(ranges[4], later);
  EXPECT_EQ(ranges[5], later);
}

TEST(OptimizerShards, countsTheChunksOfAFamilyByItsOwners) {
  // Layers 0..3 of one family on virtual stages 0, 1, 2, 3.
  Mesh mesh{{{"pp", 2}, {"dp", 2}}, {}};
  BucketedParam layers = tensor(mesh, 0, 128);
  layers.shape = {4, 128};
  layers.numLeading = 1;
  layers.orderOffsets = {{0, 1}};
  layers.placement.dims.resize(2);
  Split split;
  split.axis = "pp";
  split.cuts = {0, 1, 2, 3, 4};
  split.owners = {0, 1, 2, 3};
  layers.placement.dims[0].splits = {split};
  size_t culprit = 0;
  std::string error;
  auto holdings = evaluateBucketed({layers}, 1 << 20, culprit, error);
  ASSERT_TRUE(holdings) << error;
  // One buffer per layer: every rank owns half of each of its two layers.
  EXPECT_EQ((*holdings)[0].size(), 8u);
  for (const Holding &holding : (*holdings)[0])
    EXPECT_EQ(holding.shard.range->size(), 64);
}

/// Four layers of a family: one bucket each, or one bucket of all.
TEST(OptimizerShards, joinsLayersThatFollowOneAnother) {
  Mesh mesh{{{"dp", 2}}, {}};
  BucketedParam layers = tensor(mesh, 0, 128);
  layers.shape = {4, 128};
  layers.numLeading = 1;
  layers.orderOffsets = {{0, 1}};
  layers.placement.dims.resize(2);
  auto runsOf = [&](int64_t bucketSize) {
    size_t culprit = 0;
    std::string error;
    auto holdings = evaluateBucketed({layers}, bucketSize, culprit, error);
    EXPECT_TRUE(holdings) << error;
    std::map<int64_t, std::vector<Interval>> runs; // by device
    for (const Holding &holding : (*holdings)[0])
      if (!holding.shard.range)
        runs[holding.devices.front()].push_back(holding.shard.dims[0].front());
    return runs;
  };
  using Runs = std::map<int64_t, std::vector<Interval>>;
  // Buckets of two layers: each rank has one of each.
  EXPECT_EQ(runsOf(256), (Runs{{0, {{1, 2}, {3, 4}}}, {1, {{0, 1}, {2, 3}}}}));
  EXPECT_EQ(runsOf(1 << 20), (Runs{{0, {{2, 4}}}, {1, {{0, 2}}}}));
}

TEST(OptimizerShards, keepsExpertsInBuffersOverExpertDataParallelism) {
  // tp 1, ep 2 over 4 ranks: dense buffers over 4, expert buffers over 2.
  Mesh dense{{{"dp", 4}}, {}};
  Mesh expert{{{"edp", 2}, {"ep", 2}}, {}};
  BucketedParam first = tensor(expert, 1, 128, {}, {"edp"});
  first.placement.at.push_back({"ep", {0}});
  first.buffer = 1;
  BucketedParam second = tensor(expert, 2, 128, {}, {"edp"});
  second.placement.at.push_back({"ep", {1}});
  second.buffer = 1;
  auto ranges = rangesOf({tensor(dense, 0, 128), first, second}, 1 << 20);
  EXPECT_EQ(
      ranges[0],
      (Ranges{{0, {0, 32}}, {1, {32, 64}}, {2, {64, 96}}, {3, {96, 128}}}));
  EXPECT_EQ(ranges[1], (Ranges{{0, {0, 64}}, {2, {64, 128}}}));
  EXPECT_EQ(ranges[2], (Ranges{{1, {0, 64}}, {3, {64, 128}}}));
}

TEST(OptimizerShards,
     keepsExpertsAmongTheDenseTensorsWithoutExpertParallelism) {
  Mesh mesh{{{"dp", 2}}, {}};
  // Norm, expert, expert, output layer: one buffer, one bucket of 512.
  auto ranges = rangesOf({tensor(mesh, 0, 64), tensor(mesh, 1, 128),
                          tensor(mesh, 2, 128), tensor(mesh, 3, 128)},
                         1 << 20);
  EXPECT_EQ(ranges[3], (Ranges{{0, {0, 128}}}));
  EXPECT_EQ(ranges[2], (Ranges{{0, {0, 128}}}));
  EXPECT_EQ(ranges[1], (Ranges{{1, {0, 128}}}));
  EXPECT_EQ(ranges[0], (Ranges{{1, {0, 64}}}));
}

TEST(OptimizerShards, cutsTheSharedEmbeddingAlikeOnBothStages) {
  Mesh mesh{{{"pp", 2}, {"dp", 2}}, {}};
  BucketedParam embedding = tensor(mesh, 0, 256, {0, 1});
  embedding.sharedEmbedding = true;
  auto ranges = rangesOf(
      {embedding, tensor(mesh, 1, 100, {0}), tensor(mesh, 2, 900, {1})},
      1 << 20);
  EXPECT_EQ(
      ranges[0],
      (Ranges{{0, {0, 128}}, {1, {128, 256}}, {2, {0, 128}}, {3, {128, 256}}}));
}

TEST(OptimizerShards, keepsDtypesApart) {
  Mesh mesh{{{"dp", 2}}, {}};
  BucketedParam norm = tensor(mesh, 0, 128);
  BucketedParam weight = tensor(mesh, 1, 128);
  Ranges halves = {{0, {0, 64}}, {1, {64, 128}}};
  EXPECT_EQ(rangesOf({norm, weight}, 1 << 20)[1], (Ranges{{0, {0, 128}}}));
  norm.buffer = 1;
  EXPECT_EQ(rangesOf({norm, weight}, 1 << 20),
            (std::vector<Ranges>{halves, halves}));
}

TEST(OptimizerShards, widensTheGroupByContextParallelism) {
  Mesh mesh{{{"dp", 2}, {"cp", 2}, {"tp", 2}}, {}};
  auto ranges = rangesOf({tensor(mesh, 0, 512, {}, {"dp", "cp"})}, 1 << 20);
  // Ranks 0, 2, 4, 6 share a buffer: cp varies fastest in it.
  EXPECT_EQ(ranges[0][2], (Interval{128, 256}));
  EXPECT_EQ(ranges[0][4], (Interval{256, 384}));
  EXPECT_EQ(ranges[0][5], (Interval{256, 384}));
}

} // namespace
