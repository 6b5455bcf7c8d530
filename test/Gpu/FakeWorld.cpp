//===- FakeWorld.cpp - NCCL worlds of threads -----------------------------===//

#include "FakeWorld.h"
#include "FakeDriver.h"
#include "FakeListener.h"
#include "Stopwatch.h"
#include "dtrt/core/ArenaStorage.h"
#include "dtrt/cuda/GpuDigests.h"
#include "dtrt/cuda/GpuExecutor.h"
#include "dtrt/cuda/GpuLoopback.h"
#include "dtrt/cuda/GpuMemory.h"
#include "dtrt/store/MemoryStore.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace dtrt::test {

namespace {

/// NCCL's faults are faults of the test, like the GPU's.
class Listener : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo &) override {
    clearFakeNcclFaults();
    resetFakeNccl();
  }
  void OnTestEnd(const testing::TestInfo &) override {
    for (const std::string &fault : lastingFaults(fakeNcclFaults))
      ADD_FAILURE() << fault;
  }
};

[[maybe_unused]] const bool kListens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new Listener);
  return true;
}();

Status runRank(const PlanReader &plan, uint32_t device,
               std::shared_ptr<Store> store, const FakeRun &how) {
  auto program = plan.program(device);
  DTRT_RETURN_IF_ERROR(program);
  NcclOptions options = fakeOptions(device, plan.devices(), store, how.timeout);
  options.calls = how.calls;
  options.graph = how.graph;
  options.oneSided = how.oneSided;
  if (how.api)
    options.api = how.api;
  auto made = NcclTransport::create(options);
  DTRT_RETURN_IF_ERROR(made);
  std::unique_ptr<StreamTransport> transport = std::move(*made);
  if (how.digests)
    transport = makeGpuDigestTransport(std::move(transport));
  auto storage =
      allocateGpuShards(plan.common(), *program, nullptr, &fakeDriver());
  DTRT_RETURN_IF_ERROR(storage);
  DTRT_RETURN_IF_ERROR(fillGpuShards(**storage));
  auto run = [&]() -> Status {
    DTRT_RETURN_IF_ERROR(transport->connect(plan.digest(), peersOf(*program)));
    GpuExecutorOptions executorOptions;
    executorOptions.plan = &plan;
    executorOptions.graph = how.graph;
    auto executor =
        GpuExecutor::prepare(**storage, *transport, executorOptions);
    DTRT_RETURN_IF_ERROR(executor);
    DTRT_RETURN_IF_ERROR(transport->warmUp());
    if (how.beforeRun)
      how.beforeRun(device);
    return (*executor)->run();
  };
  Status status = run();
  if (!status.ok())
    transport->abort(status);
  transport->leave();
  DTRT_RETURN_IF_ERROR(status);
  CheckReport report;
  DTRT_RETURN_IF_ERROR(checkGpuShards(**storage, report));
  bool checked = report.bytesChecked > 0 || program->destination.empty();
  if (report.mismatches > 0 || !checked)
    return makeError(report.mismatches, " of ", report.bytesChecked,
                     " bytes are wrong");
  return {};
}

} // namespace

NcclOptions fakeOptions(uint32_t device, const std::vector<uint32_t> &devices,
                        std::shared_ptr<Store> store, double timeout,
                        const std::string &root) {
  NcclOptions options;
  options.device = device;
  options.devices = devices;
  auto found = std::find(devices.begin(), devices.end(), device);
  options.ranks = std::make_shared<Rendezvous>(
      std::move(store), uint32_t(found - devices.begin()),
      uint32_t(devices.size()), Seconds(timeout), root);
  options.timeout = Seconds(timeout);
  options.api = &fakeNccl();
  return options;
}

Outcomes onDevices(const std::vector<uint32_t> &devices,
                   const std::function<Status(uint32_t device)> &body) {
  Outcomes outcomes;
  for (uint32_t device : devices)
    outcomes[device] = {};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < devices.size(); ++i)
    threads.emplace_back([&, i] {
      RankOutcome &outcome = outcomes[devices[i]];
      Stopwatch watch;
      Status status = useGpu(int(i));
      if (status.ok())
        status = body(devices[i]);
      outcome.error = status.message();
      outcome.seconds = watch.seconds();
    });
  for (std::thread &thread : threads)
    thread.join();
  return outcomes;
}

void expectAllWell(const Outcomes &outcomes) {
  for (const auto &[device, outcome] : outcomes)
    EXPECT_EQ(outcome.error, "") << "device " << device;
}

std::function<void(uint32_t)> onceAllAreHere(size_t ranks,
                                             std::function<void()> then) {
  auto here = std::make_shared<std::atomic<size_t>>(0);
  auto done = std::make_shared<std::atomic<bool>>(false);
  return [=](uint32_t) {
    if (++*here == ranks) {
      then();
      *done = true;
    }
    while (!*done)
      std::this_thread::yield();
  };
}

Outcomes runOnFakeNccl(const TestPlan &test, const FakeRun &how) {
  PlanReader plan = test.reader();
  auto store = std::make_shared<MemoryStore>();
  return onDevices(plan.devices(), [&](uint32_t device) {
    return runRank(plan, device, store, how);
  });
}

} // namespace dtrt::test
