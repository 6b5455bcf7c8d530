//===- KnownProgramsTest.cpp - What was found right before ----------------===//
//
// Programs that were right are not read again, and nothing else is taken on
// trust.
//
//===----------------------------------------------------------------------===//

#include "ExpectContains.h"
#include "FirstOf.h"
#include "Mutations.h"

#include "dtrt/verify/Verifier.h"

#include <algorithm>
#include <atomic>
#include <gtest/gtest.h>

using namespace dtrt;
using namespace dtrt::test;

namespace {

/// Measures plans one after the other, as who makes many does.
class Measurer {
public:
  /// A plan that is verified, and held.
  std::string hold(const TestPlan &plan) {
    auto reader = PlanReader::fromBytes(plan.bytes());
    if (!reader.ok())
      return reader.status().message();
    Status status = verifyPlan(*reader, /*facts=*/nullptr, &known);
    known.prepare();
    return status.message();
  }
  /// Does now what the next plan would.
  void prepare() { known.prepare(); }
  Result<PlanSummary> measure(const TestPlan &plan, bool replaces = true) {
    MeasureOptions options;
    options.known = &known;
    options.replacesKnown = replaces;
    options.features = &features;
    options.visit = [&](const RankProgram &program) -> Status {
      ++(program.instructions.empty() ? numKnown : numRead);
      return {};
    };
    numKnown = numRead = 0;
    auto bytes = plan.encoded();
    DTRT_RETURN_IF_ERROR(bytes);
    auto reader = PlanReader::fromBytes(std::move(*bytes));
    DTRT_RETURN_IF_ERROR(reader);
    return measurePlan(*reader, options);
  }
  /// What is wrong with a plan; empty: nothing.
  std::string fault(const TestPlan &plan) {
    auto summary = measure(plan);
    return summary.ok() ? "" : summary.status().message();
  }

  FeatureSet features = 0;
  std::atomic<size_t> numKnown{0}, numRead{0};

private:
  VerifiedPrograms known;
};

} // namespace

TEST(KnownPrograms, AreNotReadAgain) {
  for (const TestPlan &plan : {reshapePlan(), forwardingPlan(), relayPlan()}) {
    Measurer measurer;
    auto first = measurer.measure(plan);
    ASSERT_TRUE(first.ok()) << first.status().message();
    EXPECT_EQ(measurer.numKnown, 0u);
    FeatureSet features = measurer.features;
    auto second = measurer.measure(plan);
    ASSERT_TRUE(second.ok()) << second.status().message();
    EXPECT_EQ(measurer.numRead, 0u);
    EXPECT_EQ(measurer.numKnown, plan.programs.size());
    EXPECT_EQ(measurer.features, features);
    TestPlan before = plan, after = plan;
    before.common.summary = *first;
    after.common.summary = *second;
    EXPECT_EQ(before.bytes(), after.bytes());
    measurer.prepare();
    auto third = measurer.measure(plan);
    ASSERT_TRUE(third.ok()) << third.status().message();
    EXPECT_EQ(measurer.numRead, 0u);
    after.common.summary = *third;
    EXPECT_EQ(before.bytes(), after.bytes());
  }
}

TEST(KnownPrograms, OthersAreRead) {
  Measurer measurer;
  TestPlan plan = reshapePlan();
  EXPECT_EQ(measurer.fault(plan), "");
  TestPlan broken = plan;
  firstOf(broken, 0, Opcode::Copy).segments.resize(2);
  EXPECT_NE(measurer.fault(broken), "");
  EXPECT_EQ(measurer.fault(plan), "");
}

/// The same copies in another order: right, in other bytes.
static TestPlan inAnotherOrder(TestPlan plan) {
  std::vector<Segment> &segments = firstOf(plan, 0, Opcode::Copy).segments;
  std::rotate(segments.begin(), segments.begin() + 2, segments.end());
  return plan;
}

TEST(KnownPrograms, OfAHeldPlanStay) {
  Measurer measurer;
  TestPlan held = reshapePlan(), other = inAnotherOrder(held);
  ASSERT_NE(held.bytes(), other.bytes());
  ASSERT_EQ(measurer.hold(held), "");
  for (int i = 0; i < 2; ++i) { // what is found of the other one is forgotten
    ASSERT_TRUE(measurer.measure(other, /*replaces=*/false).ok());
    EXPECT_EQ(measurer.numRead, 1u);
  }
  ASSERT_TRUE(measurer.measure(held, /*replaces=*/false).ok());
  EXPECT_EQ(measurer.numRead, 0u);
}

