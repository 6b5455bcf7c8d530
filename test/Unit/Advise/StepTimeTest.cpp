//===- StepTimeTest.cpp - The model of time and memory --------------------===//

#include "JobTesting.h"

#include "dt/Advise/Destinations.h"
#include "dt/Advise/StageGraph.h"

#include <cmath>

using namespace dt::advise;

namespace {

Text bigJob(const std::string &model, int64_t devices) {
  Text text = jobOf(model, devices);
  text["cluster"]["devices_per_node"] = 8;
  text["batch"] = {{"global", 256}, {"sequence", 4096}};
  return text;
}

/// Megatron-LM's num_floating_point_operations for a decoder with grouped
/// queries, restated: projections and MLP by tokens, attention by half of the
/// sequence, three passes of two operations each.
double megatronFlops(double batch, double s, double layers, double h,
                     double heads, double groups, double headDim, double ffn,
                     double topk, double vocab) {
  double q = heads * headDim, kv = groups * headDim;
  double attention = 3 * 2 * (h * (q + 2 * kv) + q * h);
  double core = 3 * 2 * q / 2 * 2;
  double mlp = 3 * 2 * 3 * h * ffn * topk;
  double logits = 3 * 2 * h * vocab;
  double tokens = batch * s;
  return layers * (tokens * (attention + mlp) + batch * s * s * core) +
         tokens * logits;
}

TEST(StepTime, CountsArithmeticAsMegatronDoes) {
  Job llama = mustRead(bigJob("llama3-70b", 8));
  double expected =
      megatronFlops(256, 4096, 80, 8192, 64, 8, 128, 28672, 1, 128256);
  EXPECT_NEAR(stepFlops(llama.model, llama.batch) / expected, 1, 1e-9);
  Job qwen = mustRead(bigJob("qwen3-235b-a22b", 8));
  expected = megatronFlops(256, 4096, 94, 4096, 64, 4, 128, 1536, 8, 151936);
  // The router's matrix is not in Megatron-LM's count.
  EXPECT_NEAR(stepFlops(qwen.model, qwen.batch) / expected, 1, 3e-3);
}

TEST(StepTime, OneDeviceIsArithmeticAndOptimizer) {
  Text text = jobOf("llama-tiny", 1);
  text["time"] = {{"efficiency", 0.5}};
  Job job = mustRead(text);
  std::string error;
  auto found = predictAsIs(job, job.today, job.batch, error);
  ASSERT_TRUE(found) << error;
  double flops = stepFlops(job.model, job.batch);
  EXPECT_NEAR(found->time.total - found->time.optimizer, flops / (312e12 * 0.5),
              1e-9);
  EXPECT_DOUBLE_EQ(found->time.bubble, 0);
}

TEST(StepTime, PipelinesHaveTheBubbleOfTheSchedule) {
  // The closed form against the longest path of the schedule itself.
  for (int64_t pp : {2, 4}) {
    Text text = jobOf("llama-tiny", pp);
    text["layout"] = {{"world", pp}, {"pp", pp}};
    text["batch"] = {{"global", 16}, {"sequence", 512}};
    Job job = mustRead(text);
    std::string error;
    auto found = predictAsIs(job, job.today, job.batch, error);
    ASSERT_TRUE(found) << error;
    PipelineTimes times;
    times.microBatches = 16;
    for (double seconds : found->time.stages) {
      times.forward.push_back({seconds / 3});
      times.backward.push_back({seconds * 2 / 3});
    }
    auto graph = buildStageGraph(times, error);
    ASSERT_TRUE(graph) << error;
    double step =
        found->time.total - found->time.optimizer - found->time.gradients;
    EXPECT_NEAR(makespan(*graph) / step, 1, 0.1);
    EXPECT_GE(step, makespan(*graph) * 0.999);
  }
}

TEST(StepTime, SlowerLinksAndDevicesTakeLonger) {
  auto step = [](auto change) {
    Text text = bigJob("llama3-8b", 16);
    text["layout"] = {{"world", 16}, {"tp", 4}, {"pp", 2}, {"dp", 2}};
    change(text);
    Job job = mustRead(text);
    std::string error;
    auto found = predictAsIs(job, job.today, job.batch, error);
    EXPECT_TRUE(found) << error;
    return found->time.total;
  };
  double base = step([](Text &) {});
  EXPECT_GT(step([](Text &t) { t["cluster"]["intra_node_GBps"] = 50; }), base);
  EXPECT_GT(step([](Text &t) { t["cluster"]["inter_node_GBps"] = 1; }), base);
  EXPECT_GT(step([](Text &t) {
              t["cluster"]["unequal"] = {{{"at", 3}, {"slowdown", 1.5}}};
            }),
            base * 1.05);
  EXPECT_GT(step([](Text &t) { t["batch"]["recompute"] = "full"; }),
            base * 1.2);
}

TEST(StepTime, MemoryHasStateGradientsAndActivations) {
  Text text = bigJob("llama3-8b", 8);
  text["layout"] = {{"world", 8}, {"tp", 8}};
  Job job = mustRead(text);
  std::string error;
  auto found = predictAsIs(job, job.today, job.batch, error);
  ASSERT_TRUE(found) << error;
  const DeviceMemory &memory = found->memory;
  EXPECT_EQ(memory.total, memory.state + memory.gradients + memory.activations);
  // 14 bytes of state and 4 of gradient per parameter, an eighth of each
  // matrix; norms are whole.
  EXPECT_NEAR(double(memory.state) / (14 * 8.03e9 / 8), 1, 0.01);
  EXPECT_NEAR(double(memory.gradients) / (4 * 8.03e9 / 8), 1, 0.01);
  Batch batch = job.batch;
  batch.recompute = Recompute::Full;
  auto less = predictAsIs(job, job.today, batch, error);
  ASSERT_TRUE(less) << error;
  EXPECT_LT(less->memory.activations, memory.activations / 4);
}

TEST(StepTime, UnevenReplicasWaitForTheFullest) {
  Text text = jobOf("llama-tiny", 7);
  text["batch"] = {{"global", 32}, {"sequence", 512}};
  Job job = mustRead(text);
  std::string error;
  auto found = predictAsIs(job, job.today, job.batch, error);
  ASSERT_TRUE(found) << error;
  int64_t sum = 0;
  for (const ReplicaShare &share : found->shares)
    sum += share.microBatches;
  EXPECT_EQ(sum, 32);
  double flops = stepFlops(job.model, job.batch) / 32 * 5;
  EXPECT_NEAR(found->time.compute + found->time.tensor, flops / (312e12 * 0.45),
              1e-9);
}

} // namespace
