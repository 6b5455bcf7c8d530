//===- GpuLoopback.cpp - A whole plan on one GPU --------------------------===//

#include "dtrt/cuda/GpuLoopback.h"
#include "dtrt/cuda/GpuExecutor.h"
#include "dtrt/cuda/GpuLoopbackWorld.h"
#include "dtrt/cuda/GpuMemory.h"
#include "dtrt/cuda/GpuPages.h"

#include "dtrt/format/ShardView.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace dtrt {

namespace {

/// To or from a storage of the same program.
Status copyBuffers(const CopyBytes &copy, const LocalStorage &from,
                   LocalStorage &to, Side side) {
  for (uint32_t shard = 0; shard < from.shards(side).size(); ++shard)
    for (unsigned state : statesOf(from.shards(side)[shard].states))
      for (int64_t member = 0; member < from.members(side, shard); ++member)
        DTRT_RETURN_IF_ERROR(copy(to.data(side, shard, state, member),
                                  from.data(side, shard, state, member),
                                  from.memberBytes(side, shard, state)));
  return {};
}

/// The same plan for a host that has both sides at once.
PlanCommon withAllMemory(PlanCommon common) {
  common.summary.mode = MemoryMode::Rollback;
  return common;
}

} // namespace

Result<std::unique_ptr<ArenaStorage>>
allocateGpuShards(const PlanCommon &common, const RankProgram &program,
                  std::shared_ptr<GpuPages> pages, const DriverApi *driver) {
  if (common.summary.mode != MemoryMode::Flat)
    return ArenaStorage::allocate(common, program, gpuMemory());
  if (!pages) {
    auto gpu = currentGpu();
    DTRT_RETURN_IF_ERROR(gpu);
    auto own = GpuPages::create(*gpu, UINT64_MAX, driver);
    DTRT_RETURN_IF_ERROR(own);
    pages = std::move(*own);
  }
  return ArenaStorage::allocate(common, program, pagesOf(std::move(pages)));
}

Status fillGpuShards(LocalStorage &storage) {
  PlanCommon common = withAllMemory(storage.common());
  auto host = ArenaStorage::allocate(common, storage.program());
  DTRT_RETURN_IF_ERROR(host);
  fillShards(**host);
  CopyBytes copy = gpuCopies();
  DTRT_RETURN_IF_ERROR(copyBuffers(copy, **host, storage, Side::Source));
  if (storage.common().summary.mode == MemoryMode::Flat)
    return {}; // the destination is not there yet
  return copyBuffers(copy, **host, storage, Side::Destination);
}

Status checkGpuShards(const LocalStorage &storage, CheckReport &report) {
  const RankProgram &program = storage.program();
  PlanCommon common = withAllMemory(storage.common());
  auto host = ArenaStorage::allocate(common, program);
  DTRT_RETURN_IF_ERROR(host);
  DTRT_RETURN_IF_ERROR(
      copyBuffers(gpuCopies(), storage, **host, Side::Destination));
  for (uint32_t i = 0; i < program.destination.size(); ++i)
    checkDestination(**host, i, report);
  return {};
}

namespace {

using Clock = std::chrono::steady_clock;

struct Device {
  RankProgram program;
  Status status;
  CheckReport check;
  ExecutionStats stats;
  Clock::time_point begin, end;
};

Status runDevice(const PlanReader &plan, Device &device, Transport &transport,
                 bool check, int gpu, const std::shared_ptr<GpuPages> &pages) {
  DTRT_RETURN_IF_ERROR(useGpu(gpu));
  const PlanCommon &common = plan.common();
  auto storage = allocateGpuShards(common, device.program, pages);
  DTRT_RETURN_IF_ERROR(storage);
  if (check)
    DTRT_RETURN_IF_ERROR(fillGpuShards(**storage));
  DTRT_RETURN_IF_ERROR(
      transport.connect(plan.digest(), peersOf(device.program)));
  auto executor = GpuExecutor::prepare(**storage, transport, {&plan});
  DTRT_RETURN_IF_ERROR(executor);
  device.begin = Clock::now();
  DTRT_RETURN_IF_ERROR((*executor)->run());
  device.end = Clock::now();
  device.stats = (*executor)->stats();
  if (!check)
    return {};
  return checkGpuShards(**storage, device.check);
}

Result<LoopbackReport> summarize(std::vector<Device> &devices) {
  LoopbackReport report;
  Clock::time_point begin = Clock::time_point::max();
  Clock::time_point end = Clock::time_point::min();
  for (Device &device : devices) {
    DTRT_RETURN_IF_ERROR(device.status);
    begin = std::min(begin, device.begin);
    end = std::max(end, device.end);
    report.bytesMoved += device.stats.bytesReceived + device.stats.bytesCopied;
    report.stagingPeak = std::max(report.stagingPeak, device.stats.stagingPeak);
    report.devicePeak = std::max(report.devicePeak, device.stats.devicePeak);
    report.check.bytesChecked += device.check.bytesChecked;
    report.check.mismatches += device.check.mismatches;
    for (std::string &line : device.check.first)
      report.check.first.push_back(std::move(line));
  }
  report.seconds = std::chrono::duration<double>(end - begin).count();
  return report;
}

} // namespace

Result<LoopbackReport> runGpuLoopback(const PlanReader &plan, bool check,
                                      int gpu,
                                      const std::shared_ptr<GpuPages> &pages) {
  DTRT_RETURN_IF_ERROR(countGpus());
  GpuLoopbackWorld world(plan.devices());
  std::vector<Device> devices(plan.devices().size());
  for (size_t i = 0; i < devices.size(); ++i) {
    auto program = plan.program(plan.devices()[i]);
    DTRT_RETURN_IF_ERROR(program);
    devices[i].program = std::move(*program);
  }
  std::vector<std::thread> threads;
  for (Device &device : devices)
    threads.emplace_back([&] {
      Transport &transport = world.endpoint(device.program.device);
      device.status = runDevice(plan, device, transport, check, gpu, pages);
      if (!device.status.ok())
        transport.abort(device.status);
      transport.leave();
    });
  for (std::thread &thread : threads)
    thread.join();
  return summarize(devices);
}

} // namespace dtrt
