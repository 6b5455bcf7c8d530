//===- FakeGpuTest.cpp - The fake GPUs notice what they should ------------===//

#include "FakeGpu.h"

#include <algorithm>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <thread>

using namespace dtrt::test;

namespace {

/// Whether a fault says this; then the machine is new again.
void expectFault(const std::string &text) {
  std::vector<std::string> faults = fakeGpuFaults();
  EXPECT_TRUE(std::any_of(faults.begin(), faults.end(),
                          [&](const std::string &fault) {
                            return fault.find(text) != std::string::npos;
                          }))
      << "no fault says '" << text << "'";
  clearFakeGpuFaults();
  resetFakeGpus();
}

cudaStream_t makeStream() {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
            cudaSuccess);
  return stream;
}

cudaEvent_t makeEvent() {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
            cudaSuccess);
  return event;
}

/// Two streams write the same byte, the second one after the first where an
/// event says so. Whether the first one's value stays.
bool firstStays(uint64_t seed, bool ordered) {
  FakeGpuOptions options;
  options.seed = seed;
  resetFakeGpus(options);
  cudaStream_t first = makeStream(), second = makeStream();
  cudaEvent_t event = makeEvent();
  void *byte = nullptr;
  cudaHostAlloc(&byte, 1, 0);
  cudaMemsetAsync(byte, 1, 1, first);
  cudaEventRecord(event, first);
  if (ordered)
    cudaStreamWaitEvent(second, event, 0);
  cudaMemsetAsync(byte, 2, 1, second);
  cudaStreamSynchronize(second);
  cudaStreamSynchronize(first);
  bool stays = *static_cast<char *>(byte) == 1;
  resetFakeGpus();
  return stays;
}

} // namespace

TEST(FakeGpu, OrdersWhatEventsOrderAndNothingElse) {
  for (uint64_t seed = 1; seed <= 60; ++seed)
    EXPECT_FALSE(firstStays(seed, /*ordered=*/true)) << seed;
  // Both come, however many seeds that takes: the GPU is a thread, too.
  constexpr uint64_t kSeeds = 100000;
  for (bool wanted : {false, true}) {
    uint64_t seed = 1;
    while (seed <= kSeeds && firstStays(seed, /*ordered=*/false) != wanted)
      ++seed;
    EXPECT_LE(seed, kSeeds) << wanted;
  }
}

TEST(FakeGpu, NoticesTheLegacyStreamAndWaitsForAWholeGpu) {
  void *data = nullptr;
  cudaMalloc(&data, 16);
  cudaMemset(data, 0, 16);
  expectFault("cudaMemset on the legacy stream");
  cudaStreamSynchronize(nullptr);
  expectFault("on the legacy stream");
  cudaStreamSynchronize(cudaStreamPerThread);
  expectFault("on the legacy stream");
  cudaDeviceSynchronize();
  expectFault("cudaDeviceSynchronize");
}

TEST(FakeGpu, NoticesMemoryThatIsGoneOrSomewhereElse) {
  FakeGpuOptions two;
  two.gpus = 2;
  resetFakeGpus(two);
  void *data = nullptr;
  cudaMalloc(&data, 16);
  cudaSetDevice(1);
  cudaStream_t stream = makeStream();
  cudaMemsetAsync(data, 0, 16, stream);
  cudaStreamSynchronize(stream);
  expectFault("GPU 1 touches memory of GPU 0");
  cudaMalloc(&data, 16);
  stream = makeStream();
  pauseFakeGpus(true);
  cudaMemsetAsync(data, 0, 16, stream);
  cudaFree(data);
  pauseFakeGpus(false);
  cudaStreamSynchronize(stream);
  expectFault("touches memory that was freed");
  cudaMalloc(&data, 16);
  stream = makeStream();
  cudaMemsetAsync(data, 0, 17, stream);
  cudaStreamSynchronize(stream);
  expectFault("behind the end");
}

TEST(FakeGpu, NoticesWhatIsLeft) {
  makeStream();
  expectFault("1 streams left");
  pauseFakeGpus(true);
  cudaStream_t stream = makeStream();
  cudaEvent_t event = makeEvent();
  cudaEventRecord(event, stream);
  cudaStreamDestroy(stream);
  expectFault("destroyed with work on it");
  cudaStreamWaitEvent(makeStream(), makeEvent(), 0);
  expectFault("an event that nobody has recorded");
}

TEST(FakeGpu, CallsSpoilACaptureUnlessTheirThreadIsRelaxed) {
  for (bool relaxed : {false, true}) {
    cudaStream_t stream = makeStream();
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    std::thread([relaxed] {
      auto mode = cudaStreamCaptureModeRelaxed;
      if (relaxed)
        cudaThreadExchangeStreamCaptureMode(&mode);
      void *data = nullptr;
      cudaError_t error = cudaMalloc(&data, 16);
      EXPECT_EQ(error == cudaSuccess, relaxed);
      if (data)
        cudaFree(data);
    }).join();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph) == cudaSuccess, relaxed);
    if (!relaxed)
      expectFault("cudaMalloc spoils a capture");
    resetFakeGpus();
  }
}

TEST(FakeGpu, RunsAGraphInTheOrderOfItsEvents) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    FakeGpuOptions options;
    options.seed = seed;
    resetFakeGpus(options);
    cudaStream_t first = makeStream(), second = makeStream();
    cudaEvent_t forked = makeEvent(), joined = makeEvent();
    void *bytes = nullptr;
    cudaHostAlloc(&bytes, 2, 0);
    auto *values = static_cast<char *>(bytes);
    values[0] = values[1] = 0;
    cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed);
    cudaMemsetAsync(values, 7, 1, first);
    cudaEventRecord(forked, first);
    cudaStreamWaitEvent(second, forked, 0);
    cudaMemcpyAsync(values + 1, values, 1, cudaMemcpyDefault, second);
    cudaEventRecord(joined, second);
    cudaStreamWaitEvent(first, joined, 0);
    cudaMemsetAsync(values, 9, 1, first);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t run = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(first, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&run, graph, 0), cudaSuccess);
    EXPECT_EQ(values[1], 0); // nothing has run
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(cudaGraphLaunch(run, first), cudaSuccess);
      cudaStreamSynchronize(first);
      EXPECT_EQ(values[0], 9);
      EXPECT_EQ(values[1], 7);
    }
  }
  resetFakeGpus();
}

TEST(FakeGpu, NoticesAStreamThatLeavesACaptureOpen) {
  cudaStream_t first = makeStream(), second = makeStream();
  cudaEvent_t forked = makeEvent();
  cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed);
  cudaEventRecord(forked, first);
  cudaStreamWaitEvent(second, forked, 0);
  char byte = 0;
  cudaMemcpyAsync(&byte, &byte, 1, cudaMemcpyDefault, second);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(first, &graph),
            cudaErrorStreamCaptureUnjoined);
  expectFault("before all of its streams have joined");
}
