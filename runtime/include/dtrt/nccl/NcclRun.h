//===- NcclRun.h - A plan as processes over NCCL ----------------*- C++ -*-===//
//
// A process per device of the plan, each with a GPU: the local rank's, modulo
// the GPUs of the machine. With more ranks than GPUs NCCL 2.30 and newer need
// NCCL_MULTI_RANK_GPU_ENABLE=1, older ones an NCCL_HOSTID of its own for each
// process; the launcher sets what applies, unless the user has.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_NCCL_NCCLRUN_H
#define DTRT_NCCL_NCCLRUN_H

#include "dtrt/world/LoopbackRun.h"

namespace dtrt {

struct DriverApi;
struct NcclApi;

struct NcclRunOptions {
  bool check = false;
  size_t rank = 0;
  size_t localRank = 0;
  /// A folder that all ranks see, empty when the run starts.
  std::string store;
  double timeoutSeconds = 60;
  /// The transfer as one graph, where the environment allows it.
  bool graph = false;
  /// NcclOptions::oneSided.
  bool oneSided = false;
  /// Null: the NCCL of this process.
  const NcclApi *api = nullptr;
  /// Null: the CUDA driver of this process.
  const DriverApi *driver = nullptr;
};

/// This process's part. Every rank gets the sums over all ranks, and the lines
/// that name the first wrong elements of its own.
Result<LoopbackReport> runNcclRank(const PlanReader &plan,
                                   const NcclRunOptions &options);

/// Starts `command` once per rank with RANK, WORLD_SIZE and LOCAL_RANK set, and
/// waits for all of them; the exit code of the first that failed, else 0.
Result<int> launchNcclRanks(const std::vector<std::string> &command,
                            size_t ranks, const NcclApi *api = nullptr);

} // namespace dtrt

#endif // DTRT_NCCL_NCCLRUN_H
