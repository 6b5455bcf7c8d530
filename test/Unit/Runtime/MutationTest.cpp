//===- MutationTest.cpp - The verifier refuses what is wrong --------------===//
//
// Right plans get one random fault each. Whatever the verifier lets pass must
// be no fault: all judges of Mutants.h agree on it. `dt-mutants` tries as many
// as one wants.
//
//===----------------------------------------------------------------------===//

#include "Mutants.h"
#include "PlanFields.h"

#include "dtrt/verify/Verifier.h"

#include <gtest/gtest.h>

using namespace dtrt;
using namespace dtrt::test;

namespace {

// Of a kind. Few plans have a place for some of them, which are tried until one
// has.
constexpr int kTrials = 60, kMostTrials = 2000, kMostApplied = 8;

/// Or one with library collectives, which the judges of other tests do not
/// know.
TestPlan anyPlanOrCalls(Rng &rng) {
  return rng() % 8 == 0 ? collectivePlan() : anyPlan(rng);
}

struct Tally {
  int applied = 0, refused = 0, equivalent = 0;
  std::vector<std::string> missed;
};

/// Applies one kind at random to random plans.
Tally tryKind(const Mutation &mutation, Rng &rng, bool mayBeEquivalent) {
  Tally tally;
  auto isEnough = [&](int trials) {
    return tally.applied >= kMostApplied ||
           trials >= (tally.applied ? kTrials : kMostTrials);
  };
  for (int trial = 0; !isEnough(trial); ++trial) {
    TestPlan plan = anyPlanOrCalls(rng), mutant = plan;
    if (!mutation.apply(mutant, rng))
      continue;
    ++tally.applied;
    Verdict verdict = judge(plan, mutant, rng);
    if (!verdict.accepted)
      ++tally.refused;
    else if (mayBeEquivalent && verdict.problem.empty())
      ++tally.equivalent;
    else
      tally.missed.push_back(mayBeEquivalent ? verdict.problem : "accepted");
  }
  return tally;
}

/// Returns how many kinds applied at all.
size_t tryKinds(const std::vector<Mutation> &kinds, bool mayBeEquivalent,
                uint64_t seed) {
  size_t applied = 0;
  for (const Mutation &kind : kinds) {
    Rng rng(seed);
    Tally tally = tryKind(kind, rng, mayBeEquivalent);
    std::printf("%-48s %3d applied, %3d refused, %3d equivalent\n",
                kind.name.c_str(), tally.applied, tally.refused,
                tally.equivalent);
    EXPECT_EQ(tally.missed, std::vector<std::string>())
        << kind.name << ", seed " << seed;
    applied += tally.applied > 0;
  }
  return applied;
}

} // namespace

TEST(Mutation, RightPlansAreRightHoweverTheyOverlap) {
  uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  for (int trial = 0; trial < 20; ++trial) {
    TestPlan plan = anyPlan(rng);
    Verdict verdict = judge(plan, plan, rng);
    ASSERT_TRUE(verdict.accepted) << verifyPlan(plan.reader()).message();
    EXPECT_FALSE(verdict.differs);
    EXPECT_EQ(verdict.problem, "");
  }
}

TEST(Mutation, AllFaultsAreRefused) {
  uint64_t seed = std::random_device()();
  std::printf("seed %llu\n", (unsigned long long)seed);
  size_t kinds = tryKinds(instructionMutations(), true, seed) +
                 tryKinds(segmentMutations(), true, seed) +
                 tryKinds(messageMutations(), true, seed) +
                 tryKinds(statementMutations(), false, seed);
  EXPECT_GE(kinds, 30u);
}

TEST(Mutation, EveryFieldIsJudged) {
  uint64_t seed = std::random_device()();
  std::printf("seed %llu\n", (unsigned long long)seed);
  std::vector<Mutation> kinds =
      fieldMutations({reshapePlan(), derivedPlan(), forwardingPlan(),
                      viewedPlan(), listedPlan(), permutedPlan(),
                      flattenedPlan(), filledPlan(), collectivePlan()});
  EXPECT_GE(kinds.size(), 90u);
  EXPECT_EQ(tryKinds(kinds, true, seed), kinds.size());
}
