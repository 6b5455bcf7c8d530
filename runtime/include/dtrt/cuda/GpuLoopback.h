//===- GpuLoopback.h - A whole plan on one GPU ------------------*- C++ -*-===//

#ifndef DTRT_CUDA_GPULOOPBACK_H
#define DTRT_CUDA_GPULOOPBACK_H

#include "dtrt/core/ArenaStorage.h"
#include "dtrt/world/LoopbackRun.h"

namespace dtrt {

struct DriverApi;

/// Every device of a plan on one GPU, a thread each.
Result<LoopbackReport> runGpuLoopback(const PlanReader &plan, bool check,
                                      int gpu = 0);

/// A device's shards on the thread's GPU; in mode flat in a pool of pages of
/// their own (GpuPages.h). `driver`: null: the process's.
Result<std::unique_ptr<ArenaStorage>>
allocateGpuShards(const PlanCommon &common, const RankProgram &program,
                  const DriverApi *driver = nullptr);

/// For checked runs, of shards on a GPU: known values in the source, poison in
/// the destination; and the comparison afterwards.
Status fillGpuShards(LocalStorage &storage);
Status checkGpuShards(const LocalStorage &storage, CheckReport &report);

} // namespace dtrt

#endif // DTRT_CUDA_GPULOOPBACK_H
