//===- SpreadRoundsTest.cpp - Fewest rounds, against all that there are ---===//

#include "dt/Cost/SpreadRounds.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <functional>
#include <random>
#include <set>

using namespace dt;

namespace {

/// By node: devices that have it. Those of a node are alike.
using State = std::vector<int64_t>;

/// Looks at every state that a round can lead to.
class AllSchedules {
public:
  AllSchedules(int64_t inside, int64_t across, State sizes)
      : inside(inside), across(across), sizes(std::move(sizes)) {}

  int64_t rounds(const State &start) const {
    std::set<State> reached = {start};
    for (int64_t round = 0;; ++round) {
      if (reached.count(sizes))
        return round;
      std::set<State> next;
      for (const State &state : reached) {
        int64_t entries = 0;
        for (int64_t have : state)
          entries += have * across;
        State after = state;
        addStates(state, 0, entries, after, next);
      }
      reached = std::move(next);
    }
  }

private:
  void addStates(const State &before, size_t node, int64_t entries,
                 State &after, std::set<State> &out) const {
    if (node == before.size()) {
      out.insert(after);
      return;
    }
    bool isFar = before[node] == 0;
    int64_t most =
        isFar ? std::min<int64_t>(1, entries)
              : std::min(before[node] * inside, sizes[node] - before[node]);
    for (int64_t more = 0; more <= most; ++more) {
      after[node] = before[node] + more;
      addStates(before, node + 1, entries - (isFar ? more : 0), after, out);
    }
    after[node] = before[node];
  }

  int64_t inside, across;
  State sizes;
};

/// A port of such a cluster carries so many messages at once.
Cluster clusterOf(int64_t inside, int64_t across) {
  Cluster cluster;
  cluster.channelsPerPeer = 1;
  cluster.intraChannelGBps = cluster.intraNodeGBps / double(inside);
  cluster.interChannelGBps = cluster.interNodeGBps / double(across);
  return cluster;
}

} // namespace

TEST(SpreadRounds, AreTheFewestOfAllSchedules) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  auto number = [&](int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random);
  };
  for (int trial = 0; trial < 300; ++trial) {
    int64_t inside = number(1, 2), across = number(1, 2);
    State sizes, start;
    std::vector<NodeCopies> near;
    std::vector<int64_t> far;
    for (int64_t node = number(0, 4); node >= 0; --node) {
      sizes.push_back(number(1, 4));
      // The first one has some.
      bool has = near.empty() || number(0, 3) == 0;
      start.push_back(has ? number(1, sizes.back()) : 0);
      if (has)
        near.push_back({start.back(), sizes.back() - start.back()});
      else
        far.push_back(sizes.back());
    }
    SpreadRounds spread(clusterOf(inside, across));
    ASSERT_EQ(spread.toAll(near, far),
              AllSchedules(inside, across, sizes).rounds(start))
        << "trial " << trial;
  }
}

// The table of the header.
TEST(SpreadRounds, OfOneDeviceToEightNodes) {
  SpreadRounds spread{Cluster()};
  EXPECT_EQ(spread.toAll({{1, 7}}, std::vector<int64_t>(7, 8)), 6);
  EXPECT_EQ(spread.toAll({{1, 7}}, std::vector<int64_t>(63, 8)), 8);
  EXPECT_EQ(spread.toAll({{8, 0}}, std::vector<int64_t>(7, 8)), 4);
  EXPECT_EQ(spread.toAll({{1, 7}}, {}), 3);
  EXPECT_EQ(spread.ofNode({2, 6}), 2);
}
