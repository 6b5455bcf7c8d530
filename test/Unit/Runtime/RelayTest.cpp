//===- RelayTest.cpp - Messages that go over a third device ---------------===//
//
// A right plan whose device 1 relays two messages (relayPlan) runs everywhere;
// each fault in it is named.
//
//===----------------------------------------------------------------------===//

#include "AdversarialMachine.h"
#include "ExpectContains.h"
#include "FirstOf.h"
#include "PlanBuilder.h"

#include "dtrt/core/MessageRegions.h"
#include "dtrt/format/Features.h"
#include "dtrt/report/Deliveries.h"
#include "dtrt/report/Dump.h"
#include "dtrt/verify/Verifier.h"
#include "dtrt/world/LoopbackRun.h"

#include <functional>
#include <gtest/gtest.h>
#include <sstream>

using namespace dtrt;
using namespace dtrt::test;

namespace {

std::string broken(const std::function<void(TestPlan &)> &how) {
  TestPlan plan = relayPlan();
  how(plan);
  return plan.verdict();
}

/// Of the device that relays: receive a; relay a; send a, receive b; relay b;
/// send b; copy.
std::vector<Instruction> &relayOf(TestPlan &plan) {
  return plan.programs[1].instructions;
}

} // namespace

TEST(Relay, IsARightPlan) {
  TestPlan plan = relayPlan();
  EXPECT_EQ(plan.verdict(), "");
  EXPECT_EQ(plan.common.summary.bytesRelayed, 96u);
  EXPECT_EQ(plan.common.summary.bytesWire, 192u);
  EXPECT_EQ(plan.common.summary.bytesWireLowerBound, 96u);
  EXPECT_EQ(plan.common.summary.multicasts, 0u);
}

TEST(Relay, RunsInMemoryAndStaged) {
  PlanReader reader = relayPlan().reader();
  for (bool staged : {false, true}) {
    LoopbackOptions options;
    options.check = true;
    options.staged = staged;
    auto report = runLoopback(reader, options);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->check.mismatches, 0u);
    EXPECT_EQ(report->check.bytesChecked, 96u + 3 * 8);
  }
}

TEST(Relay, RunsOnTheAdversarialMachine) {
  PlanReader reader = relayPlan().reader();
  std::mt19937_64 rng(7);
  for (int i = 0; i < 500; ++i) {
    Status status = runOnMachine(reader, 2, randomAdversary(rng), rng());
    ASSERT_TRUE(status.ok()) << status.message();
  }
}

TEST(Relay, NeedsItsFeature) {
  EXPECT_EQ(featureNames(relayPlan().reader().common().features),
            std::vector<std::string>({"relays"}));
  expectContains(
      broken([](TestPlan &plan) { plan.common.cluster.relays = false; }),
      "appears in a plan that has no relays");
}

TEST(Relay, IsNoPartOfFlatMemory) {
  expectContains(broken([](TestPlan &plan) {
                   plan.common.summary.mode = MemoryMode::Flat;
                 }),
                 "appears in a plan of mode flat");
}

TEST(Relay, ComesBeforeItGoesOn) {
  expectContains(
      broken([](TestPlan &plan) {
        std::swap(relayOf(plan)[0], relayOf(plan)[1]);
      }),
      "device 1, instruction 0 (relay): relays staging bytes [0, 48) that no "
      "message brought");
}

TEST(Relay, IsSentInALaterWave) {
  expectContains(broken([](TestPlan &plan) {
                   // b is relayed in the group that receives it.
                   auto &list = relayOf(plan);
                   list[2].messages.push_back(list[4].messages[0]);
                   list[2].messages[2].peer = 0;
                 }),
                 "of which byte 128 was not packed for it");
}

TEST(Relay, HasItsSlotToItself) {
  // b comes to the bytes in which a waits.
  expectContains(broken([](TestPlan &plan) {
                   auto &list = relayOf(plan);
                   list[2].messages[1].slot = 32;
                 }),
                 "while [0, 48) is being sent");
  // a has not gone on, and b comes.
  expectContains(broken([](TestPlan &plan) {
                   auto &list = relayOf(plan);
                   list[2].messages.erase(list[2].messages.begin());
                   list[2].messages[0].slot = 0;
                 }),
                 "overwrites staging bytes [0, ");
  expectContains(
      broken([](TestPlan &plan) {
        auto &list = relayOf(plan);
        list.erase(list.begin() + 1);
        list[1].messages.erase(list[1].messages.begin());
        list[1].messages[0].slot = 0;
      }),
      "overwrites staging bytes [0, 48) that instruction 0 received");
}

