//===- BlockGatherTest.cpp - All-gathers by equal blocks, tried out -------===//

#include "dt/Routing/BlockGather.h"

#include "Gathers.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <random>

using namespace dt;
using namespace dt::testing;

namespace {

BlockGather gatherOf(int64_t nodes, int64_t rails) {
  return {nodesOf(nodes, rails)};
}

} // namespace

TEST(BlockGather, AllGetAllOnce) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  auto number = [&](int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random);
  };
  for (int trial = 0; trial < 200; ++trial) {
    int64_t nodes = number(2, 6), rails = number(2, 9);
    BlockGather gather = gatherOf(nodes, rails);
    SCOPED_TRACE("trial " + std::to_string(trial));
    BlockCut best =
        gather.bestCut(int64_t(1) << number(8, 28), 4096, Cluster());
    expectGathered(nodes, rails, best.blocks, gather.steps(best));
    BlockCut other = {number(1, 40), best.teams};
    expectGathered(nodes, rails, other.blocks, gather.steps(other));
  }
}

// The example of the header: what device 0 gets, by round.
TEST(BlockGather, ThreeNodesOfTwo) {
  std::vector<std::vector<int64_t>> got,
      expected = {{0, 1, 2, 4}, {0, 4, 8, 9}, {1, 4, 9, 10}, {2, 1, 10, 12},
                  {2, 2, 4, 5}, {3, 2, 5, 6}, {4, 1, 6, 8}};
  for (const RailStep &step : gatherOf(3, 2).steps({2, {2}}))
    if (step.destination == 0)
      got.push_back({step.round, step.source, step.first, step.last});
  std::sort(got.begin(), got.end());
  EXPECT_EQ(got, expected);
}

TEST(BlockGather, KeepsToTheStepsThatItMayHave) {
  BlockGather gather = gatherOf(8, 8);
  for (int64_t most : {1, 4000, 10000, 30000}) {
    BlockCut cut = gather.bestCut(int64_t(1) << 26, most, Cluster());
    if (cut.blocks > 1) {
      EXPECT_LE(int64_t(gather.steps(cut).size()), most);
    }
  }
}
