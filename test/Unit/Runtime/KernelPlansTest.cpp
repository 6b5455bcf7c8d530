//===- KernelPlansTest.cpp - The order is that of NCCL's source -----------===//

#include "dtrt/cost/KernelPlans.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>

using namespace dtrt;

namespace {

std::vector<uint32_t> sendOrder(uint32_t rank,
                                const std::vector<uint32_t> &nodes) {
  std::vector<uint32_t> out;
  for (RoundPeers peers : roundsOf(rank, nodes))
    out.push_back(peers.send);
  return out;
}

/// Rounds in which the operations of a rank are taken, as (round, operation).
std::vector<uint32_t> peersInOrder(const std::vector<Batch> &batches,
                                   const std::vector<GroupOperation> &group) {
  std::vector<uint32_t> out;
  for (const Batch &batch : batches)
    for (const Work &work : batch)
      out.push_back(
          group[work.send == Work::kNone ? work.receive : work.send].peer);
  return out;
}

/// Works that a kernel plan takes, each with a message on so many channels:
/// testBudget in src/enqueue.cc, with nothing else in the plan.
unsigned worksPerPlan(unsigned channels) {
  constexpr unsigned kArguments = 4096, kHeader = 32, kBatch = 16;
  unsigned works = 0, batches = 0;
  while ((batches + channels) * kBatch <= kArguments - kHeader) {
    batches += channels;
    ++works;
  }
  return works;
}

} // namespace

// A send and a receive of one round are one work, so there are no more works
// than messages.
TEST(KernelPlans, AGroupFitsOnePlan) {
  EXPECT_EQ(worksPerPlan(kMaxChannels), kMaxGroupMessages);
  // Why the transport asks for no more channels: with all that NCCL has, the
  // four messages of a schedule need not fit.
  EXPECT_GE(worksPerPlan(kMaxChannels), 4u);
  EXPECT_LT(worksPerPlan(64), 4u);
}

// The example sequence in the comment of ncclP2pSchedule: 16 ranks.
TEST(KernelPlans, RoundsFollowTheSequenceOfTheSource) {
  std::vector<uint32_t> nodes(16, 1);
  EXPECT_EQ(sendOrder(0, nodes),
            (std::vector<uint32_t>{0, 1, 3, 6, 10, 15, 5, 12, 4, 13, 7, 2, 14,
                                   11, 9, 8}));
}

// Two nodes of 8 take turns as blocks of 8: first the own block, shifted.
TEST(KernelPlans, RanksOfANodeTakeTurnsTogether) {
  EXPECT_EQ(sendOrder(1, {8, 8}),
            (std::vector<uint32_t>{1, 2, 3, 4, 5, 6, 7, 0, 9, 10, 11, 12, 13,
                                   14, 15, 8}));
  // The largest block that divides all nodes, here 2.
  EXPECT_EQ(sendOrder(0, {4, 2}), (std::vector<uint32_t>{0, 1, 2, 3, 4, 5}));
}

TEST(KernelPlans, BothEndsOfAPairAreInOneRoundAndOnlyOne) {
  for (std::vector<uint32_t> nodes : {std::vector<uint32_t>{1},
                                      {3},
                                      {24},
                                      {8, 8, 8},
                                      {8, 4},
                                      {6, 6, 6, 6},
                                      {5, 5, 5},
                                      std::vector<uint32_t>(12, 8),
                                      std::vector<uint32_t>(33, 2)}) {
    uint32_t ranks = std::accumulate(nodes.begin(), nodes.end(), 0u);
    std::vector<std::vector<RoundPeers>> all;
    for (uint32_t rank = 0; rank < ranks; ++rank)
      all.push_back(roundsOf(rank, nodes));
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      ASSERT_EQ(all[rank].size(), ranks);
      std::vector<bool> seen(ranks, false);
      for (uint32_t round = 0; round < ranks; ++round) {
        uint32_t peer = all[rank][round].send;
        EXPECT_EQ(all[peer][round].receive, rank);
        EXPECT_FALSE(seen[peer]);
        seen[peer] = true;
      }
    }
  }
}

TEST(KernelPlans, ASendAndAReceiveOfARoundAreTakenTogether) {
  std::vector<GroupOperation> group = {{true, 3}, {false, 1}, {false, 2}};
  std::mt19937_64 rng(1);
  Adversary adversary;
  adversary.cutProbability = 0;
  auto batches = batchesOf(group, roundsOf(0, {4}), adversary, rng);
  // Round 1: to 1 and from 3; round 2: to 2.
  ASSERT_FALSE(batches.empty());
  EXPECT_EQ(batches[0][0].send, 1u);
  EXPECT_EQ(batches[0][0].receive, 0u);
}

// Two messages per pair: after a cut the old order starts again at round 0,
// and later operations of low rounds overtake.
TEST(KernelPlans, ACutReordersOnlyWhatComesTwice) {
  std::vector<GroupOperation> once, twice;
  for (uint32_t peer : {1u, 2u, 3u})
    once.push_back({false, peer});
  twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  std::vector<RoundPeers> rounds = roundsOf(0, {4});
  bool reordered = false;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 rng(seed);
    Adversary adversary;
    adversary.cutProbability = 0.5;
    EXPECT_EQ(peersInOrder(batchesOf(once, rounds, adversary, rng), once),
              (std::vector<uint32_t>{1, 2, 3}));
    auto order = peersInOrder(batchesOf(twice, rounds, adversary, rng), twice);
    reordered |= order != std::vector<uint32_t>{1, 2, 3, 1, 2, 3};
    adversary.restartRounds = false;
    EXPECT_EQ(peersInOrder(batchesOf(twice, rounds, adversary, rng), twice),
              (std::vector<uint32_t>{1, 2, 3, 1, 2, 3}));
  }
  EXPECT_TRUE(reordered);
}
