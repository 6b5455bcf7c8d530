//===- CollectiveTest.cpp - Waves with a library's collectives ------------===//
//
// A right plan of an all-gather, a broadcast and an all-to-all (collectivePlan)
// runs everywhere; each fault in it is named.
//
//===----------------------------------------------------------------------===//

#include "AdversarialMachine.h"
#include "ExpectContains.h"
#include "PlanBuilder.h"

#include "dtrt/core/ArenaStorage.h"
#include "dtrt/core/CheckPattern.h"
#include "dtrt/core/Executor.h"
#include "dtrt/report/Deliveries.h"
#include "dtrt/report/Dump.h"
#include "dtrt/transport/AdversarialTransport.h"
#include "dtrt/verify/Verifier.h"
#include "dtrt/world/LoopbackRun.h"

#include <functional>
#include <gtest/gtest.h>
#include <sstream>
#include <thread>

using namespace dtrt;
using namespace dtrt::test;

namespace {

std::string broken(const std::function<void(TestPlan &)> &how) {
  TestPlan plan = collectivePlan();
  how(plan);
  return plan.verdict();
}

/// The group of a device in a wave.
Instruction &groupOf(TestPlan &plan, uint32_t device, int32_t wave) {
  for (Instruction &instruction : plan.programs[device].instructions)
    if (instruction.op == Opcode::Group && instruction.wave == wave)
      return instruction;
  throw std::out_of_range("no such group");
}
GroupCollective &callOf(TestPlan &plan, uint32_t device, int32_t wave) {
  return *groupOf(plan, device, wave).collective;
}

/// A collective in wave 3 that brings nothing.
void addEmptyCall(TestPlan &plan, uint32_t device, uint32_t members) {
  Instruction group;
  group.op = Opcode::Group;
  group.wave = 3;
  group.collective = {CollectiveKind::AllGather, members, 0, 128, 0, 384};
  plan.programs[device].instructions.push_back(group);
}

/// Runs a device's program over one end of a world; what is wrong afterwards.
Status runEnd(const PlanReader &plan, Transport &transport) {
  auto program = plan.program(transport.device());
  DTRT_RETURN_IF_ERROR(program);
  auto storage = ArenaStorage::allocate(plan.common(), *program);
  DTRT_RETURN_IF_ERROR(storage);
  for (uint32_t i = 0; i < program->source.size(); ++i)
    fillSource(**storage, i);
  DTRT_RETURN_IF_ERROR(transport.connect({1, 2}, {}));
  auto executor = Executor::prepare(**storage, transport);
  DTRT_RETURN_IF_ERROR(executor);
  DTRT_RETURN_IF_ERROR(executor->run());
  CheckReport result;
  for (uint32_t i = 0; i < program->destination.size(); ++i)
    checkDestination(**storage, i, result);
  return result.mismatches == 0
             ? Status()
             : makeError(result.mismatches, " elements are wrong");
}

} // namespace

TEST(Collective, IsARightPlan) {
  TestPlan plan = collectivePlan();
  EXPECT_EQ(plan.verdict(), "");
  EXPECT_EQ(plan.common.summary.libraryCollectives, 3u);
  EXPECT_EQ(plan.common.summary.messages, 0u);
  EXPECT_EQ(plan.common.summary.waves, 3u);
  EXPECT_EQ(plan.common.summary.bytesWire,
            plan.common.summary.bytesWireLowerBound);
}

TEST(Collective, RunsInMemoryAndStaged) {
  PlanReader reader = collectivePlan().reader();
  for (bool staged : {false, true}) {
    LoopbackOptions options;
    options.check = true;
    options.staged = staged;
    auto report = runLoopback(reader, options);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->check.mismatches, 0u);
    EXPECT_EQ(report->check.bytesChecked, 3 * (48u + 10 + 6));
  }
}

TEST(Collective, RunsOnTheAdversarialMachine) {
  PlanReader reader = collectivePlan().reader();
  std::mt19937_64 rng(7);
  for (int i = 0; i < 200; ++i) {
    Status status = runOnMachine(reader, 2, randomAdversary(rng), rng());
    ASSERT_TRUE(status.ok()) << status.message();
  }
}

TEST(Collective, RunsOnTheAdversarialTransport) {
  PlanReader reader = collectivePlan().reader();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    AdversarialWorld world(reader.devices(), 2, Adversary(), seed);
    std::vector<std::thread> threads;
    for (uint32_t device : reader.devices())
      threads.emplace_back([&, device] {
        Transport &end = world.endpoint(device);
        Status status = runEnd(reader, end);
        EXPECT_TRUE(status.ok()) << status.message();
        if (!status.ok())
          end.abort(status);
        end.leave();
      });
    for (std::thread &thread : threads)
      thread.join();
  }
}

TEST(Collective, ComesInOneOrderOnAllRanks) {
  // Device 0 has the broadcast before the all-gather.
  expectContains(broken([](TestPlan &plan) {
                   auto &list = plan.programs[0].instructions;
                   auto first = std::find_if(
                       list.begin(), list.end(),
                       [](const Instruction &i) { return i.wave == 1; });
                   auto last = std::find_if(
                       list.begin(), list.end(),
                       [](const Instruction &i) { return i.wave == 2; });
                   std::rotate(list.begin(), first, last);
                   for (Instruction &i : list)
                     if (i.wave == 0 || i.wave == 1)
                       i.wave = 1 - i.wave;
                 }),
                 "has a part in the all_gather of member set 0 in wave 0 with "
                 "root 0 and blocks of 128 bytes, device 0 in a broadcast");
}

