//===- AdversaryTest.cpp - Wrong schedules get stuck ----------------------===//
//
// Each schedule that the rules forbid gets stuck on the adversarial transport,
// and is refused by the verifier when it is in a file: model and machine agree.
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include "dtrt/AdversarialTransport.h"
#include "dtrt/CheckPattern.h"
#include "dtrt/Executor.h"
#include "dtrt/Verifier.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
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
    for (uint32_t s = 0; s < program->source.size(); ++s)
      fillSource(**storage, s);
    for (uint32_t s = 0; s < program->destination.size(); ++s)
      poisonDestination(**storage, s);
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

std::string verdict(const TestPlan &plan) {
  Status status = verifyPlan(plan.reader());
  return status.ok() ? "" : status.message();
}

Instruction groupOf(int32_t wave, std::vector<Message> messages) {
  Instruction group;
  group.op = Opcode::Group;
  group.wave = wave;
  group.messages = std::move(messages);
  return group;
}

/// Device d holds row d, and wants the rows that `wants` names, each moved
/// directly in the wave given.
struct Hop {
  uint32_t from, to;
  int32_t sendWave, receiveWave;
};
TestPlan rowPlan(uint32_t devices, const std::vector<Hop> &hops) {
  TestPlan plan;
  Holdings source, destination;
  for (int64_t d = 0; d < devices; ++d) {
    source.push_back({box(0, {{d, d + 1}, {0, 4}})});
    destination.push_back({});
  }
  plan = makePlan({makeFamily("w", {}, {devices, 4})}, source, destination);
  for (const Hop &hop : hops)
    plan.programs[hop.to].destination.push_back(
        box(0, {{hop.from, hop.from + 1}, {0, 4}}));
  std::vector<std::map<int32_t, std::vector<Message>>> waves(devices);
  std::vector<uint32_t> arrivals(devices);
  for (const Hop &hop : hops) {
    Segment row = {0, 1, Side::Source, 0, {hop.from, 0}, {1, 4}};
    waves[hop.from][hop.sendWave].push_back({false, hop.to, 8, true, 0, row});
    row.side = Side::Destination;
    row.shard = arrivals[hop.to]++;
    waves[hop.to][hop.receiveWave].push_back({true, hop.from, 8, true, 0, row});
  }
  for (RankProgram &program : plan.programs) {
    program.instructions.clear();
    program.stagingBytes = 0;
    for (const auto &[wave, messages] : waves[program.device])
      program.instructions.push_back(groupOf(wave, messages));
  }
  summarize(plan);
  return plan;
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
  for (const TestPlan &plan :
       {reshapePlan(), reshapePlan(MemoryMode::Flat), forwardingPlan()})
    for (uint64_t seed = 0; seed < 10; ++seed) {
      uint64_t mismatches = 0;
      PlanReader reader = plan.reader();
      Status status = runAdversarial(reader, seed, mismatches);
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(mismatches, 0u);
    }
}

TEST(Adversary, CrossedPairInAFileIsRefusedAndGetsStuck) {
  TestPlan plan = rowPlan(2, {{0, 1, 0, 1}, {1, 0, 0, 1}});
  EXPECT_EQ(verdict(plan),
            "devices 0 and 1 wait on each other: device 0, instruction 0 "
            "(group) waits for device 1; device 1, instruction 0 (group) "
            "waits for device 0");
  uint64_t mismatches = 0;
  PlanReader reader = plan.reader();
  Status status = runAdversarial(reader, 1, mismatches);
  EXPECT_NE(status.message().find("stuck"), std::string::npos)
      << status.message();
}

TEST(Adversary, RingInAFileIsRefused) {
  TestPlan plan = rowPlan(3, {{0, 1, 1, 0}, {1, 2, 1, 0}, {2, 0, 1, 0}});
  std::string text = verdict(plan);
  EXPECT_EQ(text.find("devices 0, 1 and 2 wait on each other: device 0, "
                      "instruction 0 (group) waits for device 2"),
            0u)
      << text;
}

TEST(Adversary, MismatchedWaveInAFileIsRefused) {
  EXPECT_EQ(verdict(rowPlan(2, {{0, 1, 0, 0}})), "");
  EXPECT_EQ(verdict(rowPlan(2, {{0, 1, 0, 1}})),
            "device 0, instruction 0 (group): sends to device 1 in wave 0, but "
            "device 1 does not receive");
}

/// The loop at n ranks as a file: everybody wants all rows, and what the loop
/// misses, everybody waits for and nobody sends.
TEST(Adversary, XorLoopInAFileIsRefused) {
  for (int32_t ranks : {3, 24, 96}) {
    std::vector<Hop> hops;
    for (int32_t from = 0; from < ranks; ++from)
      for (int32_t to = 0; to < ranks; ++to)
        if (from != to)
          hops.push_back(
              {uint32_t(from), uint32_t(to), (from ^ to) - 1, (from ^ to) - 1});
    TestPlan plan = rowPlan(ranks, hops);
    EXPECT_EQ(verdict(plan), "");
    auto isMissed = [&](const Instruction &group, const Message &message) {
      return group.wave + 1 >= ranks && !message.receive;
    };
    for (RankProgram &program : plan.programs)
      for (Instruction &group : program.instructions) {
        auto &list = group.messages;
        list.erase(std::remove_if(list.begin(), list.end(),
                                  [&](const Message &message) {
                                    return isMissed(group, message);
                                  }),
                   list.end());
      }
    summarize(plan);
    EXPECT_NE(verdict(plan).find("wait on each other"), std::string::npos)
        << verdict(plan);
  }
}

/// Every rank's whole exchange in one group: 14 messages are too many for one
/// kernel plan.
TEST(Adversary, LargeGroupInAFileIsRefused) {
  std::vector<Hop> hops;
  for (uint32_t from = 0; from < 8; ++from)
    for (uint32_t to = 0; to < 8; ++to)
      if (from != to)
        hops.push_back({from, to, 0, 0});
  EXPECT_EQ(verdict(rowPlan(8, hops)),
            "device 0, instruction 0 (group): has 14 messages, expected at "
            "most 6 so that it fits one kernel plan");
}

/// A send slot that is packed while the group before still sends from it.
TEST(Adversary, SlotReusedInFlightIsRefused) {
  TestPlan plan = reshapePlan();
  for (RankProgram &program : plan.programs) {
    for (Instruction &i : program.instructions) {
      if (i.op == Opcode::Pack)
        i.slot = 0;
      for (Message &message : i.messages)
        if (!message.receive && !message.direct)
          message.slot = 0;
    }
  }
  EXPECT_NE(verdict(plan).find("is still in flight"), std::string::npos)
      << verdict(plan);
}
