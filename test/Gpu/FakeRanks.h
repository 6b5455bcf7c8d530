//===- FakeRanks.h - Three ranks over the fake NCCL -------------*- C++ -*-===//

#ifndef DTRT_TEST_FAKERANKS_H
#define DTRT_TEST_FAKERANKS_H

#include "FakeWorld.h"
#include "Stopwatch.h"
#include "dtrt/core/MemorySource.h"
#include "dtrt/cuda/GpuMemory.h"
#include "dtrt/store/MemoryStore.h"

#include <gtest/gtest.h>
#include <thread>

namespace dtrt::test {

inline const std::vector<uint32_t> kDevices = {4, 5, 6};
inline const Digest kPlan = {1, 2};
/// Until all others have ended.
constexpr double kSoon = 5;

inline std::vector<uint32_t> others(uint32_t self) {
  std::vector<uint32_t> found;
  for (uint32_t device : kDevices)
    if (device != self)
      found.push_back(device);
  return found;
}

/// A GPU's memory for one message each way with every peer.
class Exchange {
public:
  explicit Exchange(uint32_t self) : self(self) {
    block = memory.allocate(kBytes * 2 * kDevices.size());
  }
  ~Exchange() { memory.free(block); }

  Status operator()(Transport &transport, const std::vector<uint32_t> &peers) {
    std::vector<TransportMessage> messages;
    std::byte *at = block;
    for (uint32_t peer : peers) {
      messages.push_back({false, peer, at, kBytes});
      messages.push_back({true, peer, at + kBytes, kBytes});
      at += 2 * kBytes;
    }
    return transport.group(messages);
  }

private:
  static constexpr uint64_t kBytes = 10000;
  uint32_t self;
  MemorySource memory = gpuMemory();
  std::byte *block = nullptr;
};

/// Three ranks that have connected and run a group; then each does its part of
/// what is tested.
class Ranks {
public:
  using Part = std::function<Status(NcclTransport &, Exchange &)>;

  explicit Ranks(NcclCalls calls = NcclCalls::Blocking) : calls(calls) {
    for (uint32_t device : kDevices)
      stores[device] = std::make_shared<MortalStore>(shared);
  }

  /// Seconds count from when all are ready: how long connecting takes is no
  /// part of it.
  Outcomes run(const std::function<Status(uint32_t, NcclTransport &,
                                          Exchange &)> &part) {
    std::atomic<size_t> ready{0};
    std::map<uint32_t, double> seconds;
    for (uint32_t device : kDevices)
      seconds[device] = 0;
    Outcomes outcomes = onDevices(kDevices, [&](uint32_t device) -> Status {
      NcclOptions options =
          fakeOptions(device, kDevices, stores[device], /*timeout=*/60);
      options.calls = calls;
      options.api = api;
      auto made = NcclTransport::create(options);
      NcclTransport &transport = **made;
      Exchange exchange(device);
      Status status = transport.connect(kPlan, others(device));
      if (status.ok())
        status = exchange(transport, others(device));
      EXPECT_TRUE(status.ok()) << status.message();
      for (++ready; ready < kDevices.size();)
        std::this_thread::yield();
      Stopwatch sinceReady;
      status = part(device, transport, exchange);
      if (!status.ok() && !stores[device]->dead)
        transport.abort(status);
      transport.leave();
      seconds.at(device) = sinceReady.seconds();
      return status;
    });
    for (auto &[device, outcome] : outcomes)
      outcome.seconds = seconds.at(device);
    return outcomes;
  }

  /// As kill -9 does.
  void kill(uint32_t device) {
    stores[device]->dead = true;
    killFakeNccl(int(device - kDevices.front()));
  }

  const NcclApi *api = &fakeNccl();

private:
  NcclCalls calls;
  std::shared_ptr<Store> shared = std::make_shared<MemoryStore>();
  std::map<uint32_t, std::shared_ptr<MortalStore>> stores;
};

inline void expectEndedSoon(const Outcomes &outcomes, uint32_t except,
                            const std::string &name) {
  for (const auto &[device, outcome] : outcomes) {
    if (device == except)
      continue;
    EXPECT_NE(outcome.error.find(name), std::string::npos)
        << "device " << device << ": '" << outcome.error << "', expected '"
        << name << "' in it";
    EXPECT_LT(outcome.seconds, kSoon) << "device " << device;
  }
}

/// Both ways of NCCL's calls, for a suite with that parameter.
inline const auto kBothCalls =
    testing::Values(NcclCalls::Blocking, NcclCalls::Returning);
inline std::string nameOfCalls(const testing::TestParamInfo<NcclCalls> &info) {
  return info.param == NcclCalls::Blocking ? "blocking" : "returning";
}

} // namespace dtrt::test

#endif // DTRT_TEST_FAKERANKS_H
