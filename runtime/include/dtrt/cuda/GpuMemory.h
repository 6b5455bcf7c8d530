//===- GpuMemory.h - GPUs and their memory ----------------------*- C++ -*-===//
//
// No CUDA header is needed to use this, or any other of this folder.
//
// A GPU is that of the thread which asks for something, then; later calls may
// come from any thread. Nothing here uses the legacy stream, waits for a whole
// GPU, or spoils a capture that another thread has under way.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_CUDA_GPUMEMORY_H
#define DTRT_CUDA_GPUMEMORY_H

#include "dtrt/core/MemorySource.h"
#include "dtrt/transport/HostStagedTransport.h"

#include <optional>

namespace dtrt {

/// GPUs of this machine; fails, with the driver's words, when there are none.
Result<int> countGpus();
/// The calling thread's GPU from now on.
Status useGpu(int gpu);
Result<int> currentGpu();
/// Until all that anybody has put on the GPU has ended: for memory that a
/// trainer frees, and nothing else.
Status awaitGpu(int gpu);
/// Bytes of a GPU's memory.
struct GpuRoom {
  uint64_t free = 0, total = 0;
};
Result<GpuRoom> roomOn(int gpu);
/// Zeroed memory of the thread's GPU, or of the one that is named; from a pool
/// of its own, which goes with the last block.
MemorySource gpuMemory(std::optional<int> gpu = {});
/// Memory of the host that GPUs reach without a copy in between.
MemorySource pinnedMemory();
/// Copies between any two of host and GPU memory, on a stream of their own;
/// done when they return.
CopyBytes gpuCopies(std::optional<int> gpu = {});

} // namespace dtrt

#endif // DTRT_CUDA_GPUMEMORY_H