TEST(KnownPrograms, OfTheLastPlanReplaceThem) {
  Measurer measurer;
  TestPlan first = reshapePlan(), second = inAnotherOrder(first);
  ASSERT_TRUE(measurer.measure(first).ok());
  for (const TestPlan &plan : {second, first}) {
    ASSERT_TRUE(measurer.measure(plan).ok());
    EXPECT_EQ(measurer.numRead, 1u);
  }
}

/// One fault in a right plan that is known: what is said of it is what who
/// knows nothing says, and so are the numbers where it is none.
static void expectNoFaultHidden(bool prepares) {
  Rng rng(23);
  std::vector<Mutation> kinds;
  for (const auto &some : {instructionMutations(), segmentMutations(),
                           messageMutations(), statementMutations()})
    kinds.insert(kinds.end(), some.begin(), some.end());
  int applied = 0;
  for (const Mutation &kind : kinds)
    for (int trial = 0; trial < 10; ++trial) {
      TestPlan plan = anyPlan(rng), mutant = plan;
      if (!kind.apply(mutant, rng))
        continue;
      ++applied;
      Measurer measurer;
      ASSERT_EQ(measurer.fault(plan), "");
      if (prepares)
        measurer.prepare();
      auto found = measurer.measure(mutant);
      auto alone = Measurer().measure(mutant);
      ASSERT_EQ(found.ok(), alone.ok()) << kind.name;
      if (!found.ok()) {
        EXPECT_EQ(found.status().message(), alone.status().message());
        continue;
      }
      mutant.common.summary = *alone;
      TestPlan stated = mutant;
      stated.common.summary = *found;
      EXPECT_EQ(stated.bytes(), mutant.bytes()) << kind.name;
    }
  EXPECT_GT(applied, 200);
}

TEST(KnownPrograms, HideNoFault) { expectNoFaultHidden(/*prepares=*/false); }

TEST(KnownPrograms, HideNoFaultTogether) {
  expectNoFaultHidden(/*prepares=*/true);
}

TEST(KnownPrograms, AreReadWhereTheirRanksAreOthers) {
  Measurer measurer;
  TestPlan plan = reshapePlan();
  EXPECT_EQ(measurer.fault(plan), "");
  std::swap(plan.common.sourceDevices[0], plan.common.sourceDevices[1]);
  EXPECT_NE(measurer.fault(plan), "");
}

TEST(KnownPrograms, BoundsAreOfTheirShards) {
  // Between these plans nothing of what is remembered is right.
  Measurer measurer;
  for (const TestPlan &plan :
       {reshapePlan(), forwardingPlan(), derivedPlan(), reshapePlan()}) {
    auto found = measurer.measure(plan);
    auto alone = Measurer().measure(plan);
    ASSERT_TRUE(found.ok() && alone.ok());
    EXPECT_EQ(found->bytesWireLowerBound, alone->bytesWireLowerBound);
    EXPECT_DOUBLE_EQ(found->timeLowerBound, alone->timeLowerBound);
  }
}

TEST(KnownPrograms, AreReadWhereLimitsAreOthers) {
  Measurer measurer;
  TestPlan plan = reshapePlan();
  EXPECT_EQ(measurer.fault(plan), "");
  plan.common.summary.stagingLimit = 1;
  expectContains(measurer.fault(plan), "bytes of staging");
}

/// Of two right plans, a program each: what one sends the other gets not.
static void expectNoMeeting(bool prepares) {
  Measurer measurer;
  TestPlan plan = reshapePlan();
  TestPlan later = plan;
  for (RankProgram &program : later.programs)
    for (Instruction &instruction : program.instructions)
      if (instruction.wave >= 0)
        ++instruction.wave;
  EXPECT_EQ(measurer.fault(plan), "");
  if (prepares) // what all say together is of the next plan no more
    measurer.prepare();
  EXPECT_EQ(measurer.fault(later), "");
  TestPlan mixed = later;
  mixed.programs[0] = plan.programs[0];
  EXPECT_NE(measurer.fault(mixed), "");
  EXPECT_EQ(measurer.numRead, 1u);
}

TEST(KnownPrograms, StillHaveToMeet) { expectNoMeeting(/*prepares=*/false); }

TEST(KnownPrograms, StillHaveToMeetTogether) {
  expectNoMeeting(/*prepares=*/true);
}
