//===- HashKernels.h - Hashes of regions on a GPU ---------------*- C++ -*-===//

#ifndef DTRT_LIB_CUDA_HASHKERNELS_H
#define DTRT_LIB_CUDA_HASHKERNELS_H

#include "dtrt/types/Status.h"

#include <cuda_runtime_api.h>

namespace dtrt {

struct HashRow;
/// Adds to the sum of each row, which lie on the GPU as the sums do.
Status launchHashes(const HashRow *rows, uint32_t count, uint64_t tiles,
                    uint32_t blocks, cudaStream_t stream);

} // namespace dtrt

#endif // DTRT_LIB_CUDA_HASHKERNELS_H
