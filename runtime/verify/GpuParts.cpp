//===- GpuParts.cpp - What GPUs and NCCL have for a plan ------------------===//

#include "dtrt/verify/GpuParts.h"

#include "dtrt/core/CopyTable.h"
#include "dtrt/core/NcclPeers.h"

namespace dtrt {

Result<GpuParts> gpuPartsOf(const PlanCommon &common,
                            const RankProgram &program) {
  auto tables = copyTableBytes(common, program);
  DTRT_RETURN_IF_ERROR(tables);
  NcclBuffers buffers =
      ncclBuffersOf(ncclPeersOf(common, program),
                    mostNcclTerms(common.cluster, hasSeveralNodes(common)));
  return GpuParts{*tables, buffers.local, buffers.network};
}

} // namespace dtrt
