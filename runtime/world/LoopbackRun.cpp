//===- LoopbackRun.cpp - A whole plan in one process ----------------------===//

#include "dtrt/world/LoopbackRun.h"
#include "dtrt/core/ArenaStorage.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <future>
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

} // namespace

struct LoopbackSession::Device {
  RankProgram program;
  std::unique_ptr<ArenaStorage> storage;
  std::optional<Executor> executor; // after the first run
  Status status;
  CheckReport check;
  ExecutionStats stats;
  Clock::time_point begin, end;
};

LoopbackSession::LoopbackSession(const PlanReader &plan,
                                 const LoopbackOptions &options)
    : plan(plan), options(options) {}

LoopbackSession::~LoopbackSession() = default;

/// Runs `work` in a thread per device; all have started when one can wait for
/// another, or none has.
Status
LoopbackSession::forEachDevice(const std::function<void(Device &)> &work) {
  std::vector<std::thread> threads;
  std::promise<bool> go;
  std::shared_future<bool> started = go.get_future().share();
  Status status;
  try {
    for (auto &device : devices)
      threads.emplace_back([&work, started, &device = *device] {
        if (started.get())
          work(device);
      });
  } catch (const std::system_error &error) {
    status = makeError(ErrorCode::System, "cannot start thread ",
                       threads.size(), ": ", error.what());
  }
  go.set_value(status.ok());
  for (std::thread &thread : threads)
    thread.join();
  return status;
}

Result<std::unique_ptr<LoopbackSession>>
LoopbackSession::prepare(const PlanReader &plan,
                         const LoopbackOptions &options) {
  std::unique_ptr<LoopbackSession> session(new LoopbackSession(plan, options));
  for (uint32_t device : plan.devices()) {
    auto program = plan.program(device);
    DTRT_RETURN_IF_ERROR(program);
    session->devices.push_back(std::make_unique<Device>());
    session->devices.back()->program = std::move(*program);
  }
  DTRT_RETURN_IF_ERROR(session->forEachDevice([&](Device &device) {
    auto storage = ArenaStorage::allocate(plan.common(), device.program);
    device.status = statusOf(storage);
    if (!storage.ok())
      return;
    device.storage = std::move(*storage);
    if (options.check)
      fillShards(*device.storage);
    session->tell("fill", session->filled);
  }));
  for (auto &device : session->devices)
    DTRT_RETURN_IF_ERROR(device->status);
  return session;
}

Result<LoopbackReport> LoopbackSession::run() {
  LoopbackWorld world(plan.devices(), std::thread::hardware_concurrency());
  DTRT_RETURN_IF_ERROR(
      forEachDevice([&](Device &device) { runDevice(device, world); }));
  return report();
}

void LoopbackSession::runDevice(Device &device, LoopbackWorld &world) {
  Transport &transport = world.endpoint(device.program.device);
  device.status = transfer(device, transport);
  if (!device.status.ok())
    transport.abort(device.status);
  transport.leave();
}

Status LoopbackSession::transfer(Device &device, Transport &transport) {
  if (!device.executor) {
    auto prepared = Executor::prepare(*device.storage, transport,
                                      ExecutionOptions{!options.staged});
    DTRT_RETURN_IF_ERROR(prepared);
    device.executor.emplace(std::move(*prepared));
  }
  Executor *executor = &*device.executor;
  executor->use(transport);
  DTRT_RETURN_IF_ERROR(transport.connect(plan.digest(), executor->peers()));
  device.begin = Clock::now();
  DTRT_RETURN_IF_ERROR(executor->run());
  device.end = Clock::now();
  device.stats = executor->stats();
  DTRT_RETURN_IF_ERROR(checkHeld(device));
  tell("transfer", transferred);
  device.check = {};
  if (options.check)
    for (uint32_t shard = 0; shard < device.program.destination.size(); ++shard)
      checkDestination(*device.storage, shard, device.check);
  tell("check", checked);
  return {};
}

/// What was held is what the plan says, and in flat mode within its bound.
Status LoopbackSession::checkHeld(const Device &device) const {
  const PlanCommon &common = plan.common();
  uint64_t held = device.stats.devicePeak;
  uint64_t planned = peakBytes(common, device.program);
  if (held > planned)
    return makeError("device ", device.program.device, " held ", held,
                     " bytes, the plan says ", planned);
  uint64_t sides[2] = {0, 0};
  for (Side side : {Side::Source, Side::Destination})
    for (const ShardRecord &shard : device.storage->shards(side))
      sides[size_t(side)] +=
          shardBytes(common.families[shard.family], shard, side);
  uint64_t bound = std::max(sides[0], sides[1]) + common.summary.stagingLimit;
  if (common.summary.mode == MemoryMode::Flat && held > bound)
    return makeError("device ", device.program.device, " held ", held,
                     " bytes, more than the ", bound, " of mode flat");
  return {};
}

void LoopbackSession::tell(const char *phase, std::atomic<size_t> &counter) {
  size_t done = ++counter;
  if (options.progress)
    options.progress(phase, done, devices.size());
}

Result<LoopbackReport> LoopbackSession::report() const {
  LoopbackReport report;
  Clock::time_point begin = Clock::time_point::max();
  Clock::time_point end = Clock::time_point::min();
  for (const auto &device : devices) {
    DTRT_RETURN_IF_ERROR(device->status);
    begin = std::min(begin, device->begin);
    end = std::max(end, device->end);
    report.bytesMoved +=
        device->stats.bytesReceived + device->stats.bytesCopied;
    report.stagingPeak =
        std::max(report.stagingPeak, device->stats.stagingPeak);
    report.devicePeak = std::max(report.devicePeak, device->stats.devicePeak);
    report.check.bytesChecked += device->check.bytesChecked;
    report.check.mismatches += device->check.mismatches;
    for (const std::string &line : device->check.first)
      report.check.first.push_back(line);
  }
  if (!devices.empty())
    report.seconds = std::chrono::duration<double>(end - begin).count();
  return report;
}

Result<LoopbackReport> runLoopback(const PlanReader &plan,
                                   const LoopbackOptions &options) {
  auto needed = loopbackBytes(plan);
  DTRT_RETURN_IF_ERROR(needed);
  uint64_t available = availableBytes();
  if (double(*needed) > kUsableShare * double(available))
    return makeError(ErrorCode::OutOfMemory, "the plan needs ", *needed,
                     " bytes for all its devices, this machine has ", available,
                     " available");
  auto session = LoopbackSession::prepare(plan, options);
  DTRT_RETURN_IF_ERROR(session);
  return (*session)->run();
}

Result<uint64_t> loopbackBytes(const PlanReader &plan) {
  uint64_t total = 0;
  for (uint32_t device : plan.devices()) {
    auto program = plan.program(device);
    DTRT_RETURN_IF_ERROR(program);
    if (__builtin_add_overflow(total, peakBytes(plan.common(), *program),
                               &total))
      return makeError(ErrorCode::OutOfMemory,
                       "the plan needs more than 2^64 bytes");
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
