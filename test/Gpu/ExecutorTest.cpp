//===- ExecutorTest.cpp - The GPU executor on fake GPUs -------------------===//
//
// Transports with streams and without, in any order that events allow; what is
// left on the GPU when something fails; and a trainer beside it. Calls against
// CUDA's rules, or ours, are failures of every test here (FakeListener.cpp).
//
//===----------------------------------------------------------------------===//

#include "BorrowedTransport.h"
#include "CompressedWorld.h"
#include "FakeDriver.h"
#include "FakeGpu.h"
#include "FakeKernels.h"
#include "GpuPlans.h"
#include "TransportContract.h"

#include "dtrt/core/ArenaStorage.h"
#include "dtrt/core/MemorySource.h"
#include "dtrt/cuda/GpuExecutor.h"
#include "dtrt/cuda/GpuLoopback.h"
#include "dtrt/cuda/GpuLoopbackWorld.h"
#include "dtrt/cuda/GpuMemory.h"
#include "dtrt/cuda/GpuPages.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <map>
#include <thread>

using namespace dtrt;
using namespace dtrt::test;

namespace {

//===----------------------------------------------------------------------===//
// The contract of all transports
//===----------------------------------------------------------------------===//

void useVectors() {
  FakeGpuOptions options;
  options.hostMemory = true; // messages lie in vectors
  resetFakeGpus(options);
}

class StreamWorld : public TransportWorld {
public:
  explicit StreamWorld(const std::vector<uint32_t> &devices) : world(devices) {}
  Transport &endpoint(uint32_t device) override {
    return world.endpoint(device);
  }

private:
  GpuLoopbackWorld world;
};

/// A GPU's memory over a wire that only sees the host's.
class HostStagedWorld : public TransportWorld {
public:
  explicit HostStagedWorld(const std::vector<uint32_t> &devices)
      : inner(devices) {
    for (uint32_t device : devices)
      ends[device] = makeHostStagedTransport(
          std::make_unique<Borrowed>(inner.endpoint(device)), gpuCopies(),
          pinnedMemory());
  }
  Transport &endpoint(uint32_t device) override { return *ends.at(device); }

private:
  LoopbackWorld inner;
  std::map<uint32_t, std::unique_ptr<Transport>> ends;
};

template <typename World> TransportCase contractCase(const char *name) {
  auto make = [](const std::vector<uint32_t> &devices,
                 double) -> std::unique_ptr<TransportWorld> {
    useVectors();
    return std::make_unique<World>(devices);
  };
  return {name, make, /*comparesPlans=*/false};
}

} // namespace

INSTANTIATE_TEST_SUITE_P(
    Gpu, TransportContract,
    testing::Values(contractCase<StreamWorld>("streams"),
                    contractCase<HostStagedWorld>("host_staged")),
    caseName);

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

