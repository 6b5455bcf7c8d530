//===- Stream.h - CUDA's handles, with owners -------------------*- C++ -*-===//

#ifndef DTRT_LIB_CUDA_STREAM_H
#define DTRT_LIB_CUDA_STREAM_H

#include "dtrt/BoxCopy.h"

#include <cuda_runtime_api.h>

namespace dtrt {

inline Status cudaStatus(cudaError_t error, const char *what) {
  if (error == cudaSuccess)
    return {};
  return makeError(error == cudaErrorMemoryAllocation ? ErrorCode::OutOfMemory
                                                      : ErrorCode::System,
                   what, ": ", cudaGetErrorString(error));
}

/// A stream of its own, of the GPU in use; null until `create`.
class Stream {
public:
  Stream() = default;
  Stream(const Stream &) = delete;
  Stream &operator=(const Stream &) = delete;
  ~Stream() {
    if (handle)
      cudaStreamDestroy(handle);
  }
  Status create() {
    return cudaStatus(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking),
                      "cannot create a stream");
  }
  cudaStream_t get() const { return handle; }

private:
  cudaStream_t handle = nullptr;
};

class Event {
public:
  Event() = default;
  Event(Event &&other) noexcept : handle(other.handle) {
    other.handle = nullptr;
  }
  ~Event() {
    if (handle)
      cudaEventDestroy(handle);
  }
  Status create() {
    return cudaStatus(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming),
                      "cannot create an event");
  }
  cudaEvent_t get() const { return handle; }

private:
  cudaEvent_t handle = nullptr;
};

/// One launch for the whole table, whose rows lie on the device.
Status launchBoxCopies(const std::byte *rows, uint32_t count, uint64_t tiles,
                       cudaStream_t stream);

} // namespace dtrt

#endif // DTRT_LIB_CUDA_STREAM_H
