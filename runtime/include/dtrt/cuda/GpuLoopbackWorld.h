//===- GpuLoopbackWorld.h - Devices that are threads, on GPUs ---*- C++ -*-===//

#ifndef DTRT_CUDA_GPULOOPBACKWORLD_H
#define DTRT_CUDA_GPULOOPBACKWORLD_H

#include "dtrt/transport/StreamTransport.h"

#include <memory>
#include <vector>

namespace dtrt {

/// The ends of a world whose devices are threads of this process that share one
/// GPU or more. The wire is a copy from memory to memory, behind what the
/// sender has enqueued.
class GpuLoopbackWorld {
public:
  explicit GpuLoopbackWorld(const std::vector<uint32_t> &devices);
  ~GpuLoopbackWorld();
  GpuLoopbackWorld(const GpuLoopbackWorld &) = delete;
  GpuLoopbackWorld &operator=(const GpuLoopbackWorld &) = delete;

  /// On the GPU of the thread that calls its `connect`.
  StreamTransport &endpoint(uint32_t device);

private:
  struct State;
  class Endpoint;
  std::unique_ptr<State> state;
};

} // namespace dtrt

#endif // DTRT_CUDA_GPULOOPBACKWORLD_H
