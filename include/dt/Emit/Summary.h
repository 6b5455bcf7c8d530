//===- Summary.h - The numbers that a plan states ---------------*- C++ -*-===//

#ifndef DT_EMIT_SUMMARY_H
#define DT_EMIT_SUMMARY_H

#include "dt/Emit/Programs.h"

namespace dt {

/// Bytes that one device holds on each side, padding included.
struct DeviceBytes {
  int64_t source = 0, destination = 0, staging = 0;
  /// Rollback keeps both sides and the staging arena at once.
  int64_t peak() const { return source + destination + staging; }
};
std::map<int64_t, DeviceBytes>
deviceBytes(const ScheduledTransition &transition);

/// Bytes, times, memory and counts of a scheduled transition. Limits, mode and
/// proof fields are left to the caller. `transition.flows` must have cells.
dtrt::PlanSummary summarize(const ScheduledTransition &transition,
                            const Cluster &cluster);

} // namespace dt

#endif // DT_EMIT_SUMMARY_H
