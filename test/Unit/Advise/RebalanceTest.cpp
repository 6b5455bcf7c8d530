//===- RebalanceTest.cpp - Changes of partitions that pay, or not ---------===//

#include "dt/Advise/Rebalance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

using namespace dt::advise;

namespace {

/// `stages` stages of equal devices.
RebalanceProblem problemOf(const std::vector<int64_t> &work,
                           const std::vector<int64_t> &today) {
  RebalanceProblem problem;
  problem.stages.work = work;
  problem.stages.stages.resize(today.size());
  problem.today = today;
  problem.stateBytes.assign(work.size(), 100);
  problem.microBatches = 4;
  problem.bytesPerSecond = 100;
  problem.horizon = 100;
  return problem;
}

Rebalance changeOf(const RebalanceProblem &problem) {
  std::string error;
  auto change = rebalance(problem, error);
  EXPECT_TRUE(change) << error;
  return change.value_or(Rebalance());
}

TEST(Rebalance, MovesLayersWhenTheMiddleGrowsHeavy) {
  // Stages take 2, 6, 6, 2; the fastest is 4 on each.
  auto change = changeOf(problemOf({1, 1, 3, 3, 3, 3, 1, 1}, {2, 2, 2, 2}));
  EXPECT_TRUE(change.pays);
  EXPECT_EQ(change.slowestBefore, 6);
  EXPECT_EQ(change.slowestAfter, change.slowestBest);
  EXPECT_EQ(change.slowestBest, 5);
  EXPECT_EQ(change.partition.layers, (std::vector<int64_t>{3, 1, 1, 3}));
  // 3 slowest micro-batches and one through all stages.
  EXPECT_EQ(change.stepBefore, 3 * 6 + 16);
  EXPECT_EQ(change.stepAfter, 3 * 5 + 16);
  // One layer to each end, side by side.
  EXPECT_EQ(change.partition.movedBytes, 200);
  EXPECT_EQ(change.transition, 1);
  EXPECT_EQ(change.paysAfterSteps, 1);
}

TEST(Rebalance, ProposesNothingThatDoesNotPayWithinTheHorizon) {
  auto problem = problemOf({1, 1, 3, 3, 3, 3, 1, 1}, {2, 2, 2, 2});
  problem.switchSeconds = 500; // 3 seconds are gained per step
  auto change = changeOf(problem);
  EXPECT_FALSE(change.pays);
  EXPECT_EQ(change.partition.layers, problem.today);
  problem.horizon = 1000;
  EXPECT_TRUE(changeOf(problem).pays);
}

TEST(Rebalance, NoiseMovesNothing) {
  auto problem =
      problemOf({100, 100, 101, 100, 100, 99, 100, 101}, {2, 2, 2, 2});
  problem.leastGain = 0.02;
  problem.horizon = 1000000;
  EXPECT_FALSE(changeOf(problem).pays);
}

TEST(Rebalance, BytesDecideWhetherItPays) {
  // The fastest moves the fourth layer, and gains 3 x 99 per step.
  auto problem = problemOf({50, 50, 1, 99, 100, 100}, {3, 3});
  problem.stateBytes = {100, 100, 100, 10000000, 100, 100};
  auto change = changeOf(problem);
  EXPECT_FALSE(change.pays);
  problem.stateBytes.assign(6, 100);
  EXPECT_TRUE(changeOf(problem).pays);
}

TEST(Rebalance, GainsAreThoseOfTheDefinition) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    size_t stages = 1 + random() % 4, layers = 4 + random() % 6;
    std::vector<int64_t> work, today(stages, 0);
    for (size_t i = 0; i < layers; ++i) {
      work.push_back(1 + random() % 50);
      ++today[random() % stages];
    }
    RebalanceProblem problem = problemOf(work, today);
    problem.switchSeconds = random() % 1000;
    Rebalance change = changeOf(problem);
    // All partitions, by their ends.
    double best = 1e300, most = 0;
    std::function<double(const std::vector<int64_t> &)> slowest =
        [&](const std::vector<int64_t> &counts) {
          size_t at = 0;
          double most = 0;
          for (int64_t count : counts) {
            most = std::max<double>(
                most, std::accumulate(work.begin() + at,
                                      work.begin() + at + count, 0));
            at += count;
          }
          return most;
        };
    std::function<void(std::vector<int64_t>, int64_t)> all =
        [&](std::vector<int64_t> open, int64_t left) {
          if (open.size() + 1 == stages) {
            open.push_back(left);
            best = std::min(best, slowest(open));
            return;
          }
          for (int64_t n = 0; n <= left; ++n) {
            open.push_back(n);
            all(open, left - n);
            open.pop_back();
          }
        };
    all({}, int64_t(layers));
    EXPECT_EQ(change.slowestBest, best);
    most = slowest(change.partition.layers);
    EXPECT_EQ(change.slowestAfter, most);
    double gain = 3 * (slowest(today) - most);
    EXPECT_DOUBLE_EQ(change.stepBefore - change.stepAfter, gain);
    if (change.pays) {
      EXPECT_GT(gain * problem.horizon, change.transition);
      EXPECT_LE(*change.paysAfterSteps * 1.0, change.transition / gain + 1);
    } else if (slowest(today) > best * 1.5) {
      // What gains a third and costs nothing much is not left lying.
      EXPECT_LE(3 * (slowest(today) - best) * problem.horizon,
                problem.switchSeconds + 100.0 * layers + 1000);
    }
  }
}

TEST(Rebalance, SaysWhatDoesNotFit) {
  std::string error;
  auto problem = problemOf({1, 1, 1}, {1, 1});
  EXPECT_FALSE(rebalance(problem, error));
  EXPECT_EQ(error, "today's stages have 2 layers, expected 3");
  problem.today = {1, 1, 1};
  EXPECT_FALSE(rebalance(problem, error));
  EXPECT_EQ(error, "today has 3 stages, expected 2");
  problem.today = {1, 2};
  problem.stateBytes = {1};
  EXPECT_FALSE(rebalance(problem, error));
  EXPECT_EQ(error, "state bytes are given for 1 layers, expected 3");
}

} // namespace
