//===- GpuLoopback.h - A whole plan on one GPU ------------------*- C++ -*-===//

#ifndef DTRT_CUDA_GPULOOPBACK_H
#define DTRT_CUDA_GPULOOPBACK_H

#include "dtrt/core/ArenaStorage.h"
#include "dtrt/world/LoopbackRun.h"

namespace dtrt {

class GpuPages;
struct DriverApi;

/// Every device of a plan on one GPU, a thread each. `pages`: in mode flat the
/// pool of all devices (GpuPages.h); null: each has one of its own.
Result<LoopbackReport>
runGpuLoopback(const PlanReader &plan, bool check, int gpu = 0,
               const std::shared_ptr<GpuPages> &pages = nullptr);

/// A device's shards on the thread's GPU; in mode flat in `pages`, or where
/// that is null in a pool of their own. `driver`: null: the process's.
Result<std::unique_ptr<ArenaStorage>>
allocateGpuShards(const PlanCommon &common, const RankProgram &program,
                  std::shared_ptr<GpuPages> pages = nullptr,
                  const DriverApi *driver = nullptr);

/// For checked runs, of shards on a GPU: known values in the source, poison in
/// the destination; and the comparison afterwards.
Status fillGpuShards(LocalStorage &storage);
Status checkGpuShards(const LocalStorage &storage, CheckReport &report);

} // namespace dtrt

#endif // DTRT_CUDA_GPULOOPBACK_H
