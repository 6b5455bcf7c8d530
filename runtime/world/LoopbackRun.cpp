//===- LoopbackRun.cpp - A whole plan in one process ----------------------===//

#include "dtrt/LoopbackRun.h"

#include "dtrt/LoopbackTransport.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <system_error>
#include <thread>

namespace dtrt {

namespace {

using Clock = std::chrono::steady_clock;

/// Left to the rest of the machine when a plan is judged to fit.
constexpr double kUsableShare = 0.9;

uint64_t numberInFile(const char *path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? number : ~uint64_t(0);
}

/// One device of the run.
struct DeviceRun {
  RankProgram program;
  Status status;
  CheckReport check;
  ExecutionStats stats;
  Clock::time_point begin, end;
};

class LoopbackRun {
public:
  LoopbackRun(const PlanReader &plan, const LoopbackOptions &options)
      : plan(plan), options(options), world(plan.devices()),
        devices(plan.devices().size()) {}

  Result<LoopbackReport> run() {
    for (size_t i = 0; i < devices.size(); ++i) {
      auto program = plan.program(plan.devices()[i]);
      DTRT_RETURN_IF_ERROR(program);
      devices[i].program = std::move(*program);
    }
    Status started = runThreads();
    DTRT_RETURN_IF_ERROR(started);
    return report();
  }

private:
  Status runThreads() {
    std::vector<std::thread> threads;
    Status status;
    try {
      for (DeviceRun &device : devices)
        threads.emplace_back([this, &device] { runDevice(device); });
    } catch (const std::system_error &error) {
      status =
          makeError("cannot start thread ", threads.size(), ": ", error.what());
      world.endpoint(plan.devices()[threads.size()]).abort(status);
    }
    for (std::thread &thread : threads)
      thread.join();
    return status;
  }

  void runDevice(DeviceRun &device) {
    Transport &transport = world.endpoint(device.program.device);
    device.status = transfer(device, transport);
    if (!device.status.ok())
      transport.abort(device.status);
    transport.leave();
  }

  Status transfer(DeviceRun &device, Transport &transport) {
    auto storage = ArenaStorage::allocate(plan.common(), device.program);
    DTRT_RETURN_IF_ERROR(storage);
    if (options.check)
      fill(**storage);
    tell("fill", filled);
    auto executor = Executor::prepare(**storage, transport,
                                      ExecutorOptions{!options.staged});
    DTRT_RETURN_IF_ERROR(executor);
    DTRT_RETURN_IF_ERROR(transport.connect(plan.digest(), executor->peers()));
    device.begin = Clock::now();
    DTRT_RETURN_IF_ERROR(executor->run());
    device.end = Clock::now();
    device.stats = executor->stats();
    tell("transfer", transferred);
    if (options.check)
      for (uint32_t shard = 0; shard < device.program.destination.size();
           ++shard)
        checkDestination(**storage, shard, device.check);
    tell("check", checked);
    return {};
  }

  void fill(LocalStorage &storage) {
    for (uint32_t i = 0; i < storage.program().source.size(); ++i)
      fillSource(storage, i);
    for (uint32_t i = 0; i < storage.program().destination.size(); ++i)
      poisonDestination(storage, i);
  }

  void tell(const char *phase, std::atomic<size_t> &counter) {
    size_t done = ++counter;
    if (options.progress)
      options.progress(phase, done, devices.size());
  }

  Result<LoopbackReport> report() {
    LoopbackReport report;
    Clock::time_point begin = Clock::time_point::max();
    Clock::time_point end = Clock::time_point::min();
    for (DeviceRun &device : devices) {
      DTRT_RETURN_IF_ERROR(device.status);
      begin = std::min(begin, device.begin);
      end = std::max(end, device.end);
      report.bytesMoved +=
          device.stats.bytesReceived + device.stats.bytesCopied;
      report.stagingPeak =
          std::max(report.stagingPeak, device.stats.stagingPeak);
      report.devicePeak = std::max(report.devicePeak, device.stats.devicePeak);
      report.check.bytesChecked += device.check.bytesChecked;
      report.check.mismatches += device.check.mismatches;
      for (std::string &line : device.check.first)
        report.check.first.push_back(std::move(line));
    }
    if (!devices.empty())
      report.seconds = std::chrono::duration<double>(end - begin).count();
    return report;
  }

  const PlanReader &plan;
  const LoopbackOptions &options;
  LoopbackWorld world;
  std::vector<DeviceRun> devices;
  std::atomic<size_t> filled{0}, transferred{0}, checked{0};
};

} // namespace

Result<LoopbackReport> runLoopback(const PlanReader &plan,
                                   const LoopbackOptions &options) {
  auto needed = loopbackBytes(plan);
  DTRT_RETURN_IF_ERROR(needed);
  uint64_t available = availableBytes();
  if (double(*needed) > kUsableShare * double(available))
    return makeError("the plan needs ", *needed,
                     " bytes for all its devices, this machine has ", available,
                     " available");
  return LoopbackRun(plan, options).run();
}

Result<uint64_t> loopbackBytes(const PlanReader &plan) {
  uint64_t total = 0;
  for (uint32_t device : plan.devices()) {
    auto program = plan.program(device);
    DTRT_RETURN_IF_ERROR(program);
    if (__builtin_add_overflow(total, peakBytes(plan.common(), *program),
                               &total))
      return makeError("the plan needs more than 2^64 bytes");
  }
  return total;
}

uint64_t availableBytes() {
  uint64_t available = ~uint64_t(0);
  std::ifstream info("/proc/meminfo");
  std::string key;
  uint64_t kilobytes = 0;
  std::string rest;
  while (info >> key >> kilobytes && std::getline(info, rest))
    if (key == "MemAvailable:")
      available = kilobytes * 1024;
  uint64_t limit = numberInFile("/sys/fs/cgroup/memory.max");
  uint64_t used = numberInFile("/sys/fs/cgroup/memory.current");
  if (limit != ~uint64_t(0) && used != ~uint64_t(0))
    available = std::min(available, limit > used ? limit - used : 0);
  return available;
}

} // namespace dtrt
