//===- NcclCollectivesTest.cpp - A library's collectives over NCCL --------===//
//
// Whole plans with them are in NcclTest.cpp and NcclWaysTest.cpp, all kinds in
// the contract of all transports. Here: how their communicators are made, what
// older libraries do, and ranks that fail, die or never come.
//
//===----------------------------------------------------------------------===//

#include "FakeRanks.h"

#include "dtrt/types/Collective.h"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>

using namespace dtrt;
using namespace dtrt::test;

namespace {

using Sets = std::vector<std::vector<uint32_t>>;
const Sets kAll = {kDevices};
/// Devices 4 and 5 are in both, so that these are two splits.
const Sets kTwo = {kDevices, {4, 5}};

/// A GPU's blocks for one collective of all devices.
class Blocks {
public:
  Blocks() { block = memory.allocate(2 * kDevices.size() * kBytes); }
  ~Blocks() { memory.free(block); }

  Status operator()(Transport &transport, CollectiveKind kind,
                    uint32_t set = 0) {
    CollectiveCall call;
    call.kind = kind;
    call.members = set;
    call.root = 5;
    call.blockBytes = kBytes;
    call.give = block;
    call.get = block + kDevices.size() * kBytes;
    return transport.collective(call);
  }

private:
  static constexpr uint64_t kBytes = 10000;
  MemorySource memory = gpuMemory();
  std::byte *block = nullptr;
};

std::atomic<int> splits{0};
/// Before a split of this rank's, with its number; empty: nothing.
std::function<void(int rank, int number)> beforeSplit;

ncclResult_t countedSplit(ncclComm_t parent, int color, int rank,
                          ncclComm_t *made, ncclConfig_t *config) {
  thread_local int number = 0;
  ++splits;
  if (beforeSplit)
    beforeSplit(rank, number++);
  return fakeNccl().CommSplit(parent, color, rank, made, config);
}

/// The stand-in, whose splits are counted; older ones have no ncclAlltoAll.
const NcclApi &countingApi() {
  static const NcclApi api = [] {
    NcclApi api = fakeNccl();
    api.CommSplit = countedSplit;
    return api;
  }();
  return api;
}
const NcclApi &olderApi() {
  static const NcclApi api = [] {
    NcclApi api = fakeNccl();
    api.AlltoAll = nullptr;
    return api;
  }();
  return api;
}

class NcclCollectivesAbort : public testing::TestWithParam<NcclCalls> {
protected:
  ~NcclCollectivesAbort() override { beforeSplit = nullptr; }
};

} // namespace

INSTANTIATE_TEST_SUITE_P(Calls, NcclCollectivesAbort, kBothCalls, nameOfCalls);

TEST(NcclCollectives, OlderLibrariesExchangeMessages) {
  FakeRun how;
  how.api = &olderApi();
  for (bool digests : {false, true}) {
    how.digests = digests;
    expectAllWell(runOnFakeNccl(collectivePlan(), how));
  }
}

/// One split for all sets that share no device, beside that of the transport's
/// own communicator.
TEST(NcclCollectives, SetsWithoutACommonDeviceAreSplitOffTogether) {
  for (const auto &[sets, expected] :
       std::vector<std::pair<Sets, int>>{{{{4, 5}}, 1},
                                         {{{4, 5}, {6, 7}}, 1},
                                         {{{4, 5}, {5, 6}, {6, 7}}, 2}}) {
    splits = 0;
    const std::vector<uint32_t> devices = {4, 5, 6, 7};
    auto store = std::make_shared<MemoryStore>();
    const Sets &own = sets;
    expectAllWell(onDevices(devices, [&](uint32_t device) -> Status {
      NcclOptions options = fakeOptions(device, devices, store, 60);
      options.api = &countingApi();
      auto transport = std::move(*NcclTransport::create(options));
      DTRT_RETURN_IF_ERROR(transport->connect({1, 2}, {}));
      DTRT_RETURN_IF_ERROR(transport->prepareCollectives(own));
      transport->leave();
      return {};
    }));
    EXPECT_EQ(splits, int(devices.size()) * (1 + expected));
  }
}

