//===- MustFailTest.cpp - Wrong plans, refused and seen to fail -----------===//
//
// Each case as a plan file: the verifier refuses it, and the adversarial
// machine, which knows nothing of the verifier, gets stuck on it or catches it.
// Which of the two is said per case: only waiting gets stuck, wrong bytes do
// not.
//
//===----------------------------------------------------------------------===//

#include "AdversarialMachine.h"
#include "PlanBuilder.h"

#include "dtrt/verify/Verifier.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>

using namespace dtrt;
using namespace dtrt::test;

namespace {

std::string verdict(const TestPlan &plan) {
  Status status = verifyPlan(plan.reader());
  return status.ok() ? "" : status.message();
}

/// Device d holds row d, and wants the rows that `wants` names, each moved
/// directly in the wave given.
struct Hop {
  uint32_t from, to;
  int32_t sendWave, receiveWave;
};
/// The device's own row stays where nobody wants it.
void keepUnmoved(RankProgram &program, const std::vector<Hop> &hops) {
  for (const Hop &hop : hops)
    if (hop.from == program.device)
      return;
  int64_t row = program.device;
  Segment from = {0, 1, Side::Source, 0, {row, 0}, {1, 4}}, to = from;
  to.side = Side::Destination;
  to.shard = uint32_t(program.destination.size());
  program.destination.push_back(box(0, {{row, row + 1}, {0, 4}}));
  Instruction copy;
  copy.segments = {from, to};
  program.instructions.push_back(copy);
}

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
      program.instructions.push_back(inWave(wave, groupOf(messages)));
    keepUnmoved(program, hops);
  }
  summarize(plan);
  return plan;
}

/// How many of `runs` runs with other cuts, delays and overlaps fail, all of
/// them with this text.
int failingRuns(const TestPlan &plan, const std::string &text, int runs = 20) {
  PlanReader reader = plan.reader();
  int failing = 0;
  for (int seed = 0; seed < runs; ++seed) {
    Status status = runOnMachine(reader, 8, Adversary(), uint64_t(seed));
    if (status.ok())
      continue;
    ++failing;
    EXPECT_NE(status.message().find(text), std::string::npos)
        << status.message();
  }
  return failing;
}

/// The verifier refuses the plan for this reason.
void expectRefused(const TestPlan &plan, const std::string &reason) {
  EXPECT_NE(verdict(plan).find(reason), std::string::npos) << verdict(plan);
}

/// The loop at n ranks: everybody wants all rows, and what the loop misses,
/// everybody waits for and nobody sends.
TestPlan xorPlan(int32_t ranks) {
  std::vector<Hop> hops;
  for (int32_t from = 0; from < ranks; ++from)
    for (int32_t to = 0; to < ranks; ++to)
      if (from != to)
        hops.push_back(
            {uint32_t(from), uint32_t(to), (from ^ to) - 1, (from ^ to) - 1});
  TestPlan plan = rowPlan(uint32_t(ranks), hops);
  EXPECT_EQ(verdict(plan), "");
  for (RankProgram &program : plan.programs)
    for (Instruction &group : program.instructions) {
      auto isMissed = [&](const Message &message) {
        return group.wave + 1 >= ranks && !message.receive;
      };
      auto &list = group.messages;
      list.erase(std::remove_if(list.begin(), list.end(), isMissed),
                 list.end());
    }
  summarize(plan);
  return plan;
}