TEST(Collective, HasAllItsMembers) {
  expectContains(
      broken([](TestPlan &plan) {
        addEmptyCall(plan, 0, 0);
        addEmptyCall(plan, 1, 0);
      }),
      "has a part in the all_gather of member set 0 in wave 3, but device 2, a "
      "member, has none");
}

TEST(Collective, HasItsMembersToItself) {
  // Device 1 is in both sets, and has a group of the second.
  expectContains(
      broken([](TestPlan &plan) {
        plan.common.memberSets = {{0, 1, 2}, {1, 2}};
        addEmptyCall(plan, 0, 0);
        addEmptyCall(plan, 1, 1);
        addEmptyCall(plan, 2, 1);
      }),
      "has a part in the all_gather of member set 0 in wave 3, but device 1, a "
      "member, has none");
}

TEST(Collective, HasNoMessageBesideIt) {
  expectContains(
      broken([](TestPlan &plan) {
        plan.common.memberSets = {{0, 1, 2}, {1, 2}};
        addEmptyCall(plan, 1, 1);
        addEmptyCall(plan, 2, 1);
        groupOf(plan, 1, 3).messages.push_back({false, 0, 16, false, 0, {}});
      }),
      "peer 0 is not in member set 1 of the collective");
  expectContains(
      broken([](TestPlan &plan) { groupOf(plan, 0, 1).collective.reset(); }),
      "has a part in the broadcast of member set 0 in wave 1, but "
      "device 0, a member, has none");
}

TEST(Collective, IsAlikeOnAllMembers) {
  expectContains(
      broken([](TestPlan &plan) { callOf(plan, 2, 1).blockBytes = 64; }),
      "with root 1 and blocks of 64 bytes, device 0 in a broadcast "
      "with root 1 and blocks of 128");
}

TEST(Collective, KeepsToItsBlocks) {
  expectContains(
      broken([](TestPlan &plan) { groupOf(plan, 0, 0).messages[0].slot = 16; }),
      "lies elsewhere than in the block at 0 of 128 bytes");
  expectContains(
      broken([](TestPlan &plan) { callOf(plan, 0, 0).blockBytes = 8; }),
      "lies elsewhere than in the block at");
  expectContains(broken([](TestPlan &plan) { callOf(plan, 0, 0).getSlot = 0; }),
                 "gives staging bytes [0, +128) and gets [0, +384)");
  expectContains(
      broken([](TestPlan &plan) { plan.programs[0].stagingBytes -= 1; }),
      "is outside the arena");
  expectContains(broken([](TestPlan &plan) {
                   groupOf(plan, 0, 0)
                       .messages.erase(groupOf(plan, 0, 0).messages.begin());
                 }),
                 "gives to 1 devices, expected all 2 others");
}

TEST(Collective, OverwritesItsBlocksWhateverIsInThem) {
  // The all-gather's own block on device 2 is written, too: what waits there
  // to be sent is lost.
  expectContains(broken([](TestPlan &plan) {
                   Instruction pack = plan.programs[2].instructions[0];
                   pack.slot = 384 + 2 * 128;
                   plan.programs[2].instructions.insert(
                       plan.programs[2].instructions.begin(), pack);
                 }),
                 "overwrites staging bytes [640, 656)");
}

TEST(Collective, NamesWhatIsThere) {
  expectContains(broken([](TestPlan &plan) { callOf(plan, 0, 0).members = 1; }),
                 "member set 1 of 1");
  expectContains(broken([](TestPlan &plan) { callOf(plan, 0, 1).root = 7; }),
                 "root 7 of member set 0");
  expectContains(broken([](TestPlan &plan) {
                   callOf(plan, 0, 0).blockBytes = uint64_t(1) << 63;
                 }),
                 "blocks of 9223372036854775808 bytes");
  expectContains(
      broken([](TestPlan &plan) { plan.common.memberSets = {{0, 1, 7}}; }),
      "has device 7, which is in no world");
  expectContains(
      broken([](TestPlan &plan) { plan.common.memberSets = {{0, 2, 1}}; }),
      "has device 1 after 2, expected ascending devices");
  expectContains(broken([](TestPlan &plan) { plan.common.memberSets = {{0}}; }),
                 "has 1 devices, expected two or more");
  expectContains(
      broken([](TestPlan &plan) { plan.common.memberSets.push_back({1, 2}); }),
      "member set 1 has no collective");
}

TEST(Collective, IsNoPartOfFlatMemoryOrOfMessages) {
  expectContains(broken([](TestPlan &plan) {
                   plan.common.summary.mode = MemoryMode::Flat;
                 }),
                 "there are member sets in a plan of mode flat");
  expectContains(broken([](TestPlan &plan) {
                   plan.common.cluster.collectives = CollectiveChoice::Messages;
                 }),
                 "there are member sets in a plan of messages alone");
}

TEST(Collective, IsDumpedWithItsMembers) {
  TestPlan plan = collectivePlan();
  std::ostringstream text;
  writeProgram(plan.common, plan.programs[1], OutputFormat::Text, text);
  expectContains(text.str(), "group wave 1 as a library's broadcast of devices "
                             "0-2 from 1, blocks of 128 bytes");
}
