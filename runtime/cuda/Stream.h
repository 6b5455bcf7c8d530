//===- Stream.h - CUDA's handles, with owners -------------------*- C++ -*-===//

#ifndef DTRT_LIB_CUDA_STREAM_H
#define DTRT_LIB_CUDA_STREAM_H

#include "dtrt/types/Status.h"

#include <cuda_runtime_api.h>

namespace dtrt {

inline Status cudaStatus(cudaError_t error, const char *what) {
  if (error == cudaSuccess)
    return {};
  return makeError(error == cudaErrorMemoryAllocation ? ErrorCode::OutOfMemory
                                                      : ErrorCode::System,
                   what, ": ", cudaGetErrorString(error));
}

/// Another GPU than the thread's, for as long as this lives; and calls that do
/// not spoil a capture that another thread of the process has under way.
class UseGpu {
public:
  explicit UseGpu(int gpu) {
    cudaThreadExchangeStreamCaptureMode(&mode);
    if (cudaGetDevice(&before) == cudaSuccess && before != gpu)
      cudaSetDevice(gpu);
    else
      before = -1;
  }
  ~UseGpu() {
    if (before >= 0)
      cudaSetDevice(before);
    cudaThreadExchangeStreamCaptureMode(&mode);
  }
  UseGpu(const UseGpu &) = delete;
  UseGpu &operator=(const UseGpu &) = delete;

private:
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  int before = -1;
};

enum class Urgency { Least, Most };

/// A stream of its own, of the GPU in use, which waits for no other; null until
/// `create`.
class Stream {
public:
  Stream() = default;
  Stream(const Stream &) = delete;
  Stream &operator=(const Stream &) = delete;
  ~Stream() {
    if (handle)
      cudaStreamDestroy(handle);
  }
  Status create(Urgency urgency = Urgency::Least) {
    int least = 0, most = 0;
    DTRT_RETURN_IF_ERROR(
        cudaStatus(cudaDeviceGetStreamPriorityRange(&least, &most),
                   "cannot query the priorities of streams"));
    return cudaStatus(
        cudaStreamCreateWithPriority(&handle, cudaStreamNonBlocking,
                                     urgency == Urgency::Most ? most : least),
        "cannot create a stream");
  }
  cudaStream_t get() const { return handle; }
  Status synchronize() const {
    return cudaStatus(cudaStreamSynchronize(handle), "work on a GPU failed");
  }
  /// Whether all that was put on it has ended.
  Result<bool> idle() const {
    cudaError_t error = cudaStreamQuery(handle);
    if (error == cudaErrorNotReady)
      return false;
    DTRT_RETURN_IF_ERROR(cudaStatus(error, "work on a GPU failed"));
    return true;
  }
  /// Keeps it for good: work on it may never end.
  void leak() { handle = nullptr; }

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
  Status record(cudaStream_t stream) const {
    return cudaStatus(cudaEventRecord(handle, stream),
                      "cannot record an event");
  }
  /// What is put on the stream from now on waits for the last record.
  Status orderBefore(cudaStream_t stream) const {
    return cudaStatus(cudaStreamWaitEvent(stream, handle, 0),
                      "cannot order two streams");
  }
  cudaEvent_t get() const { return handle; }

private:
  cudaEvent_t handle = nullptr;
};

} // namespace dtrt

#endif // DTRT_LIB_CUDA_STREAM_H
