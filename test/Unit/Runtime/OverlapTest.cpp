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

/// A pack or unpack of rows [row, row + 1) of the destination shard.
Instruction stagedRow(Opcode op, uint64_t slot, int64_t row) {
  Instruction instruction = op == Opcode::Pack
                                ? packOf(slot, 10, Side::Destination)
                                : unpackOf(slot, 10);
  instruction.segments[0].offset = {row};
  instruction.segments[0].size = {1};
  return instruction;
}

TEST(Overlap, LeavesWhatReadsTheDestination) {
  // The pack forwards what the unpack before it has put there.
  EXPECT_EQ(overlaps({group(0, 10, 10), stagedRow(Opcode::Unpack, 10, 3),
                      stagedRow(Opcode::Pack, 20, 3), group(20, 30, 10)}),
            Lists(4));
  Instruction copy;
  copy.op = Opcode::Copy;
  EXPECT_EQ(
      overlaps({group(0, 10, 10), unpackOf(10, 10), copy, group(20, 30, 10)}),
      Lists(4));
}

TEST(Overlap, TakesAPackOfWhatCameAWaveBefore) {
  // Row 3 comes first, is unpacked beside the second wave and then packed for
  // the third; row 4, which the second brings, stays for a wave, too.
  EXPECT_EQ(overlaps({group(0, 10, 10), stagedRow(Opcode::Unpack, 10, 3),
                      group(20, 30, 10), stagedRow(Opcode::Unpack, 30, 4),
                      stagedRow(Opcode::Pack, 0, 3), group(0, 10, 10)}),
            (Lists{{}, {}, {1, 4}, {}, {}, {3}}));
  // Of two that have come, the one that is sent on keeps its place.
  EXPECT_EQ(overlaps({group(0, 10, 10), stagedRow(Opcode::Unpack, 10, 3),
                      stagedRow(Opcode::Unpack, 50, 4),
                      stagedRow(Opcode::Pack, 20, 4), group(20, 30, 10)}),
            (Lists{{}, {}, {}, {}, {1}}));
  // What the group before receives in its place is no earlier there.
  Instruction receives = group(20, 30, 10);
  receives.messages[1].direct = true;
  receives.messages[1].segment = stagedRow(Opcode::Pack, 0, 3).segments[0];
  EXPECT_EQ(overlaps({receives, stagedRow(Opcode::Pack, 0, 3), group(0, 9, 1)}),
            Lists(3));
  EXPECT_EQ(overlaps({receives, stagedRow(Opcode::Pack, 0, 4), group(0, 9, 1)}),
            (Lists{{1}, {}, {}}));
}

TEST(Overlap, LeavesAPackOfWhatIsCopiedBesideTheGroup) {
  Instruction copy;
  copy.op = Opcode::Copy;
  copy.wave = 0;
  copy.segments = {stagedRow(Opcode::Pack, 0, 3).segments[0],
                   stagedRow(Opcode::Pack, 0, 3).segments[0]};
  copy.segments[0].side = Side::Source;
  EXPECT_EQ(overlaps({copy, group(0, 10, 10), stagedRow(Opcode::Pack, 20, 3),
                      group(20, 30, 10)}),
            (Lists{{}, {0}, {}, {}}));
  EXPECT_EQ(overlaps({copy, group(0, 10, 10), stagedRow(Opcode::Pack, 20, 4),
                      group(20, 30, 10)}),
            (Lists{{}, {0, 2}, {}, {}}));
}

// A message without staging may forward as well.
TEST(Overlap, LeavesWhatSendsTheDestinationDirectly) {
  Instruction sends = group(20, 30, 10);
  for (Message &message : sends.messages)
    message.direct = true;
  Instruction unpack = stagedRow(Opcode::Unpack, 10, 3);
  sends.messages[0].segment = unpack.segments[0];
  EXPECT_EQ(overlaps({group(0, 10, 10), unpack, sends}), Lists(3));
  for (Message &message : sends.messages)
    message.segment.side = Side::Source;
  EXPECT_EQ(overlaps({group(0, 10, 10), unpack, sends}), (Lists{{}, {}, {1}}));
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

// The unpack before it passes both.
TEST(Overlap, TakesCopiesOfItsWave) {
  Instruction copy;
  copy.wave = 1;
  EXPECT_EQ(overlaps({group(0, 10, 10), unpackOf(10, 10), copy, packOf(20, 10),
                      group(20, 30, 10), unpackOf(30, 10)}),
            (Lists{{3}, {}, {}, {}, {1, 2}, {}}));
  // Others keep their place, and unpacks before it.
  Instruction between;
  EXPECT_EQ(overlaps({group(0, 10, 10), unpackOf(10, 10), between, copy,
                      group(20, 30, 10), copy, group(0, 10, 10)}),
            (Lists{{}, {}, {}, {}, {3}, {}, {5}}));
}

TEST(Overlap, FindsSomeInAPlan) {
  size_t found = 0;
  for (const RankProgram &program : reshapePlan().programs)
    for (const std::vector<size_t> &list : overlapsOf(program))
      found += list.size();
  EXPECT_GT(found, 0u);
}
