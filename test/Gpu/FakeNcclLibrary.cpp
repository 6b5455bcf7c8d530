//===- FakeNcclLibrary.cpp - The stand-in as a libnccl.so.2 ---------------===//
//
// For programs that load NCCL by its name: its calls, which the program itself
// has (FakeNccl.cpp).
//
//===----------------------------------------------------------------------===//

#include "FakeNccl.h"

using dtrt::test::fakeNccl;

#define FORWARD(name, parameters, arguments)                                   \
  ncclResult_t nccl##name parameters { return fakeNccl().name arguments; }
#define FORWARD_TEXT(name, parameters, arguments)                              \
  const char *nccl##name parameters { return fakeNccl().name arguments; }

extern "C" {
FORWARD(GetVersion, (int *version), (version))
FORWARD(GetUniqueId, (ncclUniqueId * id), (id))
FORWARD_TEXT(GetErrorString, (ncclResult_t result), (result))
FORWARD_TEXT(GetLastError, (ncclComm_t comm), (comm))
FORWARD(CommInitRankConfig,
        (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank,
         ncclConfig_t *config),
        (comm, ranks, id, rank, config))
FORWARD(CommGetAsyncError, (ncclComm_t comm, ncclResult_t *result),
        (comm, result))
FORWARD(CommAbort, (ncclComm_t comm), (comm))
FORWARD(CommFinalize, (ncclComm_t comm), (comm))
FORWARD(CommDestroy, (ncclComm_t comm), (comm))
FORWARD(CommRegister,
        (const ncclComm_t comm, void *data, size_t bytes, void **handle),
        (comm, data, bytes, handle))
FORWARD(CommDeregister, (const ncclComm_t comm, void *handle), (comm, handle))
FORWARD(GroupStart, (), ())
FORWARD(GroupEnd, (), ())
FORWARD(Send,
        (const void *data, size_t count, ncclDataType_t type, int peer,
         ncclComm_t comm, cudaStream_t stream),
        (data, count, type, peer, comm, stream))
FORWARD(Recv,
        (void *data, size_t count, ncclDataType_t type, int peer,
         ncclComm_t comm, cudaStream_t stream),
        (data, count, type, peer, comm, stream))
FORWARD(MemAlloc, (void **at, size_t bytes), (at, bytes))
FORWARD(MemFree, (void *at), (at))
FORWARD(CommSplit,
        (ncclComm_t comm, int color, int key, ncclComm_t *split,
         ncclConfig_t *config),
        (comm, color, key, split, config))
FORWARD(Broadcast,
        (const void *from, void *to, size_t count, ncclDataType_t type,
         int root, ncclComm_t comm, cudaStream_t stream),
        (from, to, count, type, root, comm, stream))
FORWARD(AllGather,
        (const void *from, void *to, size_t count, ncclDataType_t type,
         ncclComm_t comm, cudaStream_t stream),
        (from, to, count, type, comm, stream))
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
FORWARD(AlltoAll,
        (const void *from, void *to, size_t count, ncclDataType_t type,
         ncclComm_t comm, cudaStream_t stream),
        (from, to, count, type, comm, stream))
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 2)
FORWARD(CommWindowRegister,
        (ncclComm_t comm, void *data, size_t bytes, ncclWindow_t *window,
         int flags),
        (comm, data, bytes, reinterpret_cast<void **>(window), flags))
FORWARD(CommWindowDeregister, (ncclComm_t comm, ncclWindow_t window),
        (comm, window))
FORWARD(PutSignal,
        (const void *data, size_t count, ncclDataType_t type, int peer,
         ncclWindow_t window, size_t offset, int signal, int context,
         unsigned flags, ncclComm_t comm, cudaStream_t stream),
        (data, count, type, peer, window, offset, signal, context, flags, comm,
         stream))
FORWARD(Signal,
        (int peer, int signal, int context, unsigned flags, ncclComm_t comm,
         cudaStream_t stream),
        (peer, signal, context, flags, comm, stream))
FORWARD(WaitSignal,
        (int count, ncclWaitSignalDesc_t *waits, ncclComm_t comm,
         cudaStream_t stream),
        (count, reinterpret_cast<dtrt::NcclSignalWait *>(waits), comm, stream))
#endif
}
