//===- NcclApi.h - The NCCL and CUDA calls of the transport -----*- C++ -*-===//
//
// NCCL is loaded when it is first used: what links this starts without it, and
// a Python process uses the copy that torch has loaded. Tests put functions of
// their own into the table.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_NCCL_NCCLAPI_H
#define DTRT_LIB_NCCL_NCCLAPI_H

#include "dtrt/Status.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

namespace dtrt {

/// NCCL's functions without their prefix.
#define DTRT_NCCL_FUNCTIONS(apply)                                             \
  apply(GetVersion) apply(GetUniqueId) apply(GetErrorString)                   \
      apply(GetLastError) apply(CommInitRankConfig) apply(CommGetAsyncError)   \
          apply(CommAbort) apply(CommFinalize) apply(CommDestroy)              \
              apply(CommRegister) apply(CommDeregister) apply(GroupStart)      \
                  apply(GroupEnd) apply(Send) apply(Recv) apply(MemAlloc)      \
                      apply(MemFree)

struct NcclApi {
#define DTRT_NCCL_POINTER(name) decltype(&::nccl##name) name = nullptr;
  DTRT_NCCL_FUNCTIONS(DTRT_NCCL_POINTER)
#undef DTRT_NCCL_POINTER
  cudaError_t (*makeStream)(cudaStream_t *) = nullptr;
  cudaError_t (*queryStream)(cudaStream_t) = nullptr;
  cudaError_t (*freeStream)(cudaStream_t) = nullptr;
  cudaError_t (*allocate)(void **, size_t) = nullptr;
  cudaError_t (*free)(void *) = nullptr;
};

/// The process's NCCL; fails, with the loader's words, where there is none or
/// it lacks a function.
Result<const NcclApi *> loadNccl();

} // namespace dtrt

#endif // DTRT_LIB_NCCL_NCCLAPI_H
