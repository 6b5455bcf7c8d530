//===- WaitGraphTest.cpp - Cycles of ranks are found ----------------------===//

#include "dt/Proof/WaitGraph.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <random>

using namespace dt;

namespace {

/// Programs as lists of groups of (peer, receive).
using Groups = std::vector<std::vector<std::pair<int64_t, bool>>>;

std::vector<WaitEdge> waits(const std::vector<Groups> &programs) {
  std::vector<GroupMessage> messages;
  std::vector<DeviceGroups> devices;
  for (size_t device = 0; device < programs.size(); ++device) {
    devices.push_back({int64_t(device), {}});
    for (const auto &group : programs[device]) {
      devices.back().groups.emplace_back();
      for (auto [peer, receive] : group) {
        devices.back().groups.back().push_back(messages.size());
        messages.push_back({int64_t(device), peer, receive, 0});
      }
    }
  }
  return findWait(messages, devices);
}

} // namespace

TEST(WaitGraph, ExchangesInOneGroupEnd) {
  EXPECT_TRUE(
      waits({{{{1, false}, {1, true}}}, {{{0, false}, {0, true}}}}).empty());
  EXPECT_TRUE(waits({}).empty());
}

TEST(WaitGraph, CrossedPairWaits) {
  auto edges =
      waits({{{{1, false}}, {{1, true}}}, {{{0, false}}, {{0, true}}}});
  ASSERT_EQ(edges.size(), 2u);
  EXPECT_EQ(edges[0].waits, 0);
  EXPECT_EQ(edges[0].forDevice, 1);
}

TEST(WaitGraph, RingOfThreeWaits) {
  auto edges = waits({{{{2, true}}, {{1, false}}},
                      {{{0, true}}, {{2, false}}},
                      {{{1, true}}, {{0, false}}}});
  EXPECT_EQ(edges.size(), 3u);
}

TEST(WaitGraph, AMessageWithoutPartnerWaitsForOne) {
  auto edges = waits({{{{1, true}}}, {}});
  ASSERT_EQ(edges.size(), 1u);
  EXPECT_EQ(edges[0].forDevice, 1);
}

// Whoever runs the groups of random waves in ascending order never waits; in
// the order of another wave two ranks of a pair may.
TEST(WaitGraph, AscendingWavesEnd) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int trial = 0; trial < 200; ++trial) {
    size_t count = 2 + random() % 8;
    std::vector<Groups> programs(count, Groups(6));
    for (int i = 0; i < 40; ++i) {
      int64_t from = random() % count, to = random() % count;
      size_t wave = random() % 6;
      if (from == to)
        continue;
      programs[from][wave].push_back({to, false});
      programs[to][wave].push_back({from, true});
    }
    for (Groups &groups : programs)
      groups.erase(std::remove_if(groups.begin(), groups.end(),
                                  [](const auto &g) { return g.empty(); }),
                   groups.end());
    EXPECT_TRUE(waits(programs).empty());
  }
}

TEST(WaitGraph, EndsInDifferentWavesAreFound) {
  std::vector<GroupMessage> messages = {
      {0, 1, false, 0}, {1, 0, true, 0}, {0, 1, false, 4}, {1, 0, true, 4}};
  EXPECT_EQ(findWaveFault(messages), std::nullopt);
  messages[3].wave = 3;
  EXPECT_EQ(findWaveFault(messages), std::make_pair(size_t(3), size_t(2)));
}
