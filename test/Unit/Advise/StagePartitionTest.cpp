//===- StagePartitionTest.cpp - Partitions against all partitions ---------===//

#include "dt/Advise/StagePartition.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

using namespace dt::advise;

namespace {

/// Calls `see` with every way to have `layers` layers on the stages.
void allPartitions(int64_t layers, size_t stages,
                   const std::function<void(const std::vector<int64_t> &)> &see,
                   std::vector<int64_t> &open) {
  if (open.size() + 1 == stages) {
    open.push_back(layers);
    see(open);
    open.pop_back();
    return;
  }
  for (int64_t count = 0; count <= layers; ++count) {
    open.push_back(count);
    allPartitions(layers - count, stages, see, open);
    open.pop_back();
  }
}

struct Cost {
  bool isLegal = true;
  int64_t time = 0;
  int64_t moved = 0;
};

/// From the definition, layer by layer.
Cost costOf(const StageProblem &problem, const std::vector<int64_t> &layers) {
  Cost cost;
  size_t at = 0;
  for (size_t s = 0; s < layers.size(); ++s) {
    const StageLimits &limits = problem.stages[s];
    int64_t work = limits.fixedWork, bytes = limits.fixedBytes;
    for (int64_t i = 0; i < layers[s]; ++i, ++at) {
      work += problem.work[at];
      bytes += problem.layerBytes.empty() ? 0 : problem.layerBytes[at];
      if (!problem.activationBytes.empty())
        bytes += limits.inFlight * problem.activationBytes[at];
      if (!problem.moveBytes.empty())
        cost.moved += problem.moveBytes[s][at];
    }
    bool mayEnd = s + 1 == layers.size() || at == 0;
    if (!mayEnd) {
      mayEnd = true;
      for (int64_t layer : problem.noCutAfter)
        mayEnd &= layer + 1 != int64_t(at) || at == problem.work.size();
    }
    cost.isLegal &= mayEnd && bytes <= limits.capacity &&
                    layers[s] >= limits.leastLayers &&
                    layers[s] <= limits.mostLayers;
    cost.time = std::max(cost.time, limits.slowness * work);
  }
  return cost;
}

struct RandomProblem {
  explicit RandomProblem(uint32_t seed) : random(seed) {
    size_t layers = 1 + random() % 9, stages = 1 + random() % 4;
    double scale = std::pow(10.0, -double(random() % 7));
    std::vector<double> seconds;
    for (size_t l = 0; l < layers + 2; ++l)
      seconds.push_back(scale * double(1 + random() % 1000) / 100);
    double unit = 1;
    std::vector<int64_t> work = quantize(seconds, unit);
    problem.work.assign(work.begin(), work.end() - 2);
    problem.stages.resize(stages);
    if (random() % 2) {
      problem.stages.front().fixedWork = work[layers];
      problem.stages.back().fixedWork += work[layers + 1];
    }
    bool isUnequal = random() % 2, isLimited = random() % 2;
    for (StageLimits &stage : problem.stages) {
      stage.slowness = isUnequal ? 1024 + random() % 3072 : 1024;
      stage.inFlight = 1 + random() % 4;
      if (isLimited)
        stage.capacity = 200 + random() % 900;
      if (random() % 4 == 0)
        stage.fixedBytes = random() % 100;
      if (random() % 5 == 0)
        stage.leastLayers = random() % 3;
      if (random() % 5 == 0)
        stage.mostLayers = std::max<int64_t>(stage.leastLayers, random() % 5);
    }
    for (size_t l = 0; l < layers; ++l) {
      problem.layerBytes.push_back(random() % 200);
      problem.activationBytes.push_back(random() % 30);
    }
    if (random() % 4 == 0)
      problem.noCutAfter = {int64_t(random() % layers)};
    if (random() % 2)
      for (size_t s = 0; s < stages; ++s) {
        problem.moveBytes.emplace_back();
        for (size_t l = 0; l < layers; ++l)
          problem.moveBytes.back().push_back(random() % 100);
      }
  }

