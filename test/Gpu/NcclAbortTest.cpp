//===- NcclAbortTest.cpp - Ranks that fail, die or never come -------------===//
//
// Whatever a rank does, all others end soon, and say which one it was. NCCL's
// abort stays until all peers have aborted, so nobody may wait for it before
// the others have been told.
//
//===----------------------------------------------------------------------===//

#include "FakeRanks.h"

#include <gtest/gtest.h>
#include <thread>

using namespace dtrt;
using namespace dtrt::test;

namespace {

class NcclAbort : public testing::TestWithParam<NcclCalls> {};

} // namespace

INSTANTIATE_TEST_SUITE_P(Calls, NcclAbort, kBothCalls, nameOfCalls);

/// All wait: device 5, whose communicator fails, for 6, which waits for 4,
/// which waits for 5. Its abort cannot end before those of the others.
TEST_P(NcclAbort, ARankThatFailsInsideAGroupIsHeardByAll) {
  breakFakeNccl(/*rank=*/1, /*afterGroups=*/2);
  Ranks ranks(GetParam());
  auto outcomes = ranks.run([](uint32_t device, NcclTransport &transport,
                               Exchange &exchange) -> Status {
    std::map<uint32_t, std::vector<std::vector<uint32_t>>> groups = {
        {4, {{5}, {6}, {5}}}, {5, {{4, 6}}}, {6, {{4}, {4}}}};
    for (const std::vector<uint32_t> &peers : groups[device])
      DTRT_RETURN_IF_ERROR(exchange(transport, peers));
    return {};
  });
  expectEndedSoon(outcomes, /*except=*/0, "remote process exited");
  expectEndedSoon(outcomes, /*except=*/5, "rank 1 stopped: device 5: nccl");
}

TEST_P(NcclAbort, ARankThatFailsBetweenGroupsIsHeardByAll) {
  Ranks ranks(GetParam());
  auto outcomes = ranks.run([](uint32_t device, NcclTransport &transport,
                               Exchange &exchange) -> Status {
    if (device == 5)
      return makeError("out of patience");
    return exchange(transport, others(device));
  });
  expectEndedSoon(outcomes, /*except=*/5, "rank 1 stopped: out of patience");
}

TEST_P(NcclAbort, ARankThatDiesInsideAGroupIsMissed) {
  Ranks ranks(GetParam());
  std::atomic<bool> isDead{false};
  auto outcomes = ranks.run(
      [&](uint32_t device, NcclTransport &transport, Exchange &exchange) {
        std::thread killer;
        if (device == 5)
          killer = std::thread([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
            ranks.kill(5);
            isDead = true;
          });
        // Device 6 is late, so that device 5 is in the group when it dies.
        while (device == 6 && !isDead)
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        Status status = exchange(transport, others(device));
        if (status.ok() && device == 4)
          status = exchange(transport, {5});
        if (killer.joinable())
          killer.join();
        return status;
      });
  expectEndedSoon(outcomes, /*except=*/5, "(device 5) does not respond");
}

TEST_P(NcclAbort, ARankThatDiesBetweenGroupsIsMissed) {
  Ranks ranks(GetParam());
  auto outcomes = ranks.run([&](uint32_t device, NcclTransport &transport,
                                Exchange &exchange) -> Status {
    if (device != 5)
      return exchange(transport, others(device));
    ranks.kill(5);
    return makeError("dead");
  });
  expectEndedSoon(outcomes, /*except=*/5, "(device 5) does not respond");
}

/// Device 4's trainer computes and calls nothing; its communicator has to go
/// all the same, or the aborts of the others do not end.
TEST_P(NcclAbort, AnIdleRankEndsItsCommunicatorToo) {
  Ranks ranks(GetParam());
  std::atomic<int> aborts{0};
  auto outcomes =
      ranks.run([&](uint32_t device, NcclTransport &, Exchange &) -> Status {
        if (device != 4)
          return makeError("device ", device, " gives up");
        for (Stopwatch watch; watch.seconds() < 4 && fakeNcclAborts() < 3;)
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        aborts = fakeNcclAborts();
        return {};
      });
  EXPECT_GE(aborts, 3);
  for (const auto &[device, outcome] : outcomes)
    EXPECT_LT(outcome.seconds, kSoon) << "device " << device;
}

namespace {

/// Of a rank whose process dies once all have agreed to connect.
class DyingStore : public MortalStore {
public:
  using MortalStore::MortalStore;
  Result<std::optional<std::string>> get(const std::string &key) override {
    auto value = MortalStore::get(key);
    const std::string verdict = "/nccl/verdict";
    bool isVerdict = key.size() > verdict.size() &&
                     key.substr(key.size() - verdict.size()) == verdict;
    if (isVerdict && value.ok() && *value)
      dead = true;
    return value;
  }
};

} // namespace

