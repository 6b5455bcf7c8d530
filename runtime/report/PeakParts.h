//===- PeakParts.h - What a device holds when it holds most -----*- C++ -*-===//

#ifndef DTRT_REPORT_PEAKPARTS_H
#define DTRT_REPORT_PEAKPARTS_H

#include "dtrt/format/PlanReader.h"
#include "dtrt/verify/GpuParts.h"

namespace dtrt {

/// Bytes of a device at the first moment at which it holds most: the parts of
/// `peakBytes`. What stays (StayingStates.h) is of the source.
struct PeakParts {
  uint64_t source = 0, destination = 0, staging = 0;
  uint64_t sum() const { return source + destination + staging; }
};

PeakParts peakPartsOf(const PlanCommon &common, const RankProgram &program);

/// The device that holds most over NCCL.
struct GpuPeak {
  uint32_t device = 0;
  PeakParts parts;
  GpuParts beside;
  uint64_t sum() const { return parts.sum() + beside.sum(); }
};

/// Reads all programs.
Result<GpuPeak> gpuPeakOf(const PlanReader &plan);

} // namespace dtrt

#endif // DTRT_REPORT_PEAKPARTS_H
