//===- ExpertPlacementTest.cpp - Experts by load, within a budget ---------===//

#include "dt/Advise/ExpertPlacement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace dt::advise;

namespace {

ExpertProblem randomProblem(uint32_t seed, int64_t experts, int64_t ranks) {
  std::mt19937 random(seed);
  ExpertProblem problem;
  problem.ranks = ranks;
  problem.bytesPerExpert = 10;
  for (int64_t e = 0; e < experts; ++e)
    problem.load.push_back(random() % 5 ? random() % 100 : random() % 1000);
  std::vector<int64_t> today;
  for (int64_t e = 0; e < experts; ++e)
    today.push_back(e * ranks / experts);
  std::shuffle(today.begin(), today.end(), random);
  problem.rankOf = today;
  return problem;
}

/// The lightest heaviest rank of all placements within the budget.
int64_t bruteForce(const ExpertProblem &problem) {
  std::vector<int64_t> rankOf = problem.rankOf;
  std::sort(rankOf.begin(), rankOf.end());
  int64_t best = INT64_MAX;
  do {
    std::vector<int64_t> load(problem.ranks, 0);
    int64_t moved = 0;
    for (size_t e = 0; e < rankOf.size(); ++e) {
      load[rankOf[e]] += problem.load[e];
      moved += rankOf[e] != problem.rankOf[e] ? problem.bytesPerExpert : 0;
    }
    if (moved <= problem.budget)
      best = std::min(best, *std::max_element(load.begin(), load.end()));
  } while (std::next_permutation(rankOf.begin(), rankOf.end()));
  return best;
}

TEST(ExpertPlacement, IsNearTheBestOfAllPlacements) {
  double worst = 1;
  size_t equal = 0, all = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    ExpertProblem problem = randomProblem(seed, 8, seed % 2 ? 2 : 4);
    problem.budget = int64_t(seed % 5) * 20;
    std::string error;
    auto found = placeExperts(problem, error);
    ASSERT_TRUE(found) << error;
    EXPECT_LE(found->movedBytes, problem.budget);
    int64_t best = bruteForce(problem);
    EXPECT_GE(found->heaviest, best);
    worst = std::max(worst, double(found->heaviest) / double(best));
    equal += found->heaviest == best;
    ++all;
  }
  EXPECT_LT(worst, 1.3);
  EXPECT_GT(equal, all * 8 / 10);
}

TEST(ExpertPlacement, IsNeverHeavierThanEplbWithoutABudget) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    ExpertProblem problem = randomProblem(seed, 128, 16);
    std::string error;
    auto found = placeExperts(problem, error);
    ASSERT_TRUE(found) << error;
    EXPECT_LE(found->heaviest, packExperts(problem).heaviest);
  }
}

TEST(ExpertPlacement, NamesRanksSoThatExpertsStay) {
  // Today's placement is what EPLB packs, with its ranks called otherwise.
  ExpertProblem problem = randomProblem(7, 64, 8);
  ExpertPlacement packed = packExperts(problem);
  problem.rankOf = packed.rankOf;
  for (int64_t &rank : problem.rankOf)
    rank = (rank + 3) % 8;
  EXPECT_EQ(packExperts(problem).movedBytes, 0);
}

TEST(ExpertPlacement, KeepsGroupsOnOneNode) {
  ExpertProblem problem = randomProblem(3, 32, 8);
  problem.nodes = 4;
  problem.groups = 8;
  ExpertPlacement packed = packExperts(problem);
  for (size_t e = 0; e < 32; ++e)
    EXPECT_EQ(packed.rankOf[e] / 2, packed.rankOf[e / 4 * 4] / 2);
  std::vector<int64_t> count(8, 0);
  for (int64_t rank : packed.rankOf)
    ++count[rank];
  EXPECT_EQ(count, std::vector<int64_t>(8, 4));
}

TEST(ExpertPlacement, MovesNothingWithoutABudget) {
  ExpertProblem problem = randomProblem(5, 32, 4);
  problem.budget = 0;
  std::string error;
  auto found = placeExperts(problem, error);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rankOf, problem.rankOf);
}

TEST(ExpertPlacement, AssignmentIsTheBestOfAll) {
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    size_t n = 1 + random() % 6;
    std::vector<std::vector<int64_t>> gain(n, std::vector<int64_t>(n));
    for (auto &row : gain)
      for (int64_t &value : row)
        value = random() % 20;
    auto sum = [&](const std::vector<int64_t> &columns) {
      int64_t total = 0;
      for (size_t i = 0; i < n; ++i)
        total += gain[i][columns[i]];
      return total;
    };
    std::vector<int64_t> columns(n);
    std::iota(columns.begin(), columns.end(), 0);
    int64_t best = 0;
    do
      best = std::max(best, sum(columns));
    while (std::next_permutation(columns.begin(), columns.end()));
    EXPECT_EQ(sum(bestAssignment(gain)), best);
  }
}

TEST(ExpertPlacement, SaysWhatDoesNotFit) {
  ExpertProblem problem;
  problem.load = {1, 2, 3};
  problem.ranks = 2;
  std::string error;
  EXPECT_FALSE(placeExperts(problem, error));
  EXPECT_EQ(error, "3 experts do not divide by 2 ranks");
  problem.load = {1, 2, 3, 4};
  problem.rankOf = {0, 0, 0, 1};
  EXPECT_FALSE(placeExperts(problem, error));
  EXPECT_EQ(error, "rank 0 has 3 experts, expected 2");
}

} // namespace
