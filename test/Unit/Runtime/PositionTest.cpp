//===- PositionTest.cpp - Bytes in the wrong place are seen ---------------===//
//
// Sums and counts stay right when two equally large pieces change places. Each
// test swaps two pieces that one device sends (or takes for each other where
// they arrive) in a right plan: the verifier must refuse the plan, and a
// checked run must find the bytes that are in the wrong place.
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include "dtrt/verify/Verifier.h"
#include "dtrt/world/LoopbackRun.h"

#include <gtest/gtest.h>

using namespace dtrt;
using namespace dtrt::test;

namespace {

ShardRecord shard(std::vector<std::vector<Interval>> dims) {
  ShardRecord record;
  record.states = 1;
  record.dims = std::move(dims);
  return record;
}

/// Device 0 holds `family` as `dims`, device 1 gets it.
TestPlan movingPlan(Family family, std::vector<std::vector<Interval>> dims) {
  family.partial = true; // the record may be a part of it
  ShardRecord record = shard(std::move(dims));
  return makePlan({std::move(family)}, {{record}, {}}, {{}, {record}});
}

/// Swaps the first two segments of equal size of the opcode's instruction on
/// the device: their places in the message stay.
void swapPieces(TestPlan &plan, uint32_t device, Opcode op) {
  for (Instruction &instruction : plan.programs[device].instructions)
    if (instruction.op == op)
      for (size_t i = 0; i < instruction.segments.size(); ++i)
        for (size_t j = 0; j < i; ++j) {
          Segment &a = instruction.segments[i], &b = instruction.segments[j];
          if (a.size != b.size)
            continue;
          std::swap(a.offset, b.offset);
          return;
        }
  FAIL() << "no two equal pieces in a " << opcodeName(op);
}

uint64_t mismatches(const TestPlan &plan) {
  LoopbackOptions options;
  options.check = true;
  PlanReader reader = plan.reader();
  auto report = runLoopback(reader, options);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? report->check.mismatches : 0;
}

/// `elements`: of the two pieces together.
void expectSwapIsSeen(const TestPlan &right, uint64_t elements) {
  EXPECT_TRUE(verifyPlan(right.reader()).ok());
  EXPECT_EQ(mismatches(right), 0u);
  for (Opcode op : {Opcode::Pack, Opcode::Unpack}) {
    TestPlan wrong = right;
    swapPieces(wrong, op == Opcode::Pack ? 0 : 1, op);
    Status verdict = verifyPlan(wrong.reader());
    ASSERT_FALSE(verdict.ok()) << opcodeName(op);
    EXPECT_NE(verdict.message().find("sends other regions"), std::string::npos)
        << verdict.message();
    EXPECT_EQ(mismatches(wrong), elements) << opcodeName(op);
  }
}

} // namespace

TEST(Positions, TwoRowsThatChangePlaces) {
  expectSwapIsSeen(
      movingPlan(makeFamily("w", {}, {8, 16}), {{{2, 3}, {5, 6}}, {{0, 16}}}),
      32);
}

TEST(Positions, TwoExpertsThatChangePlaces) {
  Family family = makeFamily("experts.{}.w", {{0, 1, 8}}, {4, 6});
  expectSwapIsSeen(movingPlan(family, {{{1, 2}, {6, 7}}, {{0, 4}}, {{0, 6}}}),
                   48);
}

TEST(Positions, GateAndUpThatChangePlaces) {
  // TP 1 of 2 of [gate; up], 16 rows each.
  expectSwapIsSeen(movingPlan(makeFamily("linear_fc1.weight", {}, {32, 5}),
                              {{{8, 16}, {24, 32}}, {{0, 5}}}),
                   80);
}

TEST(Positions, TwoRngStatesThatChangePlaces) {
  Family family =
      makeFamily("rng", {}, {4, 40}, {{"param", DType::U8, DType::U8}});
  expectSwapIsSeen(movingPlan(family, {{{0, 1}, {3, 4}}, {{0, 40}}}), 80);
}

TEST(Positions, EqualSumsInTheWrongOrderAreSeen) {
  // A converted state: the swap must be seen after the dtype has changed.
  Family family =
      makeFamily("w", {}, {8, 16}, {{"master", DType::F32, DType::BF16}});
  expectSwapIsSeen(movingPlan(family, {{{2, 3}, {5, 6}}, {{0, 16}}}), 32);
}