/// All ranks exchange `times` single rows with every other in one group.
TestPlan oneGroupPlan(int64_t ranks, int64_t times) {
  int64_t own = ranks * times;
  Holdings source, destination(ranks);
  for (int64_t d = 0; d < ranks; ++d) {
    source.push_back({box(0, {{d * own, (d + 1) * own}})});
    for (int64_t from = 0; from < ranks; ++from)
      if (from != d)
        destination[d].push_back(
            box(0, {{from * own + d * times, from * own + (d + 1) * times}}));
  }
  TestPlan plan =
      makePlan({makeFamily("w", {}, {ranks * own})}, source, destination);
  for (RankProgram &program : plan.programs) {
    std::vector<Message> messages;
    int64_t device = program.device;
    for (int64_t k = 0; k < times; ++k)
      for (int64_t peer = 0; peer < ranks; ++peer) {
        if (peer == device)
          continue;
        Segment out = {
            0, 1, Side::Source, 0, {device * own + peer * times + k}, {1}};
        Segment in = {0,
                      1,
                      Side::Destination,
                      uint32_t(peer - (peer > device)),
                      {peer * own + device * times + k},
                      {1}};
        messages.push_back({false, uint32_t(peer), 2, true, 0, out});
        messages.push_back({true, uint32_t(peer), 2, true, 0, in});
      }
    program.instructions = {inWave(0, groupOf(std::move(messages)))};
    program.stagingBytes = 0;
  }
  summarize(plan);
  return plan;
}

} // namespace

TEST(MustFail, XorLoopGetsStuck) {
  for (int32_t ranks : {3, 24, 96}) {
    TestPlan plan = xorPlan(ranks);
    expectRefused(plan, "wait on each other");
    EXPECT_EQ(failingRuns(plan, "stuck: ", 3), 3);
  }
}

TEST(MustFail, CrossedPairGetsStuck) {
  TestPlan plan = rowPlan(2, {{0, 1, 0, 1}, {1, 0, 0, 1}});
  expectRefused(plan,
                "devices 0 and 1 wait on each other: device 0, instruction 0 "
                "(group) waits for device 1; device 1, instruction 0 (group) "
                "waits for device 0");
  EXPECT_EQ(failingRuns(plan, "stuck: device "), 20);
}

/// Device 0's group waits for device 2 and not for device 1, which it has met.
TEST(MustFail, AMessageThatIsDoneIsNotTheReason) {
  TestPlan plan = rowPlan(3, {{0, 1, 0, 0}, {0, 2, 0, 1}, {2, 0, 0, 1}});
  expectRefused(plan,
                "devices 0 and 2 wait on each other: device 0, instruction 0 "
                "(group) waits for device 2; device 2, instruction 0 (group) "
                "waits for device 0");
  EXPECT_EQ(failingRuns(plan, "stuck: device "), 20);
}

TEST(MustFail, RingGetsStuck) {
  TestPlan plan = rowPlan(3, {{0, 1, 1, 0}, {1, 2, 1, 0}, {2, 0, 1, 0}});
  expectRefused(plan, "devices 0, 1 and 2 wait on each other: device 0, "
                      "instruction 0 (group) waits for device 2");
  EXPECT_EQ(failingRuns(plan, "stuck: "), 20);
}

/// 24,000 operations per rank in one group, 4,000 per ordered pair: whether it
/// gets stuck depends on where the cuts fall, and they fall anywhere.
TEST(MustFail, GroupOf24000OperationsGetsStuck) {
  TestPlan plan = oneGroupPlan(4, 4000);
  EXPECT_EQ(plan.programs[0].instructions[0].messages.size(), 24000u);
  expectRefused(plan, "device 0, instruction 0 (group): sends to device 1 "
                      "twice in one group");
  EXPECT_GT(failingRuns(plan, "stuck: ", 2), 0);
}

/// A group of many peers, one message for each, is refused as well: not because
/// it could get stuck under the assumptions, but as the second belt.
TEST(MustFail, GroupOfManyPeersIsRefused) {
  TestPlan plan = oneGroupPlan(8, 1);
  EXPECT_EQ(verdict(plan),
            "device 0, instruction 0 (group): has 14 messages, expected at "
            "most 7 so that it fits one kernel plan");
  EXPECT_EQ(failingRuns(plan, ""), 0);
}

TEST(MustFail, MismatchedWaveIsRefused) {
  EXPECT_EQ(verdict(rowPlan(2, {{0, 1, 0, 0}})), "");
  EXPECT_EQ(verdict(rowPlan(2, {{0, 1, 0, 1}})),
            "device 0, instruction 0 (group): sends to device 1 in wave 0, but "
            "device 1 does not receive");
}

