//===- GpuDigests.h - Messages compared on the GPU --------------*- C++ -*-===//

#ifndef DTRT_CUDA_GPUDIGESTS_H
#define DTRT_CUDA_GPUDIGESTS_H

#include "dtrt/transport/StreamTransport.h"

#include <memory>

namespace dtrt {

/// A transport around a transport: regions of messages are hashed on the GPU at
/// both ends, and compared when the transfer has ended. The error names the
/// first tensor, state and bytes that differ.
std::unique_ptr<StreamTransport>
makeGpuDigestTransport(std::unique_ptr<StreamTransport> inner);

} // namespace dtrt

#endif // DTRT_CUDA_GPUDIGESTS_H
