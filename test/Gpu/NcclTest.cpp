//===- NcclTest.cpp - The NCCL transport ----------------------------------===//
//
// On stand-ins for CUDA's runtime and NCCL; what a machine with GPUs does is in
// test/Python/test_conformance.py and bench/gpu.
//
//===----------------------------------------------------------------------===//

#include "ExpectContains.h"
#include "FakeWorld.h"
#include "StreamEnd.h"

#include "dtrt/core/ArenaStorage.h"
#include "dtrt/core/MemorySource.h"
#include "dtrt/cuda/GpuExecutor.h"
#include "dtrt/cuda/GpuMemory.h"
#include "dtrt/nccl/NcclRun.h"
#include "dtrt/store/MemoryStore.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <thread>

using namespace dtrt;
using namespace dtrt::test;

namespace {

std::unique_ptr<NcclTransport> makeEnd(uint32_t device,
                                       const std::vector<uint32_t> &devices,
                                       std::shared_ptr<Store> store,
                                       double timeout) {
  auto transport = NcclTransport::create(
      fakeOptions(device, devices, std::move(store), timeout));
  EXPECT_TRUE(transport.ok()) << transport.status().message();
  return std::move(*transport);
}

} // namespace

TEST(Nccl, NamesTheRankThatDoesNotCome) {
  auto end = makeEnd(3, {3, 8}, std::make_shared<MemoryStore>(), 0.1);
  Status status = end->connect({1, 2}, {8});
  ASSERT_FALSE(status.ok());
  expectContains(status.message(),
                 "device 3: nccl connect: timeout of 0.1 s waiting for rank 1");
}

TEST(Nccl, RefusesAnotherPlan) {
  auto store = std::make_shared<MemoryStore>();
  auto end = makeEnd(3, {3, 8}, store, 60),
       other = makeEnd(8, {3, 8}, store, 60);
  Status status, otherStatus;
  std::thread thread([&] { otherStatus = other->connect({5, 6}, {3}); });
  status = end->connect({1, 2}, {8});
  thread.join();
  for (const Status &one : {status, otherStatus}) {
    expectContains(one.message(), "the ranks do not have the same plan: ");
    expectContains(one.message(), "rank 0 has " + digestText({1, 2}));
    expectContains(one.message(), "rank 1 has " + digestText({5, 6}));
  }
}

TEST(Nccl, RefusesADeviceOutsideTheWorld) {
  auto transport = NcclTransport::create(
      fakeOptions(1, {0, 2}, std::make_shared<MemoryStore>(), 1));
  ASSERT_FALSE(transport.ok());
  expectContains(transport.status().message(), "not in this world");
}

TEST(Nccl, ConnectsAWorldOfOne) {
  auto end = makeEnd(0, {0}, std::make_shared<MemoryStore>(), 30);
  Status status = end->connect({1, 2}, {});
  EXPECT_TRUE(status.ok()) << status.message();
  end->leave();
}

TEST(Nccl, ALibraryThatIsMissingIsAnErrorOfAllRanks) {
  auto store = std::make_shared<MemoryStore>();
  auto end = makeEnd(0, {0, 9}, store, 60);
  // Device 9, as it does where there is no library.
  std::thread without([&] {
    auto ranks = fakeOptions(9, {0, 9}, store, 60).ranks;
    auto verdict = [](const auto &) { return std::string(); };
    Arrival arrival{"run", 1, "", {{"plan", digestText({1, 2})}}};
    EXPECT_TRUE(ranks->gather(arrival, "", verdict).ok());
    (void)ranks->agree(Step::Nccl, "cannot load NCCL: no file", verdict);
  });
  Status status = end->connect({1, 2}, {9});
  end->abort(status);
  without.join();
  ASSERT_FALSE(status.ok());
  expectContains(status.message(), "device 9: cannot load NCCL: no file");
}

//===----------------------------------------------------------------------===//
// The contract of all transports
//===----------------------------------------------------------------------===//

