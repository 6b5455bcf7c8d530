//===- PoolEntries.cpp - The pool of pages for torch's allocator ----------===//
//
// torch.cuda.memory.CUDAPluggableAllocator finds these by their names in this
// module (python/dynatrain/hollow.py).
//
//===----------------------------------------------------------------------===//

#include "dtrt/cuda/GpuPoolEntries.h"

#define DTRT_EXPORTED extern "C" __attribute__((visibility("default")))

DTRT_EXPORTED void *dynatrain_allocate_pages(size_t bytes, int gpu,
                                             dtrt::GpuStream) {
  return dtrt::allocatePooled(bytes, gpu);
}

DTRT_EXPORTED void dynatrain_free_pages(void *start, size_t, int gpu,
                                        dtrt::GpuStream stream) {
  dtrt::freePooled(start, gpu, stream);
}
