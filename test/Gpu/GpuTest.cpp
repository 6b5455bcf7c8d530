//===- GpuTest.cpp - Plans on a GPU move what they move on a CPU ----------===//

#include "GpuPlans.h"

#include "dtrt/core/BoxTable.h"
#include "dtrt/core/MemorySource.h"
#include "dtrt/cuda/GpuBoxTable.h"
#include "dtrt/cuda/GpuLoopback.h"
#include "dtrt/cuda/GpuMemory.h"
#include "dtrt/cuda/GpuPages.h"

#include <gtest/gtest.h>
#include <random>

using namespace dtrt;
using namespace dtrt::test;

namespace {

#define DTRT_NEEDS_GPU()                                                       \
  do {                                                                         \
    auto gpus = countGpus();                                                   \
    if (!gpus.ok())                                                            \
      GTEST_SKIP() << gpus.status().message();                                 \
  } while (false)

void runChecked(const TestPlan &plan) {
  auto report = runGpuLoopback(plan.reader(), /*check=*/true);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_GT(report->check.bytesChecked, 0u);
  for (const std::string &line : report->check.first)
    ADD_FAILURE() << line;
}

/// The table on the GPU, and on the CPU in a copy of the same memory.
void compare(const std::vector<std::byte> &memory, size_t from, size_t to,
             const StridedCopy &copy) {
  std::vector<std::byte> expected = memory;
  copy(expected.data() + to, expected.data() + from);
  MemorySource source = gpuMemory();
  std::unique_ptr<std::byte, std::function<void(std::byte *)>> device(
      source.allocate(memory.size()), source.free);
  ASSERT_TRUE(device);
  CopyBytes copyOnGpu = gpuCopies();
  ASSERT_TRUE(copyOnGpu(device.get(), memory.data(), memory.size()).ok());
  BoxTable table;
  table.add(device.get() + to, device.get() + from, copy);
  auto uploaded = GpuBoxTable::upload(table);
  ASSERT_TRUE(uploaded.ok()) << uploaded.status().message();
  Status ran = uploaded->run();
  ASSERT_TRUE(ran.ok()) << ran.message();
  std::vector<std::byte> found(memory.size());
  ASSERT_TRUE(copyOnGpu(found.data(), device.get(), found.size()).ok());
  EXPECT_EQ(found, expected);
}

} // namespace

TEST(Gpu, CopiesBoxesOfEveryAlignment) {
  DTRT_NEEDS_GPU();
  uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::vector<std::byte> memory(1 << 20);
  for (std::byte &byte : memory)
    byte = std::byte(random());
  for (int64_t run : {1, 2, 6, 8, 16, 48, 100, 4096})
    for (size_t offset : {0, 1, 2, 4, 8}) {
      StridedCopy copy;
      copy.run = run;
      copy.dims = {{3, 40 * run + 16, 30 * run}, {7, 3 * run, 2 * run}};
      compare(memory, offset, (1 << 19) + offset, copy);
    }
}

TEST(Gpu, ConvertsAsTheCpuDoes) {
  DTRT_NEEDS_GPU();
  std::mt19937_64 random(7);
  std::vector<std::byte> memory(1 << 20);
  for (std::byte &byte : memory)
    byte = std::byte(random());
  const DType floats[] = {DType::F64, DType::F32, DType::F16, DType::BF16};
  for (DType from : floats)
    for (DType to : floats)
      for (size_t offset : {0, 2, 5})
        compare(
            memory, offset, (1 << 19) + offset,
            makeStridedCopy({37, 5, 61}, {400, 70, 1}, {305, 61, 1}, from, to));
}

TEST(Gpu, ReshapesWithBlocksRangesAndPadding) {
  DTRT_NEEDS_GPU();
  runChecked(reshapePlan());
  runChecked(filledPlan());
}

TEST(Gpu, ForwardsWhatItReceived) {
  DTRT_NEEDS_GPU();
  runChecked(forwardingPlan());
}

TEST(Gpu, UsesSlotsInTurn) {
  DTRT_NEEDS_GPU();
  runChecked(wavesPlan());
}

TEST(Gpu, MovesStraightFromTensorToTensor) {
  DTRT_NEEDS_GPU();
  runChecked(rowsToColumnsPlan());
  runChecked(mixedPlan());
}

TEST(Gpu, RunsFlatPlansInAPoolOfPages) {
  DTRT_NEEDS_GPU();
  auto pool = GpuPages::create(0);
  if (!pool.ok())
    GTEST_SKIP() << pool.status().message();
  pool->reset();
  runChecked(reshapePlan(MemoryMode::Flat));
  TestPlan plan = wavesPlan(2400, 3400); // several pages for each tensor
  makeFlat(plan, 2 << 20);
  runChecked(plan);
}

TEST(Gpu, SaysThatThereIsNone) {
  if (countGpus().ok())
    GTEST_SKIP() << "this machine has a GPU";
  auto report = runGpuLoopback(reshapePlan().reader(), /*check=*/false);
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.status().message().find("GPU"), std::string::npos);
}
