//===- CirculantTest.cpp - Broadcasts in rounds, tried out ----------------===//

#include "dt/Routing/Circulant.h"
#include "dt/Routing/RoundTree.h"

#include "gtest/gtest.h"

#include <cmath>
#include <map>
#include <random>
#include <set>

using namespace dt;

namespace {

int64_t ceilLog2(int64_t size) {
  int64_t out = 0;
  while (int64_t(1) << out < size)
    ++out;
  return out;
}

/// Moves blocks as `receipts` says; in a round each processor sends one block
/// that it had before, and receives one that it lacks.
void expectBroadcast(int64_t size, int64_t blocks) {
  SCOPED_TRACE(std::to_string(size) + " processors, " + std::to_string(blocks) +
               " blocks");
  CirculantBroadcast broadcast(size);
  ASSERT_EQ(broadcast.phase(), ceilLog2(size));
  std::vector<int64_t> since(size_t(size * blocks), -1); // -1: does not have
  for (int64_t block = 0; block < blocks; ++block)
    since[block] = 0;
  std::set<std::pair<int64_t, int64_t>> sent, received; // by round
  int64_t last = 0;
  for (const BlockReceipt &receipt : broadcast.receipts(blocks)) {
    ASSERT_GE(receipt.round, last);
    last = receipt.round;
    ASSERT_LT(receipt.round, blocks - 1 + ceilLog2(size));
    ASSERT_TRUE(sent.insert({receipt.round, receipt.sender}).second);
    ASSERT_TRUE(received.insert({receipt.round, receipt.receiver}).second);
    int64_t had = since[receipt.sender * blocks + receipt.block];
    ASSERT_TRUE(had >= 0 && had <= receipt.round)
        << receipt.sender << " does not have block " << receipt.block;
    int64_t &has = since[receipt.receiver * blocks + receipt.block];
    ASSERT_EQ(has, -1) << "comes twice";
    has = receipt.round + 1;
  }
  for (int64_t has : since)
    ASSERT_GE(has, 0);
}

} // namespace

TEST(Circulant, BringsEveryBlockInTheFewestRounds) {
  for (int64_t size = 1; size <= 400; ++size)
    for (int64_t blocks : {1, 2, 3, 5, 8, 17})
      expectBroadcast(size, blocks);
  for (int64_t size : {1000, 1023, 1024, 1025})
    expectBroadcast(size, 30);
}

TEST(Circulant, TakesAnyNumberOfBlocks) {
  for (int64_t size : {2, 3, 5, 8, 13, 16, 31})
    for (int64_t blocks = 1; blocks <= 70; ++blocks)
      expectBroadcast(size, blocks);
}

// A phase brings each processor the blocks of the phase before but one, and its
// first one: none twice.
TEST(Circulant, APhaseBringsEveryBlockOnce) {
  for (int64_t size = 2; size < 600; size += 7) {
    CirculantBroadcast broadcast(size);
    for (int64_t processor = 1; processor < size; ++processor) {
      std::set<int64_t> blocks;
      int64_t own = -1;
      for (int64_t block : broadcast.receiveSchedule(processor)) {
        ASSERT_TRUE(blocks.insert(block < 0 ? block : block - broadcast.phase())
                        .second);
        if (block >= 0) {
          ASSERT_EQ(own, -1);
          own = block;
        }
      }
      ASSERT_EQ(int64_t(blocks.size()), broadcast.phase());
      ASSERT_EQ(*blocks.begin(), -broadcast.phase());
      ASSERT_GE(own, 0);
    }
  }
}

TEST(RoundTree, EveryDeviceHasEveryBlock) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  auto number = [&](int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random);
  };
  for (int trial = 0; trial < 200; ++trial) {
    RoundTree tree;
    int64_t next = 1;
    std::set<int64_t> wanters;
    auto devices = [&](int64_t count) {
      RoundTree::Devices out;
      for (; count > 0; --count) {
        wanters.insert(next);
        out.push_back(next++);
      }
      return out;
    };
    for (int64_t i = number(0, 9); i > 0; --i)
      tree.nodes.push_back(devices(number(1, 8)));
    if (number(0, 1)) {
      tree.holding.push_back(devices(number(1, 7)));
      tree.holding.back().insert(tree.holding.back().begin(), 0);
    }
    std::map<int64_t, int64_t> nodeOf = {{0, -1}};
    for (size_t i = 0; i < tree.nodes.size(); ++i)
      for (int64_t device : tree.nodes[i])
        nodeOf[device] = int64_t(i);
    for (const auto &node : tree.holding)
      for (int64_t device : node)
        nodeOf[device] = -1;
    int64_t blocks = number(1, 40), rounds = 0;
    std::map<std::pair<int64_t, int64_t>, int64_t> since; // (device, block)
    std::set<std::tuple<int64_t, bool, bool, int64_t>> ports;
    for (const BlockStep &step : tree.steps(blocks)) {
      bool inter = nodeOf[step.source] != nodeOf[step.destination];
      ASSERT_TRUE(ports.insert({step.round, inter, false, step.source}).second);
      ASSERT_TRUE(
          ports.insert({step.round, inter, true, step.destination}).second);
      if (step.source != 0) {
        auto had = since.find({step.source, step.block});
        ASSERT_NE(had, since.end());
        ASSERT_LT(had->second, step.round);
      }
      ASSERT_TRUE(
          since.insert({{step.destination, step.block}, step.round}).second);
      rounds = std::max(rounds, step.round + 1);
    }
    ASSERT_EQ(int64_t(since.size()), blocks * int64_t(wanters.size()));
    ASSERT_LE(rounds, wanters.empty() ? 0 : blocks + tree.delay());
  }
}

TEST(RoundTree, CutsIntoAsManyBlocksAsTakeLeast) {
  RoundTree tree;
  for (int64_t device = 8; device < 15 * 8 + 8; device += 8)
    tree.nodes.push_back({device});
  Cluster cluster;
  // 15 nodes: 4 rounds for the first block.
  EXPECT_EQ(tree.delay(), 3);
  for (int64_t bytes : {1 << 10, 1 << 20, 1 << 24, 1 << 28}) {
    auto seconds = [&](int64_t blocks) {
      return double(blocks + 3) *
             (1e-5 + double(bytes) / double(blocks) / 25e9);
    };
    int64_t blocks = tree.bestBlocks(bytes, 1000, cluster);
    for (int64_t other = 1; other < 1000; ++other)
      EXPECT_LE(seconds(blocks), seconds(other)) << bytes << ", " << other;
    EXPECT_LE(tree.bestBlocks(bytes, 5, cluster), 5);
  }
}