/// A send slot that is packed while the group before still sends from it.
TEST(MustFail, SlotReusedInFlightIsCaught) {
  TestPlan plan = reshapePlan();
  for (RankProgram &program : plan.programs)
    for (Instruction &instruction : program.instructions) {
      if (instruction.op == Opcode::Pack)
        instruction.slot = 0;
      for (Message &message : instruction.messages)
        if (!message.receive && !message.direct)
          message.slot = 0;
    }
  expectRefused(plan, "is still in flight");
  EXPECT_GT(failingRuns(plan, "which is packed and not sent"), 0);
}

/// Two groups bring device 2 the same rows.
TEST(MustFail, RegionDeliveredTwiceIsCaught) {
  TestPlan plan = forwardingPlan();
  Segment held = {0, 1, Side::Source, 0, {0, 0}, {4, 4}};
  Segment wanted = {0, 1, Side::Destination, 0, {0, 0}, {4, 4}};
  plan.programs[0].instructions.push_back(
      inWave(2, groupOf({{false, 2, 32, true, 0, held}})));
  plan.programs[2].instructions.push_back(
      inWave(2, groupOf({{true, 0, 32, true, 0, wanted}})));
  summarize(plan);
  expectRefused(plan, "write the same elements");
  EXPECT_EQ(failingRuns(plan, "a second time"), 20);
}

TEST(MustFail, RegionNeverDeliveredIsCaught) {
  TestPlan plan = forwardingPlan();
  plan.programs[1].instructions.pop_back();
  plan.programs[2].instructions.clear();
  summarize(plan);
  expectRefused(plan, "0 of 16 elements are written");
  EXPECT_EQ(failingRuns(plan, "never arrive"), 20);
}

TEST(MustFail, ReleasedSourceReadIsCaught) {
  TestPlan plan = reshapePlan(MemoryMode::Flat);
  auto &list = plan.programs[3].instructions;
  ASSERT_EQ(list.back().op, Opcode::Release);
  std::rotate(list.begin() + 1, list.end() - 1, list.end());
  expectRefused(plan, "after its release by instruction 1");
  EXPECT_EQ(failingRuns(plan, "after its release"), 20);
}

namespace {

/// Row d of device d goes to all other devices, each message in the wave that
/// `waveOf` says. A device is a node, and a row takes 64 ms between nodes.
TestPlan slowPlan(uint32_t devices, const std::vector<int32_t> &waves) {
  std::vector<Hop> hops;
  for (uint32_t to = 1; to < devices; ++to)
    hops.push_back({0, to, waves[to - 1], waves[to - 1]});
  TestPlan plan = rowPlan(devices, hops);
  Cluster &cluster = plan.common.cluster;
  cluster.devicesPerNode = cluster.devicesPerNic = 1;
  cluster.interNodeGBps = 8 / 64e-3 / 1e9;
  cluster.latencyUs = 0;
  summarize(plan);
  return plan;
}

} // namespace

TEST(MustFail, ThreeMessagesOutOfOneNicInAWaveAreRefused) {
  EXPECT_EQ(verdict(slowPlan(4, {0, 1, 2})), "");
  TestPlan plan = slowPlan(4, {0, 0, 0});
  EXPECT_EQ(verdict(plan),
            "device 0, instruction 0 (group): wave 0 sends 0 -> 1 and 0 -> 2 "
            "out of the NIC of device 0, expected one message each way per "
            "port and wave");
  // They would be slow, not stuck.
  EXPECT_EQ(failingRuns(plan, ""), 0);
}

TEST(MustFail, PortsAreThoseOfTheCluster) {
  // Out of and into device 1, by island and by NIC.
  std::vector<Hop> hops = {{0, 1, 0, 0}, {1, 0, 0, 0}, {2, 1, 0, 0}};
  TestPlan plan = rowPlan(4, hops);
  EXPECT_EQ(verdict(plan), "");
  TestPlan island = plan;
  island.common.cluster.devicesPerNode = 4;
  expectRefused(island, "wave 0 sends 0 -> 1 and 2 -> 1 into the island link "
                        "of device 1");
  // Two devices of a node send at once, over two NICs or one.
  hops = {{0, 2, 0, 0}, {1, 3, 0, 0}};
  plan = rowPlan(4, hops);
  EXPECT_EQ(verdict(plan), "");
  plan.common.cluster.devicesPerNic = 2;
  expectRefused(plan, "wave 0 sends 0 -> 2 and 1 -> 3 out of the NIC of device "
                      "0, expected one message each way per port and wave");
}