TEST_P(NcclCollectivesAbort, ARankThatFailsInsideOneIsHeardByAll) {
  Ranks ranks(GetParam());
  auto outcomes = ranks.run(
      [](uint32_t device, NcclTransport &transport, Exchange &) -> Status {
        Blocks blocks;
        DTRT_RETURN_IF_ERROR(transport.prepareCollectives(kAll));
        DTRT_RETURN_IF_ERROR(blocks(transport, CollectiveKind::AllGather));
        if (device == 5)
          breakFakeNccl(/*rank=*/1, /*afterGroups=*/0);
        return blocks(transport, CollectiveKind::AllToAll);
      });
  expectEndedSoon(outcomes, /*except=*/0, "remote process exited");
  expectEndedSoon(outcomes, /*except=*/5, "rank 1 stopped: device 5: nccl");
}

TEST_P(NcclCollectivesAbort, AnAbortEndsThoseOfAllRanks) {
  Ranks ranks(GetParam());
  auto outcomes = ranks.run(
      [](uint32_t device, NcclTransport &transport, Exchange &) -> Status {
        Blocks blocks;
        DTRT_RETURN_IF_ERROR(transport.prepareCollectives(kTwo));
        DTRT_RETURN_IF_ERROR(blocks(transport, CollectiveKind::Broadcast));
        if (device == 5)
          return makeError("out of patience");
        // Device 6 waits for both others, device 4 for device 5 in the other
        // set.
        return blocks(transport, CollectiveKind::AllGather, device == 4);
      });
  expectEndedSoon(outcomes, /*except=*/5, "rank 1 stopped: out of patience");
}

TEST_P(NcclCollectivesAbort, ARankThatDiesInsideOneIsMissed) {
  Ranks ranks(GetParam());
  auto outcomes = ranks.run(
      [&](uint32_t device, NcclTransport &transport, Exchange &) -> Status {
        Blocks blocks;
        DTRT_RETURN_IF_ERROR(transport.prepareCollectives(kAll));
        DTRT_RETURN_IF_ERROR(blocks(transport, CollectiveKind::AllGather));
        std::thread killer;
        if (device == 5)
          killer = std::thread([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            ranks.kill(5);
          });
        // Device 6 is late, so that device 5 is in it when it dies.
        if (device == 6)
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
        Status status = blocks(transport, CollectiveKind::AllGather);
        if (killer.joinable())
          killer.join();
        return status;
      });
  expectEndedSoon(outcomes, /*except=*/5, "(device 5) does not respond");
}

/// The others wait in the second split, which all ranks take part in, and have
/// a communicator of the first one.
TEST_P(NcclCollectivesAbort, ARankThatDiesBetweenTwoSplitsIsMissed) {
  Ranks ranks(GetParam());
  ranks.api = &countingApi();
  // A communicator that blocks has been split off before.
  int last = GetParam() == NcclCalls::Blocking ? 2 : 1;
  beforeSplit = [&](int rank, int number) {
    if (rank == 1 && number == last)
      ranks.kill(5);
  };
  auto outcomes = ranks.run([](uint32_t, NcclTransport &transport, Exchange &) {
    return transport.prepareCollectives(kTwo);
  });
  expectEndedSoon(outcomes, /*except=*/5, "(device 5) does not respond");
}

TEST_P(NcclCollectivesAbort, ASplitThatARankNeverMakesIsGivenUp) {
  Ranks ranks(GetParam());
  auto outcomes = ranks.run(
      [](uint32_t device, NcclTransport &transport, Exchange &) -> Status {
        if (device != 5)
          return transport.prepareCollectives(kTwo);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        return makeError("out of patience");
      });
  expectEndedSoon(outcomes, /*except=*/5, "rank 1 stopped: out of patience");
}

/// The others are done with their splits, and idle.
TEST_P(NcclCollectivesAbort, AnIdleRankEndsItsCommunicatorsToo) {
  Ranks ranks(GetParam());
  // Every rank has one that it was split off in all worlds that block.
  int own = GetParam() == NcclCalls::Blocking ? 2 : 1;
  std::atomic<int> aborts{0};
  auto outcomes = ranks.run(
      [&](uint32_t device, NcclTransport &transport, Exchange &) -> Status {
        Blocks blocks;
        DTRT_RETURN_IF_ERROR(transport.prepareCollectives(kTwo));
        DTRT_RETURN_IF_ERROR(blocks(transport, CollectiveKind::AllGather));
        if (device != 4)
          return makeError("device ", device, " gives up");
        for (Stopwatch watch; watch.seconds() < 4 && aborts < 3 * own + 5;) {
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
          aborts = fakeNcclAborts();
        }
        return {};
      });
  EXPECT_GE(aborts, 3 * own + 5);
  for (const auto &[device, outcome] : outcomes)
    EXPECT_LT(outcome.seconds, kSoon) << "device " << device;
}
