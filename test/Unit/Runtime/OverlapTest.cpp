//===- OverlapTest.cpp - What runs while messages are under way -----------===//
//
// That nothing of it changes a byte is tested with the transports
// (TransportsTest.cpp, loopback_split).
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include "dtrt/core/Overlap.h"

#include <gtest/gtest.h>

using namespace dtrt;
using namespace dtrt::test;

namespace {

Instruction group(uint64_t sendSlot, uint64_t receiveSlot, uint64_t bytes) {
  Instruction instruction;
  instruction.op = Opcode::Group;
  instruction.messages.resize(2);
  for (bool receive : {false, true}) {
    Message &message = instruction.messages[receive];
    message.receive = receive;
    message.slot = receive ? receiveSlot : sendSlot;
    message.bytes = bytes;
  }
  return instruction;
}

using Lists = std::vector<std::vector<size_t>>;

Lists overlaps(std::vector<Instruction> instructions) {
  RankProgram program;
  program.instructions = std::move(instructions);
  return overlapsOf(program);
}

} // namespace

TEST(Overlap, TakesTheNextPackAndTheLastUnpack) {
  // Two waves, in slots of their own.
  EXPECT_EQ(overlaps({packOf(0, 10), group(0, 10, 10), unpackOf(10, 10),
                      packOf(20, 10), group(20, 30, 10), unpackOf(30, 10)}),
            (Lists{{}, {3}, {}, {}, {2}, {}}));
}

TEST(Overlap, LeavesWhatSharesASlot) {
  // The second wave's pack takes the slot that the first one's unpack frees.
  EXPECT_EQ(overlaps({packOf(0, 10), group(0, 10, 10), unpackOf(10, 10),
                      packOf(10, 10), group(10, 0, 10), unpackOf(0, 10)}),
            Lists(6));
  // The second wave receives where the first one's unpack reads, and its pack
  // writes where the first one still sends.
  EXPECT_EQ(overlaps({packOf(0, 10), group(0, 10, 10), unpackOf(10, 10),
                      packOf(5, 4), group(5, 12, 4), unpackOf(12, 4)}),
            Lists(6));
}

TEST(Overlap, LeavesWhatReadsTheDestination) {
  // The pack forwards what the unpack before it has put there.
  EXPECT_EQ(overlaps({group(0, 10, 10), unpackOf(10, 10),
                      packOf(20, 10, Side::Destination), group(20, 30, 10)}),
            Lists(4));
  Instruction copy;
  copy.op = Opcode::Copy;
  EXPECT_EQ(
      overlaps({group(0, 10, 10), unpackOf(10, 10), copy, group(20, 30, 10)}),
      Lists(4));
}

// A message without staging may forward as well.
TEST(Overlap, LeavesWhatSendsTheDestinationDirectly) {
  Instruction sends = group(20, 30, 10);
  for (Message &message : sends.messages)
    message.direct = true;
  sends.messages[0].segment.side = Side::Destination;
  EXPECT_EQ(overlaps({group(0, 10, 10), unpackOf(10, 10), sends}), Lists(3));
  sends.messages[0].segment.side = Side::Source;
  EXPECT_EQ(overlaps({group(0, 10, 10), unpackOf(10, 10), sends}),
            (Lists{{}, {}, {1}}));
}

// Slots are placed for packs and unpacks that pass one group.
TEST(Overlap, PassesOneGroupAtMost) {
  EXPECT_EQ(overlaps({group(0, 10, 10), group(20, 30, 10), packOf(40, 10),
                      group(40, 50, 10)}),
            (Lists{{}, {2}, {}, {}}));
  EXPECT_EQ(overlaps({group(0, 10, 10), unpackOf(10, 10), group(20, 30, 10),
                      group(40, 50, 10)}),
            (Lists{{}, {}, {1}, {}}));
}

// Memory is counted in the order of the program, so what comes and goes of it
// stays where it stands, while packs and unpacks pass.
TEST(Overlap, LeavesCreatesAndReleasesAtTheirPlace) {
  Instruction create, release;
  create.op = Opcode::Create;
  release.op = Opcode::Release;
  EXPECT_EQ(overlaps({create, packOf(0, 10), group(0, 10, 10), release,
                      unpackOf(10, 10), create, packOf(20, 10),
                      group(20, 30, 10), release, unpackOf(30, 10)}),
            (Lists{{}, {}, {6}, {}, {}, {}, {}, {4}, {}, {}}));
}

TEST(Overlap, FindsSomeInAPlan) {
  size_t found = 0;
  for (const RankProgram &program : reshapePlan().programs)
    for (const std::vector<size_t> &list : overlapsOf(program))
      found += list.size();
  EXPECT_GT(found, 0u);
}