/// All ranks have agreed, but one never makes its communicator.
TEST(NcclAbortWhileConnecting, ARankThatDiesStopsNobodyForLong) {
  auto shared = std::make_shared<MemoryStore>();
  killFakeNccl(1);
  auto outcomes = onDevices(kDevices, [&](uint32_t device) -> Status {
    std::shared_ptr<Store> store = shared;
    if (device == 5)
      store = std::make_shared<DyingStore>(shared);
    auto transport = NcclTransport::create(
        fakeOptions(device, kDevices, store, /*timeout=*/60));
    Status status = (*transport)->connect(kPlan, others(device));
    if (status.ok())
      status = Exchange(device)(**transport, others(device));
    if (!status.ok())
      (*transport)->abort(status);
    (*transport)->leave();
    return status;
  });
  expectEndedSoon(outcomes, /*except=*/5, "(device 5) does not respond");
}

namespace {

/// Of a rank whose process is stopped: no call returns meanwhile.
class StoppedStore : public MortalStore {
public:
  using MortalStore::MortalStore;
  Status set(const std::string &key, const std::string &value) override {
    wait();
    return MortalStore::set(key, value);
  }
  Result<std::optional<std::string>> get(const std::string &key) override {
    wait();
    return MortalStore::get(key);
  }
  Result<std::string> compareAndSet(const std::string &key,
                                    const std::string &expected,
                                    const std::string &desired) override {
    wait();
    return MortalStore::compareAndSet(key, expected, desired);
  }
  Result<int64_t> add(const std::string &key, int64_t amount) override {
    wait();
    return MortalStore::add(key, amount);
  }
  std::atomic<bool> stopped{false};

private:
  void wait() const {
    while (stopped)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

/// Device 5's process is stopped: it says nothing, but its connections stay
/// open, so that no abort of the others ends before its own. They do their
/// parts, and end.
Outcomes runBesideOneThatHangs(
    const std::function<Status(uint32_t, NcclTransport &, Exchange &)> &part) {
  constexpr double kLimit = 3; // as docs/GPU.md says
  auto shared = std::make_shared<MemoryStore>();
  std::atomic<int> ready{0}, ended{0};
  Outcomes outcomes = onDevices(kDevices, [&](uint32_t device) -> Status {
    auto store = std::make_shared<StoppedStore>(shared);
    auto transport = std::move(*NcclTransport::create(
        fakeOptions(device, kDevices, store, /*timeout=*/60)));
    Exchange exchange(device);
    DTRT_RETURN_IF_ERROR(transport->connect(kPlan, others(device)));
    DTRT_RETURN_IF_ERROR(exchange(*transport, others(device)));
    for (++ready; ready < int(kDevices.size());)
      std::this_thread::yield();
    Status status;
    if (device == 5) {
      store->stopped = true;
      Stopwatch watch;
      while (ended < 2 && watch.seconds() < 4 * kSoon)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      store->stopped = false; // and goes on
    } else {
      status = part(device, *transport, exchange);
    }
    Stopwatch watch;
    transport->abort(makeError("the end"));
    transport.reset();
    EXPECT_LT(watch.seconds(), kLimit + 1) << "device " << device;
    ++ended;
    return status;
  });
  // Now the aborts of the others end too.
  for (Stopwatch watch; watch.seconds() < kSoon && !fakeNcclFaults().empty();)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return outcomes;
}

void expectError(const Outcomes &outcomes, uint32_t device,
                 const std::string &text) {
  const std::string &error = outcomes.at(device).error;
  EXPECT_NE(error.find(text), std::string::npos)
      << "device " << device << ": '" << error << "', expected '" << text
      << "' in it";
}

} // namespace

TEST(NcclAbortBesideOneThatHangs, TheOthersNameItAndEnd) {
  auto outcomes = runBesideOneThatHangs(
      [](uint32_t device, NcclTransport &transport, Exchange &exchange) {
        Stopwatch watch;
        Status status = exchange(transport, others(device));
        EXPECT_LT(watch.seconds(), kSoon) << "device " << device;
        return status;
      });
  for (uint32_t device : {4u, 6u})
    expectError(outcomes, device, "(device 5) does not respond");
}

TEST(NcclAbortBesideOneThatHangs, WhoFailsDoesNotWaitForTheAbort) {
  auto outcomes = runBesideOneThatHangs(
      [](uint32_t device, NcclTransport &transport, Exchange &exchange) {
        if (device == 6)
          return exchange(transport, others(device));
        Status why = makeError("out of patience");
        Stopwatch watch;
        transport.abort(why);
        EXPECT_LT(watch.seconds(), 2) << "device " << device;
        return why;
      });
  expectError(outcomes, 6, "rank 0 stopped: out of patience");
}

/// The bytes of a transfer that fails are not at rest by chance: what is left
/// on a stream is a fault of the test.
TEST(NcclAbortOfAPlan, ATransferThatFailsLeavesNothingOnTheGpu) {
  breakFakeNccl(/*rank=*/2, /*afterGroups=*/6); // four of them the warm-up's
  FakeRun how;
  how.timeout = 20;
  Outcomes outcomes = runOnFakeNccl(wavesPlan(), how);
  for (const auto &[device, outcome] : outcomes) {
    EXPECT_NE(outcome.error.find("remote process exited"), std::string::npos)
        << "device " << device << ": " << outcome.error;
    EXPECT_LT(outcome.seconds, kSoon);
  }
  EXPECT_EQ(fakeGpuPending(), 0u);
}
