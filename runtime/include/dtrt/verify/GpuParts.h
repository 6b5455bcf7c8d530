//===- GpuParts.h - What GPUs and NCCL have for a plan ----------*- C++ -*-===//

#ifndef DTRT_VERIFY_GPUPARTS_H
#define DTRT_VERIFY_GPUPARTS_H

#include "dtrt/format/PlanModel.h"
#include "dtrt/types/Status.h"

namespace dtrt {

/// Bytes that a device has beside its tensors and its staging when the plan
/// runs on GPUs over NCCL: at most, and all of the time.
struct GpuParts {
  uint64_t tables = 0; // of copies (CopyTable.h)
  uint64_t local = 0;  // NCCL's buffers (NcclBuffers.h), to and from the node
  uint64_t network = 0;
  uint64_t sum() const { return tables + local + network; }
};

Result<GpuParts> gpuPartsOf(const PlanCommon &common,
                            const RankProgram &program);

} // namespace dtrt

#endif // DTRT_VERIFY_GPUPARTS_H