TEST(Relay, SendsWhatCame) {
  expectContains(broken([](TestPlan &plan) {
                   relayOf(plan)[1].segments[0].offset[0] = 2;
                 }),
                 "wave 0 sends other regions than the receiver expects");
  expectContains(broken([](TestPlan &plan) {
                   relayOf(plan)[1].segments[0].offset[0] = 3;
                 }),
                 "segment of 'w' has offset 3 and size 2 in dim 0 of 4");
  expectContains(
      broken([](TestPlan &plan) { relayOf(plan)[1].segments[0].states = 4; }),
      "segment of 'w' has state mask 4, its family has 3");
  expectContains(
      broken([](TestPlan &plan) { relayOf(plan)[1].segments[0].family = 2; }),
      "segment of family 2 of 2");
  expectContains(broken([](TestPlan &plan) {
                   Instruction &relay = relayOf(plan)[1];
                   relay.segments[0].size[0] = 1;
                 }),
                 "segments hold 24 bytes, expected 48");
}

TEST(Relay, GoesOnWhole) {
  expectContains(broken([](TestPlan &plan) {
                   Instruction &relay = relayOf(plan)[1];
                   relay.segments[0].size[0] = 1;
                   relay.bytes = 24;
                 }),
                 "relays staging bytes [0, 24) that no message brought");
}

TEST(Relay, IsUnpackedOrSentOn) {
  expectContains(broken([](TestPlan &plan) {
                   // A part of a is unpacked at the relay.
                   RankProgram &program = plan.programs[1];
                   program.destination.push_back(box(0, {{0, 4}, {0, 4}}, 3));
                   Instruction unpack = inWave(0, unpackOf(0, 8));
                   unpack.segments = {
                       {0, 1, Side::Destination, 1, {0, 0}, {1, 4}}};
                   relayOf(plan).insert(relayOf(plan).begin() + 1, unpack);
                 }),
                 "relays staging bytes [0, 48) that are unpacked, too");
}

TEST(Relay, GoesOnByItself) {
  // What is packed beside it does not go in the same message.
  expectContains(broken([](TestPlan &plan) {
                   RankProgram &program = plan.programs[1];
                   program.source.push_back(box(0, {{0, 4}, {0, 4}}, 3));
                   Instruction pack = inWave(1, packOf(48, 8));
                   pack.segments = {{0, 1, Side::Source, 1, {0, 0}, {1, 4}}};
                   auto &list = relayOf(plan);
                   list.insert(list.begin() + 2, pack);
                   list[3].messages[0].bytes = 56;
                 }),
                 "sends staging bytes [0, 56) of which byte 0 was not packed "
                 "for it");
}

TEST(Relay, IsSent) {
  expectContains(broken([](TestPlan &plan) {
                   auto &list = relayOf(plan);
                   list.erase(list.begin() + 4);
                 }),
                 "staging bytes [128, 176) that instruction 3 relays are never "
                 "sent");
  expectContains(broken([](TestPlan &plan) {
                   auto &list = relayOf(plan);
                   list.erase(list.begin() + 3, list.begin() + 5);
                 }),
                 "received are never unpacked");
}

TEST(Relay, IsCounted) {
  expectContains(
      broken([](TestPlan &plan) { plan.common.summary.bytesRelayed = 95; }),
      "summary says 95 relayed bytes, the programs have 96");
  expectContains(
      broken([](TestPlan &plan) { plan.common.summary.bytesRelayed = 0; }),
      "a time without relays where nothing is relayed");
}

TEST(Relay, IsNamedByReports) {
  PlanReader reader = relayPlan().reader();
  std::ostringstream deliveries;
  ASSERT_TRUE(writeDeliveries(reader, deliveries).ok());
  expectContains(deliveries.str(),
                 R"("state": "master", "src": 0, "dst": 1, "offset": [2, 0], )"
                 R"("size": [2, 4], "wave": 1, "relayed": true})");
  expectContains(deliveries.str(),
                 R"("state": "master", "src": 1, "dst": 2, "offset": [2, 0], )"
                 R"("size": [2, 4], "wave": 2})");
  std::ostringstream dump;
  writeProgram(reader.common(), *reader.program(1), OutputFormat::Text, dump);
  expectContains(dump.str(), "relay wave 1 staging [0:48)");
  expectContains(dump.str(), "of no shard w ");
}

TEST(Relay, DigestsKnowWhatPasses) {
  TestPlan plan = relayPlan();
  auto regions = regionsOf(plan.common, plan.programs[1]);
  ASSERT_TRUE(regions.ok()) << regions.status().message();
  const auto &both = (*regions)[2]; // sends a, receives b
  ASSERT_EQ(both.size(), 2u);
  for (const MessageRegions &message : both) {
    ASSERT_EQ(message.list.size(), 2u);
    EXPECT_EQ(message.name(1), "tensor 'w', state 'master'");
  }
}