namespace {

/// Memory for a device's shards, in mode flat of a pool of pages.
using MakeMemory = std::function<MemorySource(const RankProgram &)>;
/// Called with a device's shards when it has run.
using LookAt = std::function<void(const ArenaStorage &)>;

MemorySource memoryOf(const RankProgram &) { return gpuMemory(); }

/// Every device of the plan on GPU 0 over the ends of this world, checked.
template <typename World>
void runChecked(const TestPlan &test, const GpuExecutorOptions &given = {},
                const MakeMemory &memory = memoryOf,
                const LookAt &look = nullptr) {
  PlanReader plan = test.reader();
  World world(plan.devices());
  auto run = [&](uint32_t device) -> Status {
    Transport &transport = world.endpoint(device);
    auto program = plan.program(device);
    DTRT_RETURN_IF_ERROR(program);
    auto storage =
        ArenaStorage::allocate(plan.common(), *program, memory(*program));
    DTRT_RETURN_IF_ERROR(storage);
    DTRT_RETURN_IF_ERROR(fillGpuShards(**storage));
    DTRT_RETURN_IF_ERROR(transport.connect(plan.digest(), peersOf(*program)));
    GpuExecutorOptions options = given;
    options.plan = &plan;
    auto executor = GpuExecutor::prepare(**storage, transport, options);
    DTRT_RETURN_IF_ERROR(executor);
    DTRT_RETURN_IF_ERROR((*executor)->run());
    if (look)
      look(**storage);
    CheckReport report;
    DTRT_RETURN_IF_ERROR(checkGpuShards(**storage, report));
    bool checked = report.bytesChecked > 0 || program->destination.empty();
    return report.mismatches == 0 && checked
               ? Status()
               : makeError(report.mismatches, " mismatches");
  };
  std::vector<std::thread> threads;
  for (uint32_t device : plan.devices())
    threads.emplace_back([&, device] {
      Status status = run(device);
      EXPECT_TRUE(status.ok()) << status.message();
      if (!status.ok())
        world.endpoint(device).abort(status);
      world.endpoint(device).leave();
    });
  for (std::thread &thread : threads)
    thread.join();
}

std::vector<TestPlan> allPlans() {
  return {permutedPlan(), filledPlan(),        reshapePlan(), forwardingPlan(),
          wavesPlan(),    rowsToColumnsPlan(), mixedPlan(),   relayPlan()};
}

} // namespace

TEST(GpuExecutor, EveryByteArrivesInAnyOrderThatEventsAllow) {
  for (int round = 0; round < 10; ++round)
    for (const TestPlan &plan : allPlans())
      runChecked<StreamWorld>(plan);
}

TEST(GpuExecutor, EveryByteArrivesWhereTheHostStartsEachGroup) {
  for (int round = 0; round < 10; ++round)
    for (const TestPlan &plan : allPlans())
      runChecked<HostStagedWorld>(plan);
}

/// Messages long enough to be compressed.
TEST(GpuExecutor, EveryByteArrivesOverCompressedLinks) {
  for (const TestPlan &plan :
       {wavesPlan(300, 425), rowsToColumnsPlan(512, 384)}) {
    takeFakeNvcompCounts();
    runChecked<CompressedWorld>(plan);
    FakeNvcompCounts counts = takeFakeNvcompCounts();
    EXPECT_GT(counts.compressed, 0u);
    EXPECT_GT(counts.decompressed, 0u);
  }
}

//===----------------------------------------------------------------------===//
// Flat memory
//===----------------------------------------------------------------------===//

namespace {

/// A pool for each device, and what the device needs of it.
class Pools {
public:
  MakeMemory make() {
    return [this](const RankProgram &program) {
      auto pool = GpuPages::create(0, UINT64_MAX, &fakeDriver());
      EXPECT_TRUE(pool.ok()) << pool.status().message();
      std::lock_guard<std::mutex> lock(mutex);
      pools[program.device] = *pool;
      return pagesOf(*pool);
    };
  }
  /// What a device had at most is what its plan says, page for page.
  LookAt expectPeaks() {
    return [this](const ArenaStorage &storage) {
      std::lock_guard<std::mutex> lock(mutex);
      GpuPageCounts counts = pools.at(storage.program().device)->counts();
      EXPECT_EQ(counts.mostCreated * kPage, storage.peakPageBytes());
      EXPECT_EQ(counts.created, counts.mostCreated);
      peak = std::max(peak, counts.mostCreated * kPage +
                                storage.program().stagingBytes);
    };
  }

  static constexpr uint64_t kPage = 4096;
  uint64_t peak = 0; // with staging, of the device that had most

private:
  std::mutex mutex;
  std::map<uint32_t, std::shared_ptr<GpuPages>> pools;
};

std::vector<TestPlan> flatPlans() {
  std::vector<TestPlan> plans = {permutedPlan(),      reshapePlan(),
                                 forwardingPlan(),    wavesPlan(300, 425),
                                 rowsToColumnsPlan(), mixedPlan()};
  for (TestPlan &plan : plans)
    makeFlat(plan, Pools::kPage);
  plans.push_back(reshapePlan(MemoryMode::Flat)); // all at once
  plans.push_back(plans.back());
  copyBeside(plans.back());
  plans.push_back(keptSquare());
  return plans;
}

template <typename World> void runFlat(int rounds) {
  for (int round = 0; round < rounds; ++round)
    for (const TestPlan &plan : flatPlans()) {
      Pools pools;
      runChecked<World>(plan, {}, pools.make(), pools.expectPeaks());
    }
}

} // namespace

