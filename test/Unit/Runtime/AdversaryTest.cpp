//===- AdversaryTest.cpp - Wrong schedules get stuck ----------------------===//
//
// Schedules that the rules forbid get stuck on the adversarial transport, with
// and without data; right ones never do. MustFailTest.cpp has them as files.
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include "dtrt/core/ArenaStorage.h"
#include "dtrt/core/CheckPattern.h"
#include "dtrt/core/Executor.h"
#include "dtrt/transport/AdversarialSimulation.h"
#include "dtrt/transport/AdversarialTransport.h"

#include <gtest/gtest.h>
#include <thread>

using namespace dtrt;
using namespace dtrt::test;

namespace {

/// How many of `runs` runs with different cuts get stuck.
int stuckRuns(const std::vector<RankGroups> &ranks, Adversary adversary,
              int runs = 50) {
  int stuck = 0;
  for (int seed = 0; seed < runs; ++seed)
    stuck += !simulateGroups(ranks, 8, adversary, uint64_t(seed)).ok();
  return stuck;
}

/// Every rank sends and receives `times` messages with every other.
std::vector<RankGroups> allToAll(uint32_t ranks, uint32_t times) {
  std::vector<RankGroups> out(ranks, RankGroups(1));
  for (uint32_t rank = 0; rank < ranks; ++rank)
    for (uint32_t i = 0; i < times; ++i)
      for (uint32_t peer = 0; peer < ranks; ++peer)
        if (peer != rank) {
          out[rank][0].push_back({false, peer});
          out[rank][0].push_back({true, peer});
        }
  return out;
}

/// The printed loop: in round u, rank r meets rank r xor u, u = 1 .. n - 1.
/// Every rank sends by the loop and expects something from everybody.
std::vector<RankGroups> xorLoop(uint32_t ranks) {
  std::vector<RankGroups> out(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    for (uint32_t u = 1; u < ranks; ++u)
      if ((rank ^ u) < ranks)
        out[rank].push_back({{false, rank ^ u}, {true, rank ^ u}});
    out[rank].emplace_back();
    for (uint32_t peer = 0; peer < ranks; ++peer)
      if (peer != rank && (rank ^ peer) >= ranks)
        out[rank].back().push_back({true, peer});
  }
  return out;
}

/// Runs the plan with real bytes on the adversarial transport; the status of
/// the first rank that failed, and how many bytes are wrong.
Status runAdversarial(const PlanReader &plan, uint64_t seed,
                      uint64_t &mismatches) {
  AdversarialWorld world(plan.devices(), 2, Adversary(), seed);
  std::vector<Status> statuses(plan.devices().size());
  std::vector<CheckReport> reports(plan.devices().size());
  auto runOne = [&](size_t i) -> Status {
    Transport &transport = world.endpoint(plan.devices()[i]);
    auto program = plan.program(plan.devices()[i]);
    DTRT_RETURN_IF_ERROR(program);
    auto storage = ArenaStorage::allocate(plan.common(), *program);
    DTRT_RETURN_IF_ERROR(storage);
    fillShards(**storage);
    auto executor = Executor::prepare(**storage, transport);
    DTRT_RETURN_IF_ERROR(executor);
    DTRT_RETURN_IF_ERROR(transport.connect(plan.digest(), executor->peers()));
    DTRT_RETURN_IF_ERROR(executor->run());
    for (uint32_t s = 0; s < program->destination.size(); ++s)
      checkDestination(**storage, s, reports[i]);
    return {};
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < statuses.size(); ++i)
    threads.emplace_back([&, i] {
      statuses[i] = runOne(i);
      if (!statuses[i].ok())
        world.endpoint(plan.devices()[i]).abort(statuses[i]);
      world.endpoint(plan.devices()[i]).leave();
    });
  for (std::thread &thread : threads)
    thread.join();
  for (size_t i = 0; i < statuses.size(); ++i) {
    DTRT_RETURN_IF_ERROR(statuses[i]);
    mismatches += reports[i].mismatches;
  }
  return {};
}

} // namespace

TEST(Adversary, OneMessagePerPairNeverGetsStuck) {
  for (uint32_t ranks : {2u, 3u, 8u, 24u, 33u}) {
    EXPECT_EQ(stuckRuns(allToAll(ranks, 1), {}), 0) << ranks;
    Adversary carryOn;
    carryOn.restartRounds = false;
    EXPECT_EQ(stuckRuns(allToAll(ranks, 1), carryOn), 0) << ranks;
  }
}

TEST(Adversary, TwoMessagesPerPairGetStuckInTheOldOrder) {
  EXPECT_GT(stuckRuns(allToAll(8, 2), {}), 0);
  EXPECT_GT(stuckRuns(allToAll(16, 2), {}), 25);
  Adversary uncut;
  uncut.cutProbability = 0;
  EXPECT_EQ(stuckRuns(allToAll(8, 2), uncut), 0);
  Adversary carryOn;
  carryOn.restartRounds = false;
  EXPECT_EQ(stuckRuns(allToAll(16, 2), carryOn), 0);
}

// 24,000 operations per rank in one group, on 4 ranks.
TEST(Adversary, AVeryLargeGroupGetsStuckInTheOldOrder) {
  Adversary adversary;
  adversary.cutProbability = 1.0 / 1000;
  EXPECT_GT(stuckRuns(allToAll(4, 4000), adversary, 3), 0);
}

TEST(Adversary, TheXorLoopMissesPairs) {
  for (uint32_t ranks : {3u, 24u, 96u})
    EXPECT_EQ(stuckRuns(xorLoop(ranks), {}, 3), 3) << ranks;
  EXPECT_EQ(stuckRuns(xorLoop(16), {}), 0);
}

TEST(Adversary, CrossedPairsGetStuck) {
  std::vector<RankGroups> crossed = {{{{false, 1}}, {{true, 1}}},
                                     {{{false, 0}}, {{true, 0}}}};
  EXPECT_EQ(stuckRuns(crossed, {}), 50);
  std::vector<RankGroups> ring = {{{{true, 2}}, {{false, 1}}},
                                  {{{true, 0}}, {{false, 2}}},
                                  {{{true, 1}}, {{false, 0}}}};
  EXPECT_EQ(stuckRuns(ring, {}), 50);
}

TEST(Adversary, RunsPlansByteExactly) {
  for (const TestPlan &plan : {reshapePlan(), reshapePlan(MemoryMode::Flat),
                               forwardingPlan(), relayPlan()})
    for (uint64_t seed = 0; seed < 10; ++seed) {
      uint64_t mismatches = 0;
      PlanReader reader = plan.reader();
      Status status = runAdversarial(reader, seed, mismatches);
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(mismatches, 0u);
    }
}