namespace {

/// Every end is made by a thread that uses another GPU; the threads of its
/// calls use GPU 0. One-sided ends write each message into its receiver's
/// arena.
class ContractWorld : public TransportWorld {
public:
  ContractWorld(const std::vector<uint32_t> &devices, double timeout,
                NcclCalls calls, bool oneSided)
      : oneSided(oneSided) {
    FakeGpuOptions gpus;
    gpus.gpus = int(devices.size());
    gpus.hostMemory = true; // messages lie in vectors
    resetFakeGpus(gpus);
    auto store = std::make_shared<MemoryStore>();
    for (size_t i = 0; i < devices.size(); ++i) {
      EXPECT_TRUE(useGpu(int(i)).ok());
      NcclOptions options = fakeOptions(devices[i], devices, store, timeout);
      options.calls = calls;
      options.oneSided = oneSided;
      ends[devices[i]] = std::move(*NcclTransport::create(options));
      if (oneSided)
        waves[devices[i]] = makeStreamEnd(*ends[devices[i]], devices, int(i));
    }
  }
  ~ContractWorld() override {
    waves.clear();
    ends.clear();
    if (oneSided) // a wait that has failed stays on its stream for good
      resetFakeGpus();
  }
  Transport &endpoint(uint32_t device) override {
    if (oneSided)
      return *waves.at(device);
    return *ends.at(device);
  }

private:
  const bool oneSided;
  std::map<uint32_t, std::unique_ptr<NcclTransport>> ends;
  std::map<uint32_t, std::unique_ptr<Transport>> waves;
};

TransportCase contractCase(const char *name, NcclCalls calls,
                           bool oneSided = false) {
  auto make = [=](const std::vector<uint32_t> &devices,
                  double timeout) -> std::unique_ptr<TransportWorld> {
    return std::make_unique<ContractWorld>(devices, timeout, calls, oneSided);
  };
  return {name, make};
}

} // namespace

INSTANTIATE_TEST_SUITE_P(
    Nccl, TransportContract,
    testing::Values(contractCase("blocking", NcclCalls::Blocking),
                    contractCase("returning", NcclCalls::Returning),
                    contractCase("oneSided", NcclCalls::Blocking, true)),
    caseName);

//===----------------------------------------------------------------------===//
// Whole plans
//===----------------------------------------------------------------------===//

namespace {

void expectPlansRun(const FakeRun &how) {
  for (const TestPlan &plan :
       {permutedPlan(), reshapePlan(), forwardingPlan(), wavesPlan(),
        rowsToColumnsPlan(), mixedPlan(), relayPlan(), collectivePlan()})
    expectAllWell(runOnFakeNccl(plan, how));
}

} // namespace

TEST(NcclPlans, EveryByteArrivesInAnyOrderThatEventsAllow) {
  for (int round = 0; round < 6; ++round)
    expectPlansRun({});
}

TEST(NcclPlans, EveryByteArrivesWhereCallsReturnAtOnce) {
  FakeRun how;
  how.calls = NcclCalls::Returning;
  expectPlansRun(how);
}

//===----------------------------------------------------------------------===//
// Registration
//===----------------------------------------------------------------------===//

/// Each rank sends out of staging into the other's tensor. Were the arenas
/// registered, both messages would be, at one end, and never arrive. Device 0
/// of the last plan cannot know by its own messages.
TEST(NcclPlans, NoMessageIsRegisteredAtOneEndOnly) {
  expectAllWell(runOnFakeNccl(rowsToColumnsPlan()));
  expectAllWell(runOnFakeNccl(mixedPlan()));
  expectAllWell(runOnFakeNccl(columnsFromOnePlan()));
}

TEST(NcclPlans, ArenasAreRegisteredWhereAllMessagesLieInThem) {
  FakeNcclOptions all;
  all.simpleBytes = 0;
  resetFakeNccl(all);
  expectAllWell(runOnFakeNccl(wavesPlan()));
  EXPECT_EQ(fakeNcclRegistrations(), 5);
  resetFakeNccl(all);
  expectAllWell(runOnFakeNccl(mixedPlan()));
  EXPECT_EQ(fakeNcclRegistrations(), 0);
}