TEST(GpuExecutorInFlatMemory, EveryByteArrivesInAnyOrderThatEventsAllow) {
  runFlat<StreamWorld>(5);
}

TEST(GpuExecutorInFlatMemory, EveryByteArrivesWhereTheHostStartsEachGroup) {
  runFlat<HostStagedWorld>(5);
}

/// Shards of whole pages, so that the plan's bytes are pages: two devices with
/// 24 pages before and after, and pieces of one page.
TEST(GpuExecutorInFlatMemory, ThePeakIsThatOfThePlan) {
  TestPlan plan = rowsToColumnsPlan(512, 192);
  makeFlat(plan, Pools::kPage);
  uint64_t side = 24 * Pools::kPage;
  EXPECT_EQ(plan.common.summary.sourceMax, side);
  EXPECT_EQ(plan.common.summary.destinationMax, side);
  Pools pools;
  runChecked<StreamWorld>(plan, {}, pools.make(), pools.expectPeaks());
  EXPECT_EQ(pools.peak, plan.common.summary.devicePeak);
  EXPECT_LT(pools.peak, 2 * side + plan.common.summary.stagingPeak);
}

TEST(GpuExecutorInFlatMemory, NoGraphIsMadeOfIt) {
  TestPlan plan = rowsToColumnsPlan();
  makeFlat(plan, Pools::kPage);
  GpuExecutorOptions options;
  options.graph = true;
  Pools pools;
  runChecked<StreamWorld>(plan, options, pools.make(), pools.expectPeaks());
}

TEST(GpuExecutorInFlatMemory, TensorsWithoutAddressesAreRefused) {
  TestPlan test = rowsToColumnsPlan();
  makeFlat(test, Pools::kPage);
  PlanReader plan = test.reader();
  auto program = plan.program(0);
  GpuLoopbackWorld world(plan.devices());
  auto storage = ArenaStorage::allocate(plan.common(), *program, gpuMemory());
  ASSERT_TRUE(storage.ok()) << storage.status().message();
  auto executor = GpuExecutor::prepare(**storage, world.endpoint(0), {&plan});
  ASSERT_FALSE(executor.ok());
  EXPECT_EQ(executor.status().message(),
            "device 0: a destination tensor has no addresses yet, expected "
            "those of a pool of pages for a plan of mode flat on a GPU");
}

/// What is put on streams before a release has ended when its pages go: here
/// the driver would map them elsewhere at once.
TEST(GpuExecutorInFlatMemory, ADriverWithoutAPageToSpareIsEnough) {
  TestPlan test = rowsToColumnsPlan(512, 192);
  makeFlat(test, Pools::kPage);
  // Of both devices.
  uint64_t pages =
      2 * (test.common.summary.devicePeak - test.common.summary.stagingPeak) /
      Pools::kPage;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    FakeGpuOptions gpus;
    gpus.seed = seed;
    resetFakeGpus(gpus);
    setFakeDriver({Pools::kPage, pages});
    Pools pools;
    runChecked<StreamWorld>(test, {}, pools.make());
    EXPECT_EQ(fakeDriverCounts().mostCreated, pages) << "seed " << seed;
  }
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

