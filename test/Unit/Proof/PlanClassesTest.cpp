//===- PlanClassesTest.cpp - What a solver is asked of one plan -----------===//

#include "dt/Proof/PlanClasses.h"
#include "dt/Proof/PlanObligations.h"
#include "dt/Proof/Solver.h"

#include "gtest/gtest.h"

using namespace dt;

namespace {

/// What the prover sees of a plan.
struct Plan {
  std::vector<PlanPiece> pieces;
  std::vector<PlanSlot> slots;
  Wanted wanted;
  std::vector<PlanFlow> flows = {oneFlow()};
  int64_t limit = 1 << 20;

  static PlanFlow oneFlow() {
    PlanFlow flow;
    flow.name = "@w";
    return flow;
  }
  PlanClasses classes() const {
    return classify(Arrivals(pieces, flows), slots, wanted, limit);
  }
};

/// Device 0 sends rows [2 i, 2 i + 2) of 8 to each other device in waves of
/// four messages each; slots of 64 bytes keep to their four areas.
Plan rightPlan(int64_t ranks) {
  Plan plan;
  for (int64_t wave = 0; wave < 4; ++wave)
    for (int64_t rank = 0; rank < ranks; ++rank) {
      int64_t to = ranks + rank;
      PlanPiece piece;
      piece.wave = int32_t(wave);
      piece.step = uint32_t(wave);
      piece.from = rank;
      piece.to = to;
      piece.box = Box::fromOffsetSize({8 * rank + 2 * wave, 0}, {2, 16});
      piece.bytes = 64;
      piece.atSource = true;
      plan.pieces.push_back(piece);
      plan.slots.push_back({0, wave, rank, to, false, 64 * (wave % 2), 64});
      plan.slots.push_back({0, wave, to, rank, true, 64 * (wave % 2), 64});
      plan.wanted[{0, to}] = 8 * 16;
    }
  return plan;
}

/// Names of the obligations that the solver refutes.
std::vector<std::string> refuted(const PlanClasses &classes) {
  std::vector<std::string> out;
  for (const Obligation &obligation : planObligations(classes)) {
    Verdict verdict = solve(obligation, kSolverSteps).verdict;
    EXPECT_NE(verdict, Verdict::Unknown) << obligation.problem;
    if (verdict == Verdict::Refuted)
      out.push_back(obligation.name);
  }
  return out;
}

using Names = std::vector<std::string>;

class PlanClass : public ::testing::Test {
protected:
  void SetUp() override {
    if (solverName().empty())
      GTEST_SKIP() << "built without a solver";
  }
};

} // namespace

TEST_F(PlanClass, RightPlansAreProved) {
  EXPECT_EQ(refuted(rightPlan(3).classes()), Names());
  EXPECT_EQ(planObligations(rightPlan(3).classes()).size(), 4u);
}

TEST_F(PlanClass, DoNotGrowWithTheWorld) {
  PlanClasses large = rightPlan(500).classes();
  EXPECT_EQ(large.waves.size(), 1u);
  EXPECT_EQ(large.arenas.size(), 2u); // senders, receivers
  ASSERT_EQ(large.covers.size(), 1u);
  EXPECT_EQ(large.covers[0].users, 500);
  EXPECT_EQ(large.covers[0].pieces.size(), 1u);
  EXPECT_EQ(large.otherCovers, 0);
}

TEST_F(PlanClass, ElementDeliveredTwiceIsRefuted) {
  Plan plan = rightPlan(3);
  plan.pieces[1].box[0] = {11, 13}; // [10:12) is another's
  EXPECT_EQ(refuted(plan.classes()), Names({"cover-1"}));
}

TEST_F(PlanClass, OverlapThatMakesUpForAHoleIsRefuted) {
  Plan plan = rightPlan(1);
  plan.pieces[3].box[0] = {5, 7}; // instead of [6:8)
  EXPECT_EQ(refuted(plan.classes()), Names({"cover-0"}));
}

TEST_F(PlanClass, MissingPieceIsRefuted) {
  Plan plan = rightPlan(1);
  plan.pieces.pop_back();
  EXPECT_EQ(refuted(plan.classes()), Names({"cover-0"}));
}

TEST_F(PlanClass, TwoMessagesOfAPairAreRefuted) {
  Plan plan = rightPlan(2);
  plan.slots.push_back(plan.slots.back());
  EXPECT_EQ(refuted(plan.classes()), Names({"waves-3-to-3"}));
}

TEST_F(PlanClass, LargeGroupsAreRefuted) {
  Plan plan = rightPlan(2);
  for (int64_t peer = 10; peer < 10 + kMaxGroupMessages; ++peer)
    plan.slots.push_back({0, 3, 0, peer, false, -1, 64});
  EXPECT_EQ(refuted(plan.classes()), Names({"waves-0-to-3"}));
}

TEST_F(PlanClass, WavesThatDescendAreRefuted) {
  Plan plan = rightPlan(2);
  for (PlanSlot &slot : plan.slots)
    slot.wave = 3 - slot.wave;
  EXPECT_EQ(refuted(plan.classes()), Names({"waves-3-to-0"}));
}

TEST_F(PlanClass, SlotReusedInFlightIsRefuted) {
  Plan plan = rightPlan(2);
  for (PlanSlot &slot : plan.slots)
    if (slot.device == 1)
      slot.offset = 0;
  EXPECT_EQ(refuted(plan.classes()), Names({"arenas-0-1"}));
}

TEST_F(PlanClass, SlotBeyondTheLimitIsRefuted) {
  Plan plan = rightPlan(2);
  plan.limit = 127;
  EXPECT_EQ(refuted(plan.classes()), Names({"arenas-0-1", "arenas-2-3"}));
}

// One area lies between the two of the other kind.
TEST_F(PlanClass, AreasInAnyOrderAreProved) {
  Plan plan = rightPlan(2);
  for (PlanSlot &slot : plan.slots)
    if (slot.device == 1)
      slot.offset = slot.offset == 0 ? 300 : 0;
  EXPECT_EQ(refuted(plan.classes()), Names());
  EXPECT_EQ(plan.classes().arenas.size(), 3u);
}

// Areas that overlap, and slots that do not while in use: these are asked of
// the solver one by one, of few devices.
TEST_F(PlanClass, SlotsWithoutAreasAreProved) {
  Plan plan = rightPlan(2);
  for (PlanSlot &slot : plan.slots)
    if (slot.device == 1)
      slot.offset = 64 * (slot.wave % 3);
  PlanClasses classes = plan.classes();
  ASSERT_EQ(classes.arenas.size(), 3u);
  EXPECT_EQ(classes.arenas[0].slots.size(), 4u);
  EXPECT_EQ(refuted(classes), Names());
  plan.limit = 191;
  EXPECT_EQ(refuted(plan.classes()), Names({"arenas-0-1"}));
}

TEST_F(PlanClass, DevicesWithoutAreasAreCountedBeyondAFew) {
  Plan plan = rightPlan(100);
  for (PlanSlot &slot : plan.slots)
    if (!slot.receive)
      slot.offset = 64 * (slot.wave % 3);
  PlanClasses classes = plan.classes();
  EXPECT_EQ(classes.arenas.size(), 17u); // with that of the receivers
  EXPECT_EQ(classes.otherArenas, 84);
}
