//===- RailGatherTest.cpp - All-gathers by all NICs, tried out ------------===//

#include "dt/Routing/RailGather.h"

#include "Gathers.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <random>

using namespace dt;
using namespace dt::testing;

namespace {

RailGather gatherOf(int64_t nodes, int64_t rails) {
  return {nodesOf(nodes, rails)};
}

void expectRight(const RailGather &gather, const GatherCut &cut) {
  expectGathered(int64_t(gather.nodes.size()), gather.rails(), cut.cells,
                 gather.steps(cut));
}

} // namespace

TEST(RailGather, AllGetAllOnce) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  auto number = [&](int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random);
  };
  for (int trial = 0; trial < 200; ++trial) {
    RailGather gather = gatherOf(number(2, 6), number(2, 9));
    SCOPED_TRACE("trial " + std::to_string(trial));
    GatherCut cut = gather.bestCut(int64_t(1) << number(8, 28), 4096,
                                   number(1, 200), Cluster());
    expectRight(gather, cut);
    expectRight(gather,
                gather.cutInto(number(1, 99), number(1, 5), number(1, 6),
                               number(0, 1) == 1, double(number(1, 12))));
    RailGather powers = gatherOf(number(2, 4), 4 << number(0, 1));
    expectRight(powers, {1, {}, 1});
  }
}

// The example of the header: what device 0 gets, by round.
TEST(RailGather, ThreeNodesOfTwo) {
  RailGather gather = gatherOf(3, 2);
  std::vector<std::vector<int64_t>> got, expected = {{0, 1, 16, 32},
                                                     {0, 4, 64, 80},
                                                     {1, 1, 80, 96},
                                                     {1, 2, 32, 48},
                                                     {2, 1, 48, 64}};
  for (const RailStep &step : gather.steps(gather.cutInto(16, 1, 1, false, 8)))
    if (step.destination == 0)
      got.push_back({step.round, step.source, step.first, step.last});
  std::sort(got.begin(), got.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(got, expected);
}

// Four nodes of four by node: what device 0 gets. It is at its own node's
// place, so no other node sends it anything: within its node it gets all that
// is of it, and then the other nodes' parts in teams.
TEST(RailGather, FourNodesOfFourByNode) {
  std::vector<std::vector<int64_t>> got, within, inside;
  for (const RailStep &step : gatherOf(4, 4).steps({1, {}, 1}))
    if (step.destination == 0)
      (step.round < 3 ? within : inside)
          .push_back({step.round, step.source, step.first, step.last});
  EXPECT_EQ(within, (std::vector<std::vector<int64_t>>{
                        {0, 1, 1, 2}, {1, 2, 3, 4}, {2, 3, 2, 3}}));
  EXPECT_EQ(inside,
            (std::vector<std::vector<int64_t>>{{4, 1, 4, 8}, {5, 2, 8, 16}}));
}