namespace {

/// A wire that breaks after so many groups, and moves nothing until then.
class BreakingTransport : public Transport {
public:
  explicit BreakingTransport(int groups) : left(groups) {}
  uint32_t device() const override { return 0; }
  Status connect(const Digest &, const std::vector<uint32_t> &) override {
    return {};
  }
  Status group(const std::vector<TransportMessage> &) override {
    return left-- == 0 ? makeError("the wire broke") : Status();
  }
  void abort(const Status &) override {}
  void leave() override {}

private:
  int left;
};

/// The same, of groups that go on a stream.
class BreakingStreams : public StreamTransport {
public:
  explicit BreakingStreams(int groups) : left(groups) {}
  ~BreakingStreams() override {
    if (arena)
      memory.free(arena);
  }
  uint32_t device() const override { return 0; }
  Status connect(const Digest &, const std::vector<uint32_t> &) override {
    return {};
  }
  Status group(const std::vector<TransportMessage> &) override { return {}; }
  void abort(const Status &) override {}
  void leave() override {}
  Result<std::byte *> prepare(const Traffic &traffic) override {
    return arena = memory.allocate(traffic.arenaBytes);
  }
  void start(std::function<Status()> enqueueAll) override {
    result = enqueueAll();
  }
  Status enqueue(size_t, const std::vector<TransportMessage> &,
                 GpuStream) override {
    return left-- == 0 ? makeError("the wire broke") : Status();
  }
  bool stopped() const override { return false; }
  Status await(size_t, const std::function<bool()> &reached) override {
    while (result.ok() && !reached())
      std::this_thread::yield();
    return result;
  }
  Status finish() override { return result; }

private:
  int left;
  Status result;
  MemorySource memory = gpuMemory();
  std::byte *arena = nullptr;
};

/// The same, whose caller gives up before the calls have come back.
class LateStreams : public BreakingStreams {
public:
  LateStreams() : BreakingStreams(-1) {}
  void start(std::function<Status()> enqueueAll) override {
    late = std::move(enqueueAll);
  }
  Status await(size_t, const std::function<bool()> &) override {
    return makeError("out of patience");
  }
  Status finish() override { return makeError("out of patience"); }
  /// Lets go of what they use, as a thread does that was in them.
  Status comeBack() { return std::exchange(late, {})(); }

private:
  std::function<Status()> late;
};

template <typename Breaking> void expectNothingLeft() {
  PlanReader plan = wavesPlan().reader();
  auto program = plan.program(0);
  ASSERT_TRUE(program.ok());
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    FakeGpuOptions gpus;
    gpus.seed = seed;
    resetFakeGpus(gpus);
    Breaking transport(1);
    auto storage = ArenaStorage::allocate(plan.common(), *program, gpuMemory());
    GpuExecutorOptions options;
    options.plan = &plan;
    auto executor = GpuExecutor::prepare(**storage, transport, options);
    ASSERT_TRUE(executor.ok()) << executor.status().message();
    Status status = (*executor)->run();
    EXPECT_NE(status.message().find("the wire broke"), std::string::npos)
        << status.message();
    EXPECT_EQ(fakeGpuPending(), 0u) << "seed " << seed;
  }
}

} // namespace

TEST(GpuExecutor, AFailureLeavesNothingOnTheGpu) {
  expectNothingLeft<BreakingTransport>();
}

TEST(GpuExecutor, AFailureOfAGroupOnAStreamLeavesNothingOnTheGpu) {
  expectNothingLeft<BreakingStreams>();
}

TEST(GpuExecutor, CallsThatComeBackLateLeaveNothingOnTheGpu) {
  PlanReader plan = wavesPlan().reader();
  auto program = plan.program(0);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    FakeGpuOptions gpus;
    gpus.seed = seed;
    resetFakeGpus(gpus);
    LateStreams transport;
    auto storage = ArenaStorage::allocate(plan.common(), *program, gpuMemory());
    auto executor = GpuExecutor::prepare(**storage, transport, {&plan});
    ASSERT_TRUE(executor.ok()) << executor.status().message();
    Status status = (*executor)->run();
    EXPECT_NE(status.message().find("out of patience"), std::string::npos);
    executor->reset();
    EXPECT_TRUE(transport.comeBack().ok());
    EXPECT_EQ(fakeGpuPending(), 0u) << "seed " << seed;
  }
}

