//===- LinkClustersTest.cpp - Islands of measured links -------------------===//

#include "dt/Advise/LinkClusters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

using namespace dt::advise;

namespace {

/// Islands given per device and level; rates fall by level, with noise.
Bandwidths fromIslands(const std::vector<std::vector<int64_t>> &islandOf,
                       const std::vector<double> &rates, double noise,
                       uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> spread(1 - noise, 1 + noise);
  Bandwidths out;
  out.devices = int64_t(islandOf.front().size());
  for (int64_t a = 0; a < out.devices; ++a)
    for (int64_t b = 0; b < out.devices; ++b) {
      size_t level = 0;
      while (level < islandOf.size() &&
             islandOf[level][a] != islandOf[level][b])
        ++level;
      out.rates.push_back(rates[level] * spread(random));
    }
  return out;
}

bool isSamePartition(const std::vector<int64_t> &a,
                     const std::vector<int64_t> &b) {
  std::map<int64_t, int64_t> there, back;
  for (size_t i = 0; i < a.size(); ++i)
    if (there.emplace(a[i], b[i]).first->second != b[i] ||
        back.emplace(b[i], a[i]).first->second != a[i])
      return false;
  return true;
}

TEST(LinkClusters, FindsNodesAndSitesInAnyOrder) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    std::vector<int64_t> devices(48);
    for (int64_t i = 0; i < 48; ++i)
      devices[i] = i;
    std::shuffle(devices.begin(), devices.end(), random);
    std::vector<std::vector<int64_t>> islandOf(2, std::vector<int64_t>(48));
    for (int64_t i = 0; i < 48; ++i) {
      islandOf[0][devices[i]] = i / 4;  // nodes of 4
      islandOf[1][devices[i]] = i / 16; // sites of 4 nodes
    }
    // 10 Gb/s inside a node, 1 Gb/s inside a site, 8 Mb/s between.
    Bandwidths links = fromIslands(islandOf, {1.25, 0.125, 0.001}, 0.2, seed);
    std::string error;
    auto found = clusterDevices(links, 2, error);
    ASSERT_TRUE(found) << error;
    ASSERT_EQ(found->levels.size(), 3u);
    EXPECT_TRUE(isSamePartition(found->levels[0].islandOf, islandOf[0]));
    EXPECT_TRUE(isSamePartition(found->levels[1].islandOf, islandOf[1]));
    // Every island is a run of the order.
    for (const LinkLevel &level : found->levels) {
      std::set<int64_t> seen;
      int64_t last = -1;
      for (int64_t device : found->order) {
        if (level.islandOf[device] == last)
          continue;
        last = level.islandOf[device];
        EXPECT_TRUE(seen.insert(last).second);
      }
    }
  }
}

TEST(LinkClusters, EveryPairOfAnIslandHasItsRate) {
  std::mt19937 random(9);
  std::lognormal_distribution<double> rate(0, 2);
  Bandwidths links;
  links.devices = 20;
  for (int i = 0; i < 400; ++i)
    links.rates.push_back(rate(random));
  std::string error;
  auto found = clusterDevices(links, 1.5, error);
  ASSERT_TRUE(found) << error;
  for (const LinkLevel &level : found->levels)
    for (int64_t a = 0; a < 20; ++a)
      for (int64_t b = 0; b < 20; ++b)
        if (a != b && level.islandOf[a] == level.islandOf[b]) {
          EXPECT_GE(links.both(a, b), level.slowest);
        }
}

TEST(LinkClusters, HeavyAxisStaysInsideAnIsland) {
  // Islands of 6, 5 and 5: two groups of 2 leave one device over in two.
  std::vector<int64_t> island = {0, 0, 0, 0, 0, 0, 1, 1,
                                 1, 1, 1, 2, 2, 2, 2, 2};
  Bandwidths links = fromIslands({island}, {100, 1}, 0.1, 4);
  std::string error;
  auto clusters = clusterDevices(links, 2, error);
  ASSERT_TRUE(clusters) << error;
  auto groups = groupDevices(*clusters, 2, 7, error);
  ASSERT_TRUE(groups) << error;
  EXPECT_EQ(groups->split, 0);
  for (size_t g = 0; g < 7; ++g)
    EXPECT_EQ(island[groups->devices[2 * g]],
              island[groups->devices[2 * g + 1]]);
  groups = groupDevices(*clusters, 2, 8, error);
  ASSERT_TRUE(groups) << error;
  EXPECT_EQ(groups->split, 1);
  std::set<int64_t> used(groups->devices.begin(), groups->devices.end());
  EXPECT_EQ(used.size(), 16u);
}

TEST(LinkClusters, SaysWhatDoesNotFit) {
  Bandwidths links;
  links.devices = 2;
  links.rates = {0, 1, 0, 0};
  std::string error;
  EXPECT_FALSE(clusterDevices(links, 2, error));
  EXPECT_EQ(error, "the bandwidth from device 1 to 0 is not more than 0");
  links.rates = {0, 1, 1, 0};
  auto clusters = clusterDevices(links, 2, error);
  ASSERT_TRUE(clusters);
  EXPECT_FALSE(groupDevices(*clusters, 2, 2, error));
  EXPECT_EQ(error, "2 groups of 2 need more than 2 devices");
}

} // namespace
