//===- NcclApi.h - The NCCL calls of the transports -------------*- C++ -*-===//
//
// NCCL is loaded when it is first used: what links this starts without it, and
// a Python process uses the copy that torch has loaded. Tests put functions of
// their own into the table. What came after NCCL 2.19 is optional, and declared
// here, so that an older header will do.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_NCCL_NCCLAPI_H
#define DTRT_LIB_NCCL_NCCLAPI_H

#include "dtrt/types/Status.h"

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
                      apply(MemFree) apply(CommSplit) apply(Broadcast)         \
                          apply(AllGather)

/// ncclWindow_t.
using NcclWindow = void *;
constexpr int kNcclWindowSymmetric = 0x01;
/// ncclWaitSignalDesc_t.
struct NcclSignalWait {
  int count = 0; // of signals
  int peer = 0;
  int signal = 0;
  int context = 0;
};

struct NcclApi {
#define DTRT_NCCL_POINTER(name) decltype(&::nccl##name) name = nullptr;
  DTRT_NCCL_FUNCTIONS(DTRT_NCCL_POINTER)
#undef DTRT_NCCL_POINTER

  // Since 2.28; null where the library is older.
  ncclResult_t (*AlltoAll)(const void *, void *, size_t count, ncclDataType_t,
                           ncclComm_t, cudaStream_t) = nullptr;

  // Since 2.29.
  ncclResult_t (*CommWindowRegister)(ncclComm_t, void *, size_t, NcclWindow *,
                                     int flags) = nullptr;
  ncclResult_t (*CommWindowDeregister)(ncclComm_t, NcclWindow) = nullptr;
  ncclResult_t (*PutSignal)(const void *, size_t, ncclDataType_t, int peer,
                            NcclWindow, size_t offset, int signal, int context,
                            unsigned flags, ncclComm_t, cudaStream_t) = nullptr;
  ncclResult_t (*Signal)(int peer, int signal, int context, unsigned flags,
                         ncclComm_t, cudaStream_t) = nullptr;
  ncclResult_t (*WaitSignal)(int count, NcclSignalWait *, ncclComm_t,
                             cudaStream_t) = nullptr;

  /// NCCL_VERSION_CODE of the library.
  int version() const;
};

/// The process's NCCL; fails, with the loader's words, where there is none or
/// it lacks a function.
Result<const NcclApi *> loadNccl();

} // namespace dtrt

#endif // DTRT_LIB_NCCL_NCCLAPI_H