TEST(GpuExecutorInFlatMemory, ADriverWithTooFewPagesIsAnErrorWithItsPlace) {
  TestPlan test = rowsToColumnsPlan(512, 192);
  makeFlat(test, Pools::kPage);
  PlanReader plan = test.reader();
  auto program = plan.program(0);
  setFakeDriver({Pools::kPage, 24});
  auto pool = GpuPages::create(0, UINT64_MAX, &fakeDriver());
  BreakingStreams transport(-1);
  auto storage =
      ArenaStorage::allocate(plan.common(), *program, pagesOf(*pool));
  ASSERT_TRUE(storage.ok()) << storage.status().message();
  auto executor = GpuExecutor::prepare(**storage, transport, {&plan});
  ASSERT_TRUE(executor.ok()) << executor.status().message();
  Status status = (*executor)->run();
  EXPECT_TRUE(status.is(ErrorCode::OutOfMemory)) << status.message();
  EXPECT_NE(status.message().find("(create): no page of 4096 bytes more"),
            std::string::npos)
      << status.message();
  EXPECT_EQ(fakeGpuPending(), 0u);
}

//===----------------------------------------------------------------------===//
// Beside a trainer
//===----------------------------------------------------------------------===//

namespace {

/// One device of a plan, with a wire that moves nothing.
struct OneDevice {
  explicit OneDevice(const TestPlan &test = wavesPlan())
      : plan(test.reader()) {}

  PlanReader plan;
  RankProgram program = std::move(*plan.program(0));
  BreakingStreams transport{-1};
  std::unique_ptr<ArenaStorage> storage;
  std::unique_ptr<GpuExecutor> executor;

  Status prepare() {
    auto made = ArenaStorage::allocate(plan.common(), program, gpuMemory());
    DTRT_RETURN_IF_ERROR(made);
    storage = std::move(*made);
    GpuExecutorOptions options;
    options.plan = &plan;
    auto prepared = GpuExecutor::prepare(*storage, transport, options);
    DTRT_RETURN_IF_ERROR(prepared);
    executor = std::move(*prepared);
    return {};
  }
};

struct TrainerStream {
  TrainerStream() {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
              cudaSuccess);
  }
  ~TrainerStream() {
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
  }
  cudaStream_t stream = nullptr;
};

} // namespace

