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

TEST(WaitGraph, EndsMeetInTheirOrder) {
  std::vector<GroupMessage> messages = {
      {0, 1, false, 0}, {1, 0, true, 0}, {0, 1, false, 4}, {1, 0, true, 4}};
  using Ends = std::vector<std::pair<size_t, size_t>>;
  EXPECT_EQ(meetings(messages), (Ends{{1, 0}, {3, 2}}));
  // A part in a collective is another channel's, though its group comes first.
  messages[0].memberSet = messages[3].memberSet = 0;
  EXPECT_EQ(meetings(messages), (Ends{{1, 2}, {3, 0}}));
}

// Two ranks come to the collectives of two sets that both are in: in one order
// they end, in two they wait on each other.
TEST(WaitGraph, CollectivesComeInOneOrder) {
  auto waitsIn = [](std::vector<int64_t> order) {
    std::vector<GroupMessage> messages;
    std::vector<DeviceGroups> devices;
    for (int64_t device : {0, 1}) {
      devices.push_back({device, {}});
      for (int64_t set : {order[device], 1 - order[device]}) {
        devices.back().groups.push_back({messages.size(), messages.size() + 1});
        messages.push_back({device, 1 - device, false, 0, set});
        messages.push_back({device, 1 - device, true, 0, set});
      }
    }
    return findWait(messages, devices).size();
  };
  EXPECT_EQ(waitsIn({1, 1}), 0u);
  EXPECT_EQ(waitsIn({0, 1}), 2u);
}