//===----------------------------------------------------------------------===//
// First uses
//===----------------------------------------------------------------------===//

TEST(NcclPlans, TheWarmUpLeavesNothingToConnectOrToRegister) {
  FakeNcclOptions small;
  small.simpleBytes = 500; // the waves' messages are larger
  for (const TestPlan &plan : {wavesPlan(), mixedPlan()}) {
    resetFakeNccl(small);
    FakeRun how;
    how.beforeRun = onceAllAreHere(plan.programs.size(), forbidFakeConnecting);
    expectAllWell(runOnFakeNccl(plan, how));
  }
}

namespace {

/// Groups that were put on this GPU's streams.
size_t groupsOn(int gpu) {
  size_t count = 0;
  for (const FakeLaunch &launch : fakeGpuLaunches())
    count += launch.gpu == gpu && launch.what == "group";
  return count;
}

} // namespace

/// A trainer's communicator is at work on a GPU while the switch prepares,
/// as collectives of a step are. Only between steps may ours have groups.
TEST(NcclPlans, PreparingRunsNoGroupBesideATrainers) {
  PlanReader plan = rowsToColumnsPlan().reader();
  auto store = std::make_shared<MemoryStore>();
  std::atomic<int> atWork{0}, prepared{0};
  auto outcomes = onDevices({0, 1}, [&](uint32_t device) -> Status {
    NcclOptions trainers = fakeOptions(device, {0, 1}, store, 30, "trainer");
    auto trainer = std::move(*NcclTransport::create(trainers));
    DTRT_RETURN_IF_ERROR(trainer->connect({1, 2}, {1 - device}));
    MemorySource memory = gpuMemory();
    std::byte *block = memory.allocate(100);
    TransportMessage message{device == 1, 1 - device, block, 100};
    DTRT_RETURN_IF_ERROR(trainer->group({message})); // connects
    // Rank 0's collective waits on its GPU for rank 1's, which comes in the
    // end.
    std::thread step;
    if (device == 0) {
      step = std::thread([&] { EXPECT_TRUE(trainer->group({message}).ok()); });
      while (groupsOn(0) < 2)
        std::this_thread::yield();
    }
    for (++atWork; atWork < 2;)
      std::this_thread::yield();
    auto program = plan.program(device);
    auto storage = ArenaStorage::allocate(plan.common(), *program, gpuMemory());
    auto transport = std::move(
        *NcclTransport::create(fakeOptions(device, {0, 1}, store, 30)));
    Status status = transport->connect(plan.digest(), {1 - device});
    auto executor = GpuExecutor::prepare(**storage, *transport, {&plan});
    ++prepared;
    while (prepared < 2)
      std::this_thread::yield();
    if (device == 1) {
      EXPECT_TRUE(trainer->group({message}).ok());
    }
    if (step.joinable())
      step.join();
    // The step is over on all ranks.
    for (++prepared; prepared < 4;)
      std::this_thread::yield();
    DTRT_RETURN_IF_ERROR(status);
    DTRT_RETURN_IF_ERROR(executor);
    DTRT_RETURN_IF_ERROR(transport->warmUp());
    DTRT_RETURN_IF_ERROR((*executor)->run());
    transport->leave();
    trainer->leave();
    memory.free(block);
    return {};
  });
  expectAllWell(outcomes);
}

TEST(NcclPlans, PreparingLeavesATrainersCaptureIntact) {
  for (const TestPlan &test : {wavesPlan(), mixedPlan()}) {
    PlanReader plan = test.reader();
    auto store = std::make_shared<MemoryStore>();
    auto outcomes = onDevices(plan.devices(), [&](uint32_t device) -> Status {
      cudaStream_t stream = nullptr;
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
      auto program = plan.program(device);
      Status status;
      auto transport = std::move(*NcclTransport::create(
          fakeOptions(device, plan.devices(), store, 30)));
      auto prepare = [&]() -> Status {
        auto storage =
            ArenaStorage::allocate(plan.common(), *program, gpuMemory());
        DTRT_RETURN_IF_ERROR(storage);
        DTRT_RETURN_IF_ERROR(transport->connect(plan.digest(), {}));
        auto executor = GpuExecutor::prepare(**storage, *transport, {&plan});
        DTRT_RETURN_IF_ERROR(executor);
        transport->leave();
        return {};
      };
      std::thread([&] {
        status = useGpu(int(device));
        if (status.ok())
          status = prepare();
      }).join();
      cudaGraph_t graph = nullptr;
      EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
      cudaGraphDestroy(graph);
      cudaStreamDestroy(stream);
      return status;
    });
    expectAllWell(outcomes);
  }
}

