//===- GpuCompression.h - Messages on a GPU in fewer bytes ------*- C++ -*-===//
//
// For compressed links (CompressedTransport.h) of tensors that lie on a GPU.
// With nvCOMP they are compressed there, and only what is left comes to the
// host; without it, or with a peer that has none, on the host.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_CUDA_GPUCOMPRESSION_H
#define DTRT_CUDA_GPUCOMPRESSION_H

#include "dtrt/transport/CompressedTransport.h"

#include <string>

namespace dtrt {

/// Why nvCOMP is not used here, in words; empty where it is.
std::string whyNoNvcomp();
CodecMemory gpuCodecMemory(int gpu);

} // namespace dtrt

#endif // DTRT_CUDA_GPUCOMPRESSION_H
