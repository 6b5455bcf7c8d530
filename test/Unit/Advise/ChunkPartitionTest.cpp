//===- ChunkPartitionTest.cpp - Interleaved blocks against all ------------===//

#include "dt/Advise/ChunkPartition.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

using namespace dt::advise;

namespace {

/// Time and moved bytes of blocks, from the definition; no value where a limit
/// is not kept.
std::optional<std::pair<int64_t, int64_t>>
costOf(const ChunkProblem &problem, const std::vector<int64_t> &blocks) {
  const StageProblem &chain = problem.stages;
  size_t stages = chain.stages.size();
  std::vector<int64_t> work(stages, 0), bytes(stages, 0), stageOf;
  int64_t moved = 0;
  size_t layer = 0;
  for (size_t b = 0; b < blocks.size(); ++b) {
    if (blocks[b] < problem.leastLayersPerBlock)
      return std::nullopt;
    for (int64_t i = 0; i < blocks[b]; ++i, ++layer) {
      work[b % stages] += chain.work[layer];
      bytes[b % stages] += chain.layerBytes[layer];
      moved += chain.moveBytes.empty() ? 0 : chain.moveBytes[b % stages][layer];
      stageOf.push_back(int64_t(b % stages));
    }
  }
  int64_t time = 0;
  for (size_t s = 0; s < stages; ++s) {
    const StageLimits &limits = chain.stages[s];
    if (bytes[s] + limits.fixedBytes > limits.capacity)
      return std::nullopt;
    time = std::max(time, limits.slowness * (limits.fixedWork + work[s]));
  }
  for (auto [l, s] : problem.pinned)
    if (stageOf[l] != s)
      return std::nullopt;
  for (auto [a, b] : problem.together)
    if (stageOf[a] != stageOf[b])
      return std::nullopt;
  return std::make_pair(time, moved);
}

void allBlocks(int64_t layers, size_t count, std::vector<int64_t> &open,
               const std::function<void()> &see) {
  if (open.size() + 1 == count) {
    open.push_back(layers);
    see();
    open.pop_back();
    return;
  }
  for (int64_t n = 0; n <= layers; ++n) {
    open.push_back(n);
    allBlocks(layers - n, count, open, see);
    open.pop_back();
  }
}

ChunkProblem randomProblem(uint32_t seed) {
  std::mt19937 random(seed);
  ChunkProblem problem;
  size_t layers = 4 + random() % 5, stages = 2 + random() % 2;
  problem.chunks = 2;
  problem.leastLayersPerBlock = random() % 2 && layers >= 2 * stages;
  StageProblem &chain = problem.stages;
  for (size_t l = 0; l < layers; ++l) {
    chain.work.push_back(1 + random() % 50);
    chain.layerBytes.push_back(random() % 20);
  }
  chain.stages.resize(stages);
  for (StageLimits &stage : chain.stages) {
    stage.slowness = 1 + random() % 3;
    if (random() % 2)
      stage.capacity = 30 + random() % 60;
  }
  chain.stages.front().fixedWork = random() % 30;
  for (size_t s = 0; s < stages; ++s) {
    chain.moveBytes.emplace_back();
    for (size_t l = 0; l < layers; ++l)
      chain.moveBytes.back().push_back(random() % 100);
  }
  if (random() % 3 == 0)
    problem.pinned = {{int64_t(random() % layers), int64_t(random() % stages)}};
  if (random() % 3 == 0)
    problem.together = {{0, int64_t(layers) - 1}};
  return problem;
}

TEST(ChunkPartition, EqualsTheBestOfAllBlocks) {
  if (milpSolver().rfind("HiGHS ", 0) != 0 ||
      milpSolver() == "HiGHS is not built in")
    GTEST_SKIP() << milpSolver();
  size_t solved = 0;
  for (uint32_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    ChunkProblem problem = randomProblem(seed);
    double slack = (seed % 3) * 0.1;
    int64_t fastest = INT64_MAX, least = INT64_MAX;
    std::vector<int64_t> open;
    size_t blocks = problem.stages.stages.size() * 2;
    int64_t layers = int64_t(problem.stages.work.size());
    allBlocks(layers, blocks, open, [&] {
      if (auto cost = costOf(problem, open))
        fastest = std::min(fastest, cost->first);
    });
    std::string error;
    auto found = partitionChunks(problem, slack, error);
    ASSERT_EQ(found.has_value(), fastest != INT64_MAX) << error;
    if (!found)
      continue;
    ++solved;
    auto bound = int64_t(double(fastest) * (1 + slack));
    allBlocks(layers, blocks, open, [&] {
      auto cost = costOf(problem, open);
      if (cost && cost->first <= bound)
        least = std::min(least, cost->second);
    });
    EXPECT_TRUE(found->isExact);
    EXPECT_LE(found->time, bound);
    EXPECT_EQ(found->movedBytes, least);
    EXPECT_TRUE(verify(problem, *found, error)) << error;
  }
  EXPECT_GT(solved, 60u);
}

TEST(ChunkPartition, BlocksOfOneStageAreAddedUp) {
  ChunkProblem problem;
  problem.chunks = 2;
  problem.stages.work.assign(8, 10);
  problem.stages.layerBytes.assign(8, 0);
  problem.stages.stages.resize(2);
  std::string error;
  auto quick = spreadChunks(problem, error);
  ASSERT_TRUE(quick) << error;
  EXPECT_EQ(quick->layers, (std::vector<int64_t>{2, 2, 2, 2}));
  EXPECT_EQ(quick->time, 40);
}

TEST(ChunkPartition, SaysWhatDoesNotFit) {
  ChunkProblem problem;
  problem.chunks = 3;
  problem.stages.work = {1, 1};
  problem.stages.stages.resize(2);
  std::string error;
  EXPECT_FALSE(partitionChunks(problem, 0, error));
  EXPECT_EQ(error, "chunks is 3, expected 1 to the number of layers, 2");
  problem.chunks = 1;
  problem.pinned = {{5, 0}};
  EXPECT_FALSE(partitionChunks(problem, 0, error));
  EXPECT_EQ(error, "pinned names layer 5 and stage 0");
}

} // namespace