  std::mt19937 random;
  StageProblem problem;
};

/// Least of time, or of bytes within a bound of the time.
std::optional<Cost> bruteForce(const StageProblem &problem, double slack) {
  std::optional<Cost> fastest, nearest;
  std::vector<int64_t> open;
  auto each = [&](auto see) {
    allPartitions(
        int64_t(problem.work.size()), problem.stages.size(),
        [&](const std::vector<int64_t> &layers) {
          Cost cost = costOf(problem, layers);
          if (cost.isLegal)
            see(cost);
        },
        open);
  };
  each([&](const Cost &cost) {
    if (!fastest || cost.time < fastest->time)
      fastest = cost;
  });
  if (!fastest)
    return std::nullopt;
  auto bound = int64_t(std::floor(double(fastest->time) * (1 + slack)));
  each([&](const Cost &cost) {
    if (cost.time <= bound &&
        (!nearest || cost.moved < nearest->moved ||
         (cost.moved == nearest->moved && cost.time < nearest->time)))
      nearest = cost;
  });
  return nearest;
}

TEST(StagePartition, EqualsTheBestOfAllPartitions) {
  size_t solved = 0, limited = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    StageProblem problem = RandomProblem(seed).problem;
    std::string error;
    auto best = bruteForce(problem, 0);
    auto found = fastestPartition(problem, error);
    ASSERT_EQ(found.has_value(), best.has_value()) << error;
    limited += !found;
    if (!found)
      continue;
    ++solved;
    EXPECT_EQ(found->time, best->time);
    EXPECT_EQ(found->movedBytes, best->moved);
    EXPECT_TRUE(verify(problem, *found, error)) << error;
  }
  EXPECT_GT(solved, 1000u);
  EXPECT_GT(limited, 100u);
}

TEST(StagePartition, MovesTheFewestBytesWithinTheSlack) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    StageProblem problem = RandomProblem(seed).problem;
    double slack = (seed % 5) * 0.1;
    std::string error;
    auto best = bruteForce(problem, slack);
    auto found = nearestPartition(problem, slack, error);
    ASSERT_EQ(found.has_value(), best.has_value()) << error;
    if (!found)
      continue;
    EXPECT_EQ(found->movedBytes, best->moved);
    EXPECT_EQ(found->time, best->time);
    EXPECT_TRUE(verify(problem, *found, error)) << error;
  }
}

TEST(StagePartition, ScaleDoesNotChangeTheAnswer) {
  std::vector<double> seconds = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
  std::vector<int64_t> first;
  for (double scale : {1.0, 1e-3, 1e-6, 1e-9}) {
    StageProblem problem;
    std::vector<double> scaled;
    for (double value : seconds)
      scaled.push_back(value * scale);
    double unit = 1;
    problem.work = quantize(scaled, unit);
    problem.stages.resize(4);
    std::string error;
    auto found = fastestPartition(problem, error);
    ASSERT_TRUE(found) << error;
    EXPECT_NEAR(double(found->time) * unit, 14 * scale, 1e-9 * scale);
    if (first.empty())
      first = found->layers;
    EXPECT_EQ(found->layers, first);
  }
}

TEST(StagePartition, SlowDevicesGetFewerLayers) {
  StageProblem problem;
  problem.work.assign(12, 10);
  problem.stages.resize(3);
  problem.stages[0].slowness = problem.stages[2].slowness = 1;
  problem.stages[1].slowness = 2;
  std::string error;
  auto found = fastestPartition(problem, error);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->time, 50);
  EXPECT_EQ(found->layers[1], 2);
}

TEST(StagePartition, EvenPartitionGivesTheFirstStagesOneMore) {
  StageProblem problem;
  problem.work.assign(10, 1);
  problem.stages.resize(4);
  EXPECT_EQ(evenPartition(problem).layers, (std::vector<int64_t>{3, 3, 2, 2}));
}

TEST(StagePartition, SaysWhatDoesNotFit) {
  StageProblem problem;
  problem.work = {1, 2};
  problem.stages.resize(2);
  std::string error;
  problem.layerBytes = {1};
  EXPECT_FALSE(fastestPartition(problem, error));
  EXPECT_EQ(error, "layerBytes has 1 entries, but there are 2 layers");
  problem.layerBytes = {5, 5};
  problem.stages[0].capacity = problem.stages[1].capacity = 4;
  EXPECT_FALSE(fastestPartition(problem, error));
  EXPECT_EQ(error, "no partition of 2 layers into 2 stages keeps the limits of "
                   "bytes and layers");
  problem.work = {INT64_MAX / 2, INT64_MAX / 2};
  EXPECT_FALSE(fastestPartition(problem, error));
  EXPECT_EQ(error, "work or bytes are negative or add up to more than 2^62");
}

TEST(StagePartition, VerifyRefusesAWrongTime) {
  StageProblem problem;
  problem.work = {1, 2, 3};
  problem.stages.resize(2);
  std::string error;
  auto found = fastestPartition(problem, error);
  ASSERT_TRUE(found);
  ++found->time;
  EXPECT_FALSE(verify(problem, *found, error));
  EXPECT_EQ(error, "time or bytes are not those of the stages");
}

} // namespace
