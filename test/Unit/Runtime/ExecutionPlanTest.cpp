//===- ExecutionPlanTest.cpp - What executors leave out -------------------===//
//
// That nothing of it changes a byte is tested with the transports
// (TransportsTest.cpp); what runs while messages are under way, in
// OverlapTest.cpp.
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include "dtrt/core/ExecutionPlan.h"

#include <gtest/gtest.h>
#include <sstream>

using namespace dtrt;
using namespace dtrt::test;

namespace {

Message message(bool receive, uint32_t peer, uint64_t slot, uint64_t bytes) {
  Message message;
  message.receive = receive;
  message.peer = peer;
  message.slot = slot;
  message.bytes = bytes;
  return message;
}

/// Ten bytes to device 1 and from device 2.
std::vector<Instruction> exchange() {
  return {packOf(0, 10),
          groupOf({message(false, 1, 0, 10), message(true, 2, 10, 10)}),
          unpackOf(10, 10)};
}

TransportCaps seesAll() {
  TransportCaps caps;
  caps.seesPeerMemory = true;
  return caps;
}

class Planned {
public:
  Planned(std::vector<Instruction> instructions, const TransportCaps &caps,
          const std::vector<bool> &readable = {}) {
    PlanCommon common;
    common.families.resize(1);
    program.instructions = std::move(instructions);
    program.stagingBytes = 20;
    plan = planExecution(common, program, caps, {true, readable});
  }
  std::vector<size_t> skipped() const {
    std::vector<size_t> list;
    for (size_t i = 0; i < plan.steps.size(); ++i)
      if (plan.steps[i].skipped)
        list.push_back(i);
    return list;
  }
  std::string text() const {
    std::ostringstream out;
    writeExecution(program, plan, out);
    return out.str();
  }

  RankProgram program;
  ExecutionPlan plan;
};

using List = std::vector<size_t>;

} // namespace

TEST(ExecutionPlan, LeavesStagingOutWhereMemoryIsSeen) {
  Planned planned(exchange(), seesAll());
  EXPECT_EQ(planned.skipped(), (List{0, 2}));
  EXPECT_EQ(planned.plan.steps[1].views[0], 0u);
  EXPECT_EQ(planned.plan.steps[1].views[1], 2u);
  EXPECT_FALSE(planned.plan.needsStaging);
}

TEST(ExecutionPlan, LeavesOutUnpacksOfPeersThatUnpack) {
  TransportCaps caps;
  caps.unpacksFrom = {2};
  Planned planned(exchange(), caps);
  EXPECT_EQ(planned.skipped(), List{2});
  EXPECT_TRUE(planned.plan.needsStaging);
  caps.unpacksFrom = {1, 3};
  EXPECT_EQ(Planned(exchange(), caps).skipped(), List{});
}

TEST(ExecutionPlan, KeepsAPackThatIsMoreThanAMessage) {
  auto instructions = exchange();
  instructions[1].messages[0].bytes = 9;
  EXPECT_EQ(Planned(instructions, seesAll()).skipped(), List{2});
}

/// A slot is taken again once its message has left.
TEST(ExecutionPlan, EndsAPackWhereItsSlotIsTakenAgain) {
  auto instructions = exchange();
  instructions.push_back(packOf(0, 5));
  instructions.push_back(groupOf({message(false, 1, 0, 5)}));
  Planned planned(instructions, seesAll());
  EXPECT_EQ(planned.skipped(), (List{0, 2, 3}));
  EXPECT_EQ(planned.plan.steps[4].views[0], 3u);
}

TEST(ExecutionPlan, KeepsAPackOfWhatIsReleasedBeforeItLeaves) {
  auto instructions = exchange();
  instructions.insert(instructions.begin() + 1,
                      workOf(Opcode::Release, Side::Source));
  EXPECT_EQ(Planned(instructions, seesAll()).skipped(), List{3});
}

TEST(ExecutionPlan, KeepsAnUnpackIntoWhatIsCreatedAfterItsMessage) {
  auto instructions = exchange();
  instructions.insert(instructions.begin() + 2,
                      workOf(Opcode::Create, Side::Destination));
  EXPECT_EQ(Planned(instructions, seesAll()).skipped(), List{0});
}

namespace {

/// Ten bytes of source shard 1 to devices 1 and 3.
std::vector<Instruction> toTwo() {
  Instruction pack = packOf(0, 10);
  pack.segments.resize(1);
  pack.segments[0].shard = 1;
  return {pack, groupOf({message(false, 1, 0, 10)}),
          groupOf({message(false, 3, 0, 10)})};
}

TransportCaps readBy(std::vector<uint32_t> peers) {
  TransportCaps caps;
  caps.readBy = std::move(peers);
  return caps;
}

} // namespace

TEST(ExecutionPlan, LeavesOutPacksOfWhatAllTheirReceiversRead) {
  Planned planned(toTwo(), readBy({1, 3}), {false, true});
  EXPECT_EQ(planned.skipped(), List{0});
  EXPECT_EQ(planned.plan.steps[1].views[0], 0u);
  EXPECT_EQ(planned.plan.steps[2].views[0], 0u);
  EXPECT_FALSE(planned.plan.needsStaging);
  for (const std::vector<bool> &readable :
       std::vector<std::vector<bool>>{{}, {true}, {true, false}})
    EXPECT_EQ(Planned(toTwo(), readBy({1, 3}), readable).skipped(), List{});
}

TEST(ExecutionPlan, KeepsAPackThatAReceiverDoesNotRead) {
  for (const std::vector<uint32_t> &readers :
       std::vector<std::vector<uint32_t>>{{}, {1}, {3}, {2, 4}}) {
    Planned planned(toTwo(), readBy(readers), {false, true});
    EXPECT_EQ(planned.skipped(), List{});
    EXPECT_EQ(planned.plan.steps[1].views[0], std::nullopt);
    EXPECT_TRUE(planned.plan.needsStaging);
  }
}

/// Not of a destination, which peers cannot read.
TEST(ExecutionPlan, KeepsAPackOfWhatIsPassedOn) {
  auto instructions = toTwo();
  instructions[0].segments[0].side = Side::Destination;
  EXPECT_EQ(Planned(instructions, readBy({1, 3}), {true, true}).skipped(),
            List{});
}

TEST(ExecutionPlan, IsPrinted) {
  TransportCaps caps;
  caps.overlaps = true;
  caps.unpacksFrom = {2};
  auto instructions = exchange();
  instructions.push_back(packOf(20, 4));
  instructions.push_back(groupOf({message(false, 1, 20, 4)}));
  EXPECT_EQ(Planned(instructions, caps).text(),
            "device 0: 5 instructions, 1 left out, staging 20 bytes\n"
            "  0: pack staging [0:10)\n"
            "  1: group, meanwhile 3\n"
            "       send to 1: 10 bytes, staging [0:10)\n"
            "       receive from 2: 10 bytes, in the shards of 2\n"
            "  2: unpack: left out\n"
            "  3: pack: while a group is under way\n"
            "  4: group, meanwhile 2\n"
            "       send to 1: 4 bytes, staging [20:24)\n");
}
