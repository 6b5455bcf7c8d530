//===- LoopbackRun.h - A whole plan in one process --------------*- C++ -*-===//

#ifndef DTRT_LOOPBACKRUN_H
#define DTRT_LOOPBACKRUN_H

#include "dtrt/CheckPattern.h"
#include "dtrt/Executor.h"

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

/// Runs every program of the plan, a thread per device.
Result<LoopbackReport> runLoopback(const PlanReader &plan,
                                   const LoopbackOptions &options);

/// Bytes that `runLoopback` allocates, and bytes that this machine can give.
Result<uint64_t> loopbackBytes(const PlanReader &plan);
uint64_t availableBytes();

} // namespace dtrt

#endif // DTRT_LOOPBACKRUN_H
