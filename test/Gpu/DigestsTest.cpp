//===- DigestsTest.cpp - Messages compared on the GPU ---------------------===//

#include "BorrowedTransport.h"
#include "GpuPlans.h"

#include "dtrt/core/ArenaStorage.h"
#include "dtrt/core/MessageRegions.h"
#include "dtrt/cuda/GpuDigests.h"
#include "dtrt/cuda/GpuExecutor.h"
#include "dtrt/cuda/GpuLoopback.h"
#include "dtrt/cuda/GpuLoopbackWorld.h"
#include "dtrt/cuda/GpuMemory.h"

#include "RegionHash.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <thread>

using namespace dtrt;
using namespace dtrt::test;

namespace {

/// An end of a world of threads that changes one byte of one message on its
/// way.
class Breaker : public BorrowedAs<StreamTransport> {
public:
  using BorrowedAs::BorrowedAs;
  Result<std::byte *> prepare(const Traffic &traffic) override {
    return inner.prepare(traffic);
  }
  void start(std::function<Status()> enqueueAll) override {
    inner.start(std::move(enqueueAll));
  }
  Status enqueue(size_t group, const std::vector<TransportMessage> &messages,
                 GpuStream stream) override {
    DTRT_RETURN_IF_ERROR(inner.enqueue(group, messages, stream));
    for (const TransportMessage &message : messages)
      if (group == breaks && message.receive && message.bytes > 7) {
        cudaMemsetAsync(message.data + 7, 0x5a, 1, stream);
        break;
      }
    return {};
  }
  bool stopped() const override { return inner.stopped(); }
  Status await(size_t group, const std::function<bool()> &reached) override {
    return inner.await(group, reached);
  }
  Status finish() override { return inner.finish(); }
  void leakMemory() override { inner.leakMemory(); }

  size_t breaks = SIZE_MAX;
};

/// Runs every device of the plan with digests; the errors, by device.
std::map<uint32_t, std::string> run(const TestPlan &test, size_t breaks) {
  PlanReader plan = test.reader();
  GpuLoopbackWorld world(plan.devices());
  std::map<uint32_t, std::string> errors;
  for (uint32_t device : plan.devices())
    errors[device] = "";
  auto runOne = [&](uint32_t device) -> Status {
    auto broken = std::make_unique<Breaker>(world.endpoint(device));
    broken->breaks = device == plan.devices()[1] ? breaks : SIZE_MAX;
    auto transport = makeGpuDigestTransport(std::move(broken));
    auto program = plan.program(device);
    auto storage = ArenaStorage::allocate(plan.common(), *program, gpuMemory());
    DTRT_RETURN_IF_ERROR(fillGpuShards(**storage));
    DTRT_RETURN_IF_ERROR(transport->connect(plan.digest(), {}));
    auto executor = GpuExecutor::prepare(**storage, *transport, {&plan});
    DTRT_RETURN_IF_ERROR(executor);
    DTRT_RETURN_IF_ERROR((*executor)->run());
    CheckReport report;
    DTRT_RETURN_IF_ERROR(checkGpuShards(**storage, report));
    return report.mismatches == 0 ? Status() : makeError("wrong bytes");
  };
  std::vector<std::thread> threads;
  for (uint32_t device : plan.devices())
    threads.emplace_back([&, device] {
      errors[device] = runOne(device).message();
      world.endpoint(device).leave();
    });
  for (std::thread &thread : threads)
    thread.join();
  return errors;
}

RegionHash hashOf(const std::byte *data, uint64_t bytes, uint32_t threads) {
  RegionHash sum;
  HashRow row = {data, bytes, 0, &sum};
  for (uint64_t tile = 0; tile < hashTilesOf(bytes); ++tile)
    for (uint32_t thread = 0; thread < threads; ++thread) {
      RegionHash share = hashShare(row, tile, thread, threads);
      sum.low += share.low;
      sum.high += share.high;
    }
  return sum;
}

} // namespace

TEST(GpuDigests, WhatArrivesWholePasses) {
  for (const TestPlan &plan :
       {permutedPlan(), reshapePlan(), forwardingPlan(), wavesPlan(),
        rowsToColumnsPlan(), mixedPlan(), relayPlan()})
    for (const auto &[device, error] : run(plan, SIZE_MAX))
      EXPECT_EQ(error, "") << "device " << device;
}

/// Groups of hashes stand between those of messages.
TEST(GpuDigests, ABrokenByteIsNamedByTensorStateAndDevice) {
  for (size_t wave = 0; wave < 4; ++wave) {
    auto errors = run(wavesPlan(), 2 * wave);
    for (const auto &[device, error] : errors) {
      if (device != 1) {
        EXPECT_EQ(error, "") << "device " << device;
        continue;
      }
      EXPECT_NE(error.find("tensor 'w', state "), std::string::npos) << error;
      EXPECT_NE(error.find("of the message from device "), std::string::npos)
          << error;
    }
  }
}

TEST(GpuDigests, ABrokenHashIsNoticedToo) {
  EXPECT_NE(run(wavesPlan(), 1)[1], "");
}

TEST(GpuDigests, HashesDependOnEveryByteAndItsPlace) {
  std::mt19937_64 random(3);
  std::vector<std::byte> data(70000);
  for (std::byte &byte : data)
    byte = std::byte(random());
  for (uint64_t bytes : {1, 7, 8, 9, 4096, 32768, 32769, 69000}) {
    RegionHash whole = hashOf(data.data() + 1, bytes, 256);
    EXPECT_EQ(whole, hashOf(data.data() + 1, bytes, 3));
    for (int i = 0; i < 40; ++i) {
      std::byte &byte = data[1 + random() % bytes];
      byte ^= std::byte(1 << random() % 8);
      EXPECT_FALSE(whole == hashOf(data.data() + 1, bytes, 256));
      whole = hashOf(data.data() + 1, bytes, 256);
    }
    if (bytes < 16)
      continue;
    std::swap_ranges(data.begin() + 1, data.begin() + 9, data.begin() + 9);
    EXPECT_FALSE(whole == hashOf(data.data() + 1, bytes, 256));
  }
}

/// Wherever they lie: the two ends of a message are aligned as they are.
TEST(GpuDigests, HashesDependOnNothingElse) {
  std::mt19937_64 random(4);
  std::vector<std::byte> data(5000), other(5016);
  for (std::byte &byte : data)
    byte = std::byte(random());
  for (size_t offset = 0; offset < 16; ++offset) {
    std::copy(data.begin(), data.end(), other.begin() + long(offset));
    EXPECT_EQ(hashOf(data.data(), data.size(), 256),
              hashOf(other.data() + offset, data.size(), 64));
  }
}