TEST(GpuExecutor, PreparingAndRunningLeaveATrainersCaptureIntact) {
  TrainerStream trainer;
  ASSERT_EQ(cudaStreamBeginCapture(trainer.stream, cudaStreamCaptureModeGlobal),
            cudaSuccess);
  std::thread([] {
    OneDevice device;
    Status status = device.prepare();
    EXPECT_TRUE(status.ok()) << status.message();
    status = device.executor->run();
    EXPECT_TRUE(status.ok()) << status.message();
    CopyBytes copy = gpuCopies();
    std::byte byte{};
    EXPECT_TRUE(copy(&byte, device.executor->staging(), 1).ok());
    MemorySource pinned = pinnedMemory();
    pinned.free(pinned.allocate(100));
  }).join();
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(trainer.stream, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST(GpuExecutor, ARunStartsBehindWhatTheTrainerHasOnItsStream) {
  for (int round = 0; round < 10; ++round) {
    PlanReader plan = wavesPlan().reader();
    GpuLoopbackWorld world(plan.devices());
    std::vector<std::thread> threads;
    for (uint32_t device : plan.devices())
      threads.emplace_back([&, device] {
        auto program = plan.program(device);
        auto made =
            ArenaStorage::allocate(plan.common(), *program, gpuMemory());
        ArenaStorage &storage = **made;
        ASSERT_TRUE(fillGpuShards(storage).ok());
        // The source is poison until the trainer's stream has written it.
        ASSERT_EQ(storage.shards(Side::Source).size(), 1u);
        StreamTransport &transport = world.endpoint(device);
        ASSERT_TRUE(transport.connect(plan.digest(), {}).ok());
        auto executor = GpuExecutor::prepare(storage, transport, {&plan});
        ASSERT_TRUE(executor.ok()) << executor.status().message();
        std::byte *data = storage.data(Side::Source, 0, 0, 0);
        uint64_t bytes = storage.memberBytes(Side::Source, 0, 0);
        std::vector<std::byte> values(bytes), poison(bytes, std::byte(0x5a));
        CopyBytes copy = gpuCopies();
        ASSERT_TRUE(copy(values.data(), data, bytes).ok());
        ASSERT_TRUE(copy(data, poison.data(), bytes).ok());
        TrainerStream trainer;
        cudaMemcpyAsync(data, values.data(), bytes, cudaMemcpyDefault,
                        trainer.stream);
        ASSERT_TRUE((*executor)->runAfter(trainer.stream).ok());
        Status ran = (*executor)->run();
        EXPECT_TRUE(ran.ok()) << ran.message();
        transport.leave();
        CheckReport report;
        EXPECT_TRUE(checkGpuShards(storage, report).ok());
        EXPECT_EQ(report.mismatches, 0u);
      });
    for (std::thread &thread : threads)
      thread.join();
  }
}

TEST(GpuExecutor, ThreadsShareASourceOfMemory) {
  for (int round = 0; round < 20; ++round) {
    MemorySource memory = gpuMemory();
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([memory] { memory.free(memory.allocate(100)); });
    for (std::thread &thread : threads)
      thread.join();
  }
}

TEST(GpuExecutor, TheGpuIsThatOfTheThreadThatPrepares) {
  ASSERT_TRUE(useGpu(3).ok());
  OneDevice device;
  Status status = device.prepare();
  ASSERT_TRUE(status.ok()) << status.message();
  // Another GPU's launches or memory would be faults.
  std::thread([&] {
    Status ran = device.executor->run();
    EXPECT_TRUE(ran.ok()) << ran.message();
    EXPECT_EQ(*currentGpu(), 0);
  }).join();
}

//===----------------------------------------------------------------------===//
// Room
//===----------------------------------------------------------------------===//

TEST(GpuExecutor, AGpuWithoutRoomIsNamedBeforeAnythingIsAllocated) {
  FakeGpuOptions gpus;
  gpus.freeBytes = 1000;
  resetFakeGpus(gpus);
  TestPlan plan = wavesPlan();
  OneDevice device(plan);
  uint64_t staging = plan.programs[0].stagingBytes;
  ASSERT_GT(staging, 1000u);
  Status status = device.prepare();
  EXPECT_TRUE(status.is(ErrorCode::OutOfMemory));
  for (std::string part :
       {std::string("device 0: GPU 0 has 1000 of 17179869184 bytes free, at "
                    "least "),
        std::to_string(staging) + " of staging, ",
        std::string(" of tables, 0 of the transport's buffers"),
        std::string("torch.cuda.empty_cache")})
    EXPECT_NE(status.message().find(part), std::string::npos)
        << part << " in " << status.message();
}

TEST(GpuExecutor, CopiesBesideAWaveLeaveMostOfTheGpuToIt) {
  FakeGpuOptions gpus;
  gpus.multiprocessors = 16;
  resetFakeGpus(gpus);
  OneDevice device(wavesPlan(1200, 1700)); // a wave has more tiles than that
  Status status = device.prepare();
  ASSERT_TRUE(status.ok()) << status.message();
  size_t before = fakeGpuLaunches().size();
  ASSERT_TRUE(device.executor->run().ok());
  std::vector<FakeLaunch> launches = fakeGpuLaunches();
  std::vector<unsigned> blocks;
  for (size_t i = before; i < launches.size(); ++i)
    if (launches[i].what == "kernel copyBoxes")
      blocks.push_back(launches[i].blocks);
  ASSERT_GE(blocks.size(), 4u);
  // The first pack and the last unpack have the GPU to themselves.
  EXPECT_GT(blocks.front(), 16u);
  EXPECT_GT(blocks.back(), 16u);
  for (size_t i = 1; i + 1 < blocks.size(); ++i)
    EXPECT_LE(blocks[i], 4u) << "launch " << i;
}
