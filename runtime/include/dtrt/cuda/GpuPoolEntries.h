//===- GpuPoolEntries.h - The process's pools of pages ----------*- C++ -*-===//

#ifndef DTRT_CUDA_GPUPOOLENTRIES_H
#define DTRT_CUDA_GPUPOOLENTRIES_H

#include "dtrt/cuda/GpuPages.h"
#include "dtrt/transport/StreamTransport.h"

namespace dtrt {

/// The pool of this process on a GPU, which is made when it is first asked for
/// and never goes. `api`: of a pool that has yet to be made; null: the
/// process's driver.
Result<std::shared_ptr<GpuPages>> processPages(int gpu,
                                               const DriverApi *api = nullptr);

/// What torch.cuda.memory.CUDAPluggableAllocator calls: memory of that pool,
/// null where there is none; and its end, when what is on the stream has ended.
void *allocatePooled(uint64_t bytes, int gpu);
void freePooled(void *start, int gpu, GpuStream stream);

} // namespace dtrt

#endif // DTRT_CUDA_GPUPOOLENTRIES_H
