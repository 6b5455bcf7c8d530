//===- RailTreeTest.cpp - Shares of NICs, tried out -----------------------===//

#include "dt/Routing/RailTree.h"

#include "gtest/gtest.h"

#include <map>
#include <random>
#include <set>

using namespace dt;

namespace {

using Cell = std::pair<int64_t, int64_t>; // device, cell

/// Of two broadcasts among up to 16.
constexpr int64_t kMostLate = 2 * 4;

/// A tree and who lacks the data.
struct Multicast {
  RailTree tree;
  std::map<int64_t, int64_t> nodeOf;
  std::set<int64_t> holders, wanters;
};

/// `nodes`: how many devices of each other node want it. `holders` of the
/// node 0, which has as many as `near`, hold it.
Multicast multicast(const std::vector<int64_t> &nodes, int64_t holders,
                    int64_t near, int64_t rails) {
  Multicast out;
  int64_t next = 0;
  auto devices = [&](int64_t node, int64_t count) {
    RailTree::Devices added;
    for (; count > 0; --count) {
      out.nodeOf[next] = node;
      (next < holders ? out.holders : out.wanters).insert(next);
      added.push_back(next++);
    }
    return added;
  };
  RailTree::Devices all = devices(0, near);
  out.tree.senders = {all.begin(), all.begin() + rails};
  if (near > holders) {
    out.tree.holding = {{all.front()}};
    out.tree.holding[0].insert(out.tree.holding[0].end(), all.begin() + holders,
                               all.end());
  }
  for (size_t i = 0; i < nodes.size(); ++i)
    out.tree.nodes.push_back(devices(int64_t(i + 1), nodes[i]));
  return out;
}

/// Every cell comes once to each that lacks it, once into a node, in a round
/// before it is sent on; ports carry one message per round.
void expectRight(const Multicast &m, const RailCut &cut) {
  std::map<Cell, int64_t> since; // the round
  std::set<Cell> entered;        // node, cell
  std::set<std::tuple<int64_t, bool, bool, int64_t>> ports;
  int64_t rounds = 0;
  for (const RailStep &step : m.tree.steps(cut)) {
    rounds = std::max(rounds, step.round + 1);
    ASSERT_LT(step.first, step.last);
    ASSERT_LE(step.last, m.tree.cells(cut));
    int64_t from = m.nodeOf.at(step.source), to = m.nodeOf.at(step.destination);
    ASSERT_TRUE(
        ports.insert({step.round, from != to, false, step.source}).second);
    ASSERT_TRUE(
        ports.insert({step.round, from != to, true, step.destination}).second);
    for (int64_t cell = step.first; cell < step.last; ++cell) {
      if (!m.holders.count(step.source)) {
        auto had = since.find({step.source, cell});
        ASSERT_NE(had, since.end());
        ASSERT_LT(had->second, step.round);
      }
      ASSERT_TRUE(since.insert({{step.destination, cell}, step.round}).second);
      if (from != to) {
        ASSERT_TRUE(entered.insert({to, cell}).second);
      }
    }
  }
  EXPECT_EQ(int64_t(since.size()),
            m.tree.cells(cut) * int64_t(m.wanters.size()));
  EXPECT_LE(rounds, m.tree.rounds(cut) + kMostLate);
}

std::vector<std::vector<int64_t>> text(const std::vector<RailStep> &steps) {
  std::vector<std::vector<int64_t>> out;
  for (const RailStep &step : steps)
    out.push_back(
        {step.round, step.source, step.destination, step.first, step.last});
  return out;
}

} // namespace

// The example of the header.
TEST(RailTree, TwoNodesOfTwoDevices) {
  Multicast m = multicast({2}, 1, 2, 2);
  std::vector<std::vector<int64_t>> expected = {
      {0, 0, 1, 0, 2}, {0, 0, 3, 1, 2}, {1, 0, 1, 2, 4}, {1, 1, 2, 0, 1},
      {1, 0, 3, 3, 4}, {2, 1, 2, 2, 3}, {2, 2, 3, 0, 1}, {2, 3, 2, 1, 2},
      {3, 2, 3, 2, 3}, {3, 3, 2, 3, 4}};
  RailCut cut = m.tree.cutInto(2, {2});
  EXPECT_EQ(text(m.tree.steps(cut)), expected);
  EXPECT_EQ(m.tree.rounds(cut), 4);
}

TEST(RailTree, RandomOnesAreRight) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  auto number = [&](int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random);
  };
  Cluster cluster;
  for (int trial = 0; trial < 300; ++trial) {
    int64_t rails = number(2, 9);
    std::vector<int64_t> nodes;
    for (int64_t i = number(1, 9); i > 0; --i)
      nodes.push_back(rails + (number(0, 2) == 0 ? number(0, 3) : 0));
    int64_t near = rails + number(0, 2);
    Multicast m = multicast(nodes, number(0, 1) ? 1 : rails, near, rails);
    SCOPED_TRACE("trial " + std::to_string(trial));
    RailCut best = m.tree.bestCut(int64_t(1) << number(10, 32), 4096, cluster);
    expectRight(m, best);
    expectRight(m, m.tree.cutInto(number(1, 40), best.teams));
    expectRight(m, m.tree.cutInto(number(1, 40), best.teams, true));
  }
}

// Eight nodes of eight: 10 rounds more than blocks.
TEST(RailTree, BothLevelsCarryAtTheirFullRate) {
  Multicast m = multicast(std::vector<int64_t>(7, 8), 1, 8, 8);
  Cluster cluster;
  int64_t bytes = int64_t(1) << 32;
  RailCut cut = m.tree.bestCut(bytes, 1 << 20, cluster);
  EXPECT_EQ(cut.teams, (std::vector<int64_t>{2, 4}));
  EXPECT_LE(m.tree.steps(cut).back().round + 1, cut.blocks + 10);
  double round =
      double(bytes) / double(m.tree.cells(cut)) / 25e9 + cluster.waveSeconds();
  EXPECT_LT(round * double(m.tree.rounds(cut)), 1.17 * double(bytes) / 200e9);
}

TEST(RailTree, KeepsToTheStepsThatItMayHave) {
  Multicast m = multicast(std::vector<int64_t>(7, 8), 1, 8, 8);
  for (int64_t most : {1, 100, 1000, 10000}) {
    RailCut cut = m.tree.bestCut(int64_t(1) << 32, most, Cluster());
    if (cut.blocks > 1) {
      EXPECT_LE(int64_t(m.tree.steps(cut).size()), most);
    }
  }
}