//===----------------------------------------------------------------------===//
// One queue
//===----------------------------------------------------------------------===//

namespace {

/// What one rank has put on its GPU's streams since the last reset.
std::vector<FakeLaunch> launchesOn(int gpu) {
  std::vector<FakeLaunch> own;
  for (const FakeLaunch &launch : fakeGpuLaunches())
    if (launch.gpu == gpu)
      own.push_back(launch);
  return own;
}

} // namespace

/// All that a short transfer has is on the streams before the GPU has run any
/// of it: the host has no part in a wave.
TEST(NcclPlans, WavesAreEnqueuedAheadOfTheGpu) {
  TestPlan plan = wavesPlan();
  std::atomic<size_t> here{0};
  FakeRun how;
  how.beforeRun = [&](uint32_t) {
    if (++here == plan.programs.size()) {
      clearFakeGpuLaunches();
      pauseFakeGpus(true);
    }
    while (here < plan.programs.size())
      std::this_thread::yield();
  };
  auto groups = [] {
    size_t count = 0;
    for (const FakeLaunch &launch : fakeGpuLaunches())
      count += launch.what == "group";
    return count;
  };
  size_t enqueued = 0;
  std::thread watch([&] {
    for (int i = 0; i < 1000 && enqueued < 20; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      enqueued = here < plan.programs.size() ? 0 : groups();
    }
    pauseFakeGpus(false);
  });
  expectAllWell(runOnFakeNccl(plan, how));
  watch.join();
  EXPECT_EQ(enqueued, 20u); // four waves of five ranks
}

TEST(NcclPlans, AWaveIsUrgentAndLaunchedBeforeTheCopiesBesideIt) {
  TestPlan plan = wavesPlan();
  std::atomic<size_t> here{0};
  FakeRun how;
  how.beforeRun = [&](uint32_t) {
    if (++here == plan.programs.size())
      clearFakeGpuLaunches();
    while (here < plan.programs.size())
      std::this_thread::yield();
  };
  expectAllWell(runOnFakeNccl(plan, how));
  // Pack, wave 0; then of each wave: itself, the unpack of the wave before, the
  // pack of the wave after.
  std::string order;
  for (const FakeLaunch &launch : launchesOn(0)) {
    if (launch.what == "group") {
      order += 'g';
      EXPECT_EQ(launch.priority, -5);
    } else if (launch.what == "kernel copyBoxes") {
      order += 'c';
      EXPECT_EQ(launch.priority, 0);
    }
    if (order.size() == 13) // the check's own copies come after
      break;
  }
  EXPECT_EQ(order.substr(0, 5), "cgccg") << order;
  EXPECT_EQ(order.find("gg"), std::string::npos) << order;
  EXPECT_EQ(std::count(order.begin(), order.end(), 'g'), 4) << order;
}

//===----------------------------------------------------------------------===//
// Configurations
//===----------------------------------------------------------------------===//

TEST(NcclPlans, ACommunicatorIsMadeForPairs) {
  expectAllWell(runOnFakeNccl(rowsToColumnsPlan()));
  ASSERT_FALSE(fakeNcclConfigs().empty());
  for (const ncclConfig_t &config : fakeNcclConfigs()) {
    EXPECT_EQ(config.nChannelsPerNetPeer, 8);
    EXPECT_EQ(config.maxP2pPeers, 7);
  }
}

