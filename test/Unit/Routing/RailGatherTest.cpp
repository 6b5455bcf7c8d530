//===- RailGatherTest.cpp - All-gathers by all NICs, tried out ------------===//

#include "dt/Routing/RailGather.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

using namespace dt;

namespace {

/// Devices 0, 1, ... of so many nodes.
RailGather gatherOf(int64_t nodes, int64_t rails) {
  RailGather out;
  for (int64_t node = 0; node < nodes; ++node) {
    out.nodes.emplace_back();
    for (int64_t rail = 0; rail < rails; ++rail)
      out.nodes.back().push_back(node * rails + rail);
  }
  return out;
}

/// Every cell comes to everybody once, by NIC to one device of a node, which
/// sends it on later; but for own parts inside nodes, ports carry one message
/// per round.
void expectRight(const RailGather &gather, const GatherCut &cut) {
  int64_t rails = gather.rails();
  int64_t devices = rails * int64_t(gather.nodes.size());
  std::map<std::pair<int64_t, int64_t>, int64_t> since; // device, cell: round
  std::set<std::pair<int64_t, int64_t>> entered;        // node, cell
  std::set<std::tuple<int64_t, bool, bool, int64_t>> ports;
  for (const RailStep &step : gather.steps(cut)) {
    bool inter = step.source / rails != step.destination / rails;
    bool isOwn = step.first / cut.cells == step.source;
    if (inter || !isOwn) {
      ASSERT_TRUE(ports.insert({step.round, inter, false, step.source}).second);
      ASSERT_TRUE(
          ports.insert({step.round, inter, true, step.destination}).second);
    }
    ASSERT_LT(step.first, step.last);
    for (int64_t cell = step.first; cell < step.last; ++cell) {
      ASSERT_NE(cell / cut.cells, step.destination);
      ASSERT_EQ(cell / cut.cells == step.source, isOwn);
      if (!isOwn) {
        auto had = since.find({step.source, cell});
        ASSERT_NE(had, since.end());
        ASSERT_LT(had->second, step.round);
      }
      ASSERT_TRUE(since.insert({{step.destination, cell}, step.round}).second);
      if (inter) {
        ASSERT_TRUE(entered.insert({step.destination / rails, cell}).second);
      }
    }
  }
  EXPECT_EQ(int64_t(since.size()), devices * (devices - 1) * cut.cells);
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
