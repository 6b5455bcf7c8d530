//===- ForwardsTest.cpp - What is sent on as soon as it has come ----------===//

#include "dtrt/format/Forwards.h"

#include <gtest/gtest.h>

using namespace dtrt;

namespace {

/// Rows [row, row + 2) of the destination shard.
Segment rows(int64_t row, uint32_t shard = 0, uint64_t states = 1) {
  return {0, states, Side::Destination, shard, {row, 0}, {2, 4}};
}

Instruction staged(Opcode op, uint64_t slot, Segment segment) {
  Instruction instruction;
  instruction.op = op;
  instruction.slot = slot;
  instruction.bytes = 10;
  instruction.segments = {std::move(segment)};
  return instruction;
}

Message message(bool receive, uint64_t slot) {
  return {receive, 1, 10, false, slot, {}};
}
Message direct(bool receive, Segment segment) {
  return {receive, 1, 10, true, 0, std::move(segment)};
}

Instruction group(std::vector<Message> messages) {
  Instruction instruction;
  instruction.op = Opcode::Group;
  instruction.messages = std::move(messages);
  return instruction;
}

using Lists = std::vector<std::vector<bool>>;

Lists forwards(std::vector<Instruction> instructions) {
  RankProgram program;
  program.instructions = std::move(instructions);
  auto found = findForwards(program);
  EXPECT_TRUE(found.ok()) << found.status().message();
  return found.ok() ? *found : Lists();
}

/// What is sent when rows [2, 4) have come.
bool isForward(const Segment &segment) {
  return forwards(
      {group({message(true, 0)}), staged(Opcode::Unpack, 0, rows(2)),
       staged(Opcode::Pack, 20, segment), group({message(false, 20)})})[3][0];
}

TEST(Forwards, MeetWhatTheGroupBeforeBrought) {
  EXPECT_TRUE(isForward(rows(2)));
  EXPECT_TRUE(isForward(rows(1)));
  EXPECT_TRUE(isForward(rows(3)));
  EXPECT_FALSE(isForward(rows(0)));
  EXPECT_FALSE(isForward(rows(4)));
  EXPECT_FALSE(isForward(rows(2, /*shard=*/1)));
  EXPECT_FALSE(isForward(rows(2, 0, /*states=*/2)));
  Segment atSource = rows(2);
  atSource.side = Side::Source;
  EXPECT_FALSE(isForward(atSource));
}

TEST(Forwards, AreToldByMessage) {
  EXPECT_EQ(
      forwards(
          {group({message(true, 0)}), staged(Opcode::Unpack, 0, rows(2)),
           staged(Opcode::Pack, 20, rows(4)), staged(Opcode::Pack, 30, rows(2)),
           group({message(false, 20), message(false, 30), message(true, 40)})}),
      (Lists{{false}, {}, {}, {}, {false, true, false}}));
}

TEST(Forwards, NeedNoStaging) {
  EXPECT_EQ(forwards({group({direct(true, rows(2))}),
                      group({direct(false, rows(2)), direct(false, rows(6))})}),
            (Lists{{false}, {true, false}}));
}

TEST(Forwards, EndWithAGroupBetween) {
  EXPECT_EQ(
      forwards({group({message(true, 0)}), staged(Opcode::Unpack, 0, rows(2)),
                group({message(true, 0)}), staged(Opcode::Unpack, 0, rows(6)),
                staged(Opcode::Pack, 20, rows(2)),
                group({message(false, 20)})}),
      (Lists{{false}, {}, {false}, {}, {}, {false}}));
}

} // namespace