/// What a library does not know is not in the configuration that it is given.
TEST(NcclPlans, OlderLibrariesGetWhatTheyKnow) {
  for (int version : {NCCL_VERSION(2, 19, 3), NCCL_VERSION(2, 26, 2),
                      NCCL_VERSION(2, 27, 3), NCCL_VERSION(2, 28, 9),
                      NCCL_VERSION(2, 29, 7), NCCL_VERSION(2, 30, 7)}) {
    FakeNcclOptions options;
    options.version = version;
    resetFakeNccl(options);
    expectAllWell(runOnFakeNccl(rowsToColumnsPlan()));
    for (const ncclConfig_t &config : fakeNcclConfigs()) {
      EXPECT_EQ(config.nChannelsPerNetPeer == 8,
                version >= NCCL_VERSION(2, 28, 0))
          << version;
      EXPECT_EQ(config.maxP2pPeers == 7, version >= NCCL_VERSION(2, 30, 0))
          << version;
    }
  }
}

//===----------------------------------------------------------------------===//
// Several ranks on one GPU
//===----------------------------------------------------------------------===//

namespace {

/// What two ranks on one GPU find in their environment.
std::vector<std::string> environmentsOfRanks(int version) {
  FakeGpuOptions one;
  one.gpus = 1;
  resetFakeGpus(one);
  FakeNcclOptions options;
  options.version = version;
  resetFakeNccl(options);
  std::string folder = testing::TempDir() + "/launch-" + std::string(6, 'X');
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  std::string script = "echo \"$RANK of $WORLD_SIZE: $NCCL_HOSTID "
                       "$NCCL_MULTI_RANK_GPU_ENABLE\" >" +
                       folder + "/$RANK";
  auto code = launchNcclRanks({"/bin/sh", "-c", script}, 2, &fakeNccl());
  EXPECT_TRUE(code.ok() && *code == 0);
  std::vector<std::string> lines;
  for (const char *rank : {"/0", "/1"}) {
    std::ifstream file(folder + rank);
    std::getline(file, lines.emplace_back());
  }
  std::filesystem::remove_all(folder);
  return lines;
}

} // namespace

TEST(NcclLaunch, RanksThatShareAGpuAreToldHow) {
  std::vector<std::string> older = {"0 of 2: dt-run-rank-0 ",
                                    "1 of 2: dt-run-rank-1 "};
  EXPECT_EQ(environmentsOfRanks(NCCL_VERSION(2, 28, 9)), older);
  std::vector<std::string> newer = {"0 of 2:  1", "1 of 2:  1"};
  EXPECT_EQ(environmentsOfRanks(NCCL_VERSION(2, 30, 7)), newer);
}

namespace {

/// Ranks find this value, but for what the user has chosen.
void expectSetting(const char *name, const std::string &value) {
  for (const std::string &own : {std::string(), "own " + value}) {
    ASSERT_EQ(own.empty() ? unsetenv(name) : setenv(name, own.c_str(), 1), 0);
    std::string test = "test \"$" + std::string(name) + "\" = \"" +
                       (own.empty() ? value : own) + "\"";
    auto code = launchNcclRanks({"/bin/sh", "-c", test}, 1, &fakeNccl());
    EXPECT_TRUE(code.ok() && *code == 0) << test;
  }
  unsetenv(name);
}

} // namespace

TEST(NcclLaunch, RanksSendInLargeChunks) {
  expectSetting("NCCL_P2P_NET_CHUNKSIZE", "524288");
}

TEST(NcclLaunch, RanksSendThroughTheirOwnNics) {
  expectSetting("NCCL_PXN_DISABLE", "1");
}

TEST(NcclLaunch, RanksWithAGpuEachAreLeftAlone) {
  FakeGpuOptions two;
  two.gpus = 2;
  resetFakeGpus(two);
  auto code = launchNcclRanks(
      {"/bin/sh", "-c", "test -z \"$NCCL_HOSTID$NCCL_MULTI_RANK_GPU_ENABLE\""},
      2, &fakeNccl());
  EXPECT_TRUE(code.ok() && *code == 0);
}
