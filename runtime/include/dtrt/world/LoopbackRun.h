//===- LoopbackRun.h - A whole plan in one process --------------*- C++ -*-===//

#ifndef DTRT_WORLD_LOOPBACKRUN_H
#define DTRT_WORLD_LOOPBACKRUN_H

#include "dtrt/core/CheckPattern.h"
#include "dtrt/core/Executor.h"
#include "dtrt/transport/LoopbackTransport.h"

#include <atomic>
#include <functional>

namespace dtrt {

struct LoopbackOptions {
  bool check = false;
  /// Pack and unpack as the plan says, rather than let the receiver copy from
  /// shard to shard.
  bool staged = false;
  /// Called now and then from any thread, with the number of devices that have
  /// finished the named phase.
  std::function<void(const char *phase, size_t done, size_t total)> progress;
};

struct LoopbackReport {
  CheckReport check;
  double seconds = 0;       // from the first instruction to the last
  uint64_t bytesMoved = 0;  // local copies and messages, each byte once
  uint64_t stagingPeak = 0; // the most that one device used
  uint64_t devicePeak = 0;  // likewise, shards and staging arena
};

/// Every device of a plan in this process, a thread each.
class LoopbackSession {
public:
  /// Allocates all shards, and fills them when the run is to be checked. Plan
  /// and options must outlive the session.
  static Result<std::unique_ptr<LoopbackSession>>
  prepare(const PlanReader &plan, const LoopbackOptions &options);
  ~LoopbackSession();

  /// Runs every program. A plan of mode rollback may run again and again.
  Result<LoopbackReport> run();

private:
  struct Device;
  LoopbackSession(const PlanReader &plan, const LoopbackOptions &options);
  Status forEachDevice(const std::function<void(Device &)> &work);
  void runDevice(Device &device, LoopbackWorld &world);
  Status checkHeld(const Device &device) const;
  Status transfer(Device &device, Transport &transport);
  Result<LoopbackReport> report() const;
  void tell(const char *phase, std::atomic<size_t> &counter);

  const PlanReader &plan;
  const LoopbackOptions &options;
  std::vector<std::unique_ptr<Device>> devices;
  std::atomic<size_t> filled{0}, transferred{0}, checked{0};
};

/// Prepares a session and runs it once.
Result<LoopbackReport> runLoopback(const PlanReader &plan,
                                   const LoopbackOptions &options);

/// Bytes that `runLoopback` allocates, and bytes that this machine can give.
Result<uint64_t> loopbackBytes(const PlanReader &plan);
uint64_t availableBytes();

} // namespace dtrt

#endif // DTRT_WORLD_LOOPBACKRUN_H
