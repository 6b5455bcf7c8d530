//===- BoxKernels.h - Strided copies on a GPU -------------------*- C++ -*-===//

#ifndef DTRT_LIB_CUDA_BOXKERNELS_H
#define DTRT_LIB_CUDA_BOXKERNELS_H

#include "dtrt/core/BoxCopy.h"

#include <cuda_runtime_api.h>

namespace dtrt {

Result<uint32_t> multiprocessors(int gpu);
/// Blocks of box copies that a GPU runs at a time.
Result<uint32_t> fullGrid(int gpu);
/// One launch for the rows, which lie on the GPU; at most `blocks` blocks of
/// threads share them. Nothing is moved where `stopped`, unless null, is not 0
/// when the launch starts to run.
Status launchBoxCopies(const BoxCopy *rows, uint32_t count, uint64_t tiles,
                       uint32_t blocks, cudaStream_t stream,
                       const volatile uint64_t *stopped = nullptr);

} // namespace dtrt

#endif // DTRT_LIB_CUDA_BOXKERNELS_H