TEST(MustFail, APortCarriesAsManyMessagesAsFillIt) {
  // Two pairs fill a NIC: three rows of 64 ms in one wave take 96 ms at least,
  // and each by itself 128 ms.
  TestPlan plan = slowPlan(4, {0, 0, 1});
  Cluster cluster = plan.common.cluster;
  cluster.channelsPerPeer = 1;
  cluster.interChannelGBps = cluster.interNodeGBps / 2;
  plan.common.cluster = cluster;
  summarize(plan);
  EXPECT_EQ(verdict(plan), "");
  EXPECT_DOUBLE_EQ(plan.common.summary.timePredicted, 0.256);
  plan = slowPlan(4, {0, 0, 0});
  plan.common.cluster = cluster;
  expectRefused(plan, "wave 0 sends 0 -> 2 and 0 -> 3 out of the NIC of device "
                      "0, expected at most 2 messages each way per port and "
                      "wave");
}

TEST(MustFail, UntrueTimesAreRefused) {
  TestPlan right = slowPlan(4, {0, 1, 2}), plan = right;
  EXPECT_DOUBLE_EQ(right.common.summary.timePredicted, 0.192);
  // The row leaves its NIC once; receivers could pass it on.
  EXPECT_DOUBLE_EQ(right.common.summary.timeLowerBound, 0.064);
  plan.common.summary.timePredicted = 0.064;
  EXPECT_EQ(verdict(plan),
            "predicted time: stated 64 ms, its waves take 192 ms");
  plan = right;
  plan.common.summary.timeLowerBound = 0.192;
  EXPECT_EQ(verdict(plan),
            "lower bound of the time: stated 192 ms, its layouts need 64 ms");
}

TEST(MustFail, UntrueBytesAndBoundsAreRefused) {
  TestPlan right = slowPlan(4, {0, 1, 2}), plan = right;
  plan.common.summary.bytesWire = 16;
  EXPECT_EQ(verdict(plan), "summary says 16 wire bytes, the programs have 24");
  plan = right;
  plan.common.summary.bytesInterNode = 8;
  EXPECT_EQ(verdict(plan),
            "summary says 8 inter-node bytes, the programs have 24");
  plan = right;
  plan.common.summary.bytesWireLowerBound = 32;
  EXPECT_EQ(verdict(plan),
            "summary says 32 wire bytes at least, the layouts need 24");
  plan = right;
  plan.common.summary.bytesInterNodeLowerBound = 0;
  EXPECT_EQ(verdict(plan),
            "summary says 0 inter-node bytes at least, the layouts need 24");
}

TEST(MustFail, ALayoutThatLacksAPartIsRefused) {
  TestPlan plan = rowPlan(2, {{0, 1, 0, 0}});
  RankProgram &owner = plan.programs[1];
  owner.destination.pop_back(); // its own row, which stayed
  owner.instructions.pop_back();
  expectRefused(plan, "family 0 'w': destination layout lacks element [1, 0] "
                      "of tensor 'w' state 'param'");
  plan.common.families[0].partial = true;
  makeSummaryTrue(plan);
  EXPECT_EQ(verdict(plan), "");
}

TEST(MustFail, TwoTensorsOfOneNameAreRefused) {
  TestPlan plan = reshapePlan();
  plan.common.families[1].name = "layers.2.norm.exp_avg";
  expectRefused(plan, "two tensors have the name 'layers.2.norm.exp_avg'");
}

/// What is right passes, so that the machine's answers mean something.
TEST(MustFail, RightPlansRun) {
  for (const TestPlan &plan :
       {reshapePlan(), reshapePlan(MemoryMode::Flat), forwardingPlan()})
    EXPECT_EQ(failingRuns(plan, "", 50), 0);
}
