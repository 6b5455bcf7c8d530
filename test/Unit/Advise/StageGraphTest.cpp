//===- StageGraphTest.cpp - Pipelines as graphs ---------------------------===//

#include "dt/Advise/StageGraph.h"

#include <gtest/gtest.h>

#include <random>

using namespace dt::advise;

namespace {

PipelineTimes uniform(size_t stages, size_t chunks, int64_t microBatches,
                      double forward, double backward) {
  PipelineTimes times;
  times.microBatches = microBatches;
  times.forward.assign(stages, std::vector<double>(chunks, forward));
  times.backward.assign(stages, std::vector<double>(chunks, backward));
  return times;
}

TEST(StageGraph, OneForwardOneBackwardHasItsKnownBubble) {
  std::string error;
  for (int64_t m : {4, 8, 13})
    for (size_t p : {1, 2, 4}) {
      if (m < int64_t(p))
        continue;
      auto graph = buildStageGraph(uniform(p, 1, m, 1, 2), error);
      ASSERT_TRUE(graph) << error;
      EXPECT_EQ(graph->operations.size(), 2 * p * size_t(m));
      EXPECT_DOUBLE_EQ(makespan(*graph), 3.0 * double(m + int64_t(p) - 1));
    }
}

TEST(StageGraph, InterleavingDividesTheBubble) {
  std::string error;
  auto graph = buildStageGraph(uniform(4, 2, 8, 0.5, 1), error);
  ASSERT_TRUE(graph) << error;
  // (m + (p - 1) / v) x 3
  EXPECT_DOUBLE_EQ(makespan(*graph), 3 * (8 + 3 / 2.0));
}

TEST(StageGraph, UnevenStagesWaitForTheSlowest) {
  PipelineTimes times = uniform(3, 1, 20, 1, 2);
  times.forward[1][0] = 2;
  times.backward[1][0] = 4;
  std::string error;
  auto graph = buildStageGraph(times, error);
  ASSERT_TRUE(graph) << error;
  // Filling and draining overlap with what the slowest stage has to do.
  EXPECT_LE(makespan(*graph), 3 + 6 + 3 + 19 * 6.0);
  EXPECT_GE(makespan(*graph), 20 * 6.0 + 1 + 2);
}

TEST(StageGraph, EdgesLeadForward) {
  std::string error;
  auto graph = buildStageGraph(uniform(4, 2, 8, 1, 2), error);
  ASSERT_TRUE(graph) << error;
  for (const StageEdge &edge : graph->edges)
    EXPECT_LT(edge.from, edge.to);
}

TEST(StageGraph, FreeSlowdownsCostNoTime) {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    PipelineTimes times = uniform(4, 1, 12, 1, 2);
    for (size_t s = 0; s < 4; ++s) {
      times.forward[s][0] = 1 + double(random() % 100) / 50;
      times.backward[s][0] = 2 * times.forward[s][0];
    }
    std::string error;
    auto graph = buildStageGraph(times, error);
    ASSERT_TRUE(graph) << error;
    std::vector<double> factor = freeSlowdowns(*graph, 3);
    EXPECT_LE(makespan(*graph, factor), makespan(*graph) * (1 + 1e-8));
    double most = 1;
    for (double one : factor)
      most = std::max(most, one);
    EXPECT_GT(most, 1.05);
    // And no stage may be slower yet.
    for (int32_t s = 0; s < 4; ++s) {
      std::vector<double> more = factor;
      double least = 3;
      for (size_t i = 0; i < more.size(); ++i)
        if (graph->operations[i].stage == s && factor[i] > 1) {
          least = std::min(least, factor[i]);
          more[i] *= 1.01;
        }
      bool mayGrow = least < 2.9 && more != factor;
      if (mayGrow) {
        EXPECT_GT(makespan(*graph, more), makespan(*graph) * (1 + 1e-8));
      }
    }
  }
}

TEST(StageGraph, SaysWhatDoesNotFit) {
  std::string error;
  EXPECT_FALSE(buildStageGraph(uniform(4, 2, 6, 1, 2), error));
  EXPECT_EQ(error, "6 micro-batches do not divide by 4 interleaved stages");
  EXPECT_FALSE(buildStageGraph(uniform(4, 1, int64_t(1) << 40, 1, 2), error));
  EXPECT_EQ(error, "a step has more than 4000000 operations");
  PipelineTimes times = uniform(2, 1, 2, 1, 2);
  times.backward.pop_back();
  EXPECT_FALSE(buildStageGraph(times, error));
  EXPECT_EQ(error,
            "forward and backward must have one time per stage and chunk");
}

} // namespace
