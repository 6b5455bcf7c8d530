//===- FakeCudart.cpp - CUDA's runtime calls on the fake GPUs -------------===//
//
// Linked instead of libcudart. What our code does not call is not here, so that
// a new call is a linker's error until it has a meaning.
//
//===----------------------------------------------------------------------===//

#include "FakeDriver.h"
#include "FakeMachine.h"

#include <algorithm>
#include <cstring>

using namespace dtrt::test;

namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

FakeMachine &machine() { return FakeMachine::get(); }

cudaError_t said(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady)
    fakeThread().last = error;
  return error;
}

/// A call's body, with the machine to itself.
template <typename Body> cudaError_t call(Body body) {
  Lock lock(machine().mutex);
  cudaError_t error = machine().enter();
  return said(error == cudaSuccess ? body() : error);
}

/// Likewise, of a call that may spoil a capture.
template <typename Body> cudaError_t unsafeCall(const char *name, Body body) {
  return call([&]() -> cudaError_t {
    cudaError_t error = machine().unsafe(name);
    return error == cudaSuccess ? body() : error;
  });
}

cudaError_t put(cudaStream_t handle, const char *what, FakeMake make,
                unsigned blocks = 0) {
  FakeStream *stream = machine().streamOf(handle, what);
  if (!stream)
    return cudaErrorInvalidResourceHandle;
  FakeOperation operation;
  operation.what = what;
  operation.make = std::move(make);
  return machine().put(*stream, std::move(operation), blocks);
}

cudaError_t copyOn(void *to, const void *from, size_t bytes,
                   cudaStream_t stream) {
  FakeStream *found = machine().streamOf(stream, "cudaMemcpyAsync");
  if (!found)
    return cudaErrorInvalidResourceHandle;
  int gpu = found->gpu;
  auto touch = [gpu, bytes](const void *data) {
    if (machine().blockOf(data) != machine().blocks.end())
      return touchFakeMemory(data, bytes, gpu, "a copy");
    return touchFakePages(data, bytes, gpu, "a copy", machine().running)
        .value_or(true);
  };
  return put(stream, "copy", [=]() -> FakeWork {
    return [=] {
      bool there = touch(to);
      if (touch(from) && there)
        memmove(to, from, bytes);
      return true;
    };
  });
}

cudaError_t setOn(void *data, int value, size_t bytes, cudaStream_t stream) {
  FakeStream *found = machine().streamOf(stream, "cudaMemsetAsync");
  if (!found)
    return cudaErrorInvalidResourceHandle;
  int gpu = found->gpu;
  return put(stream, "set", [=]() -> FakeWork {
    return [=] {
      if (touchFakeMemory(data, bytes, gpu, "cudaMemsetAsync"))
        memset(data, value, bytes);
      return true;
    };
  });
}

cudaError_t makeStream(cudaStream_t *handle, unsigned flags, int priority) {
  if (flags != cudaStreamNonBlocking)
    machine().fault("a stream is made that waits for the legacy stream");
  static constexpr double kHaste[] = {0.02, 1, 50};
  auto *stream = new FakeStream;
  stream->number = ++machine().created;
  stream->gpu = fakeThread().gpu;
  stream->priority = priority;
  stream->haste = kHaste[machine().random() % 3];
  machine().streams.insert(stream);
  *handle = reinterpret_cast<cudaStream_t>(stream);
  return cudaSuccess;
}

} // namespace

//===----------------------------------------------------------------------===//
// GPUs and errors
//===----------------------------------------------------------------------===//

cudaError_t cudaGetDeviceCount(int *count) {
  return call([&] {
    *count = machine().options.gpus;
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaDriverGetVersion(int *version) {
  return call([&] {
    *version = machine().options.driver;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int *gpu) {
  return call([&] {
    *gpu = fakeThread().gpu;
    return machine().options.gpus > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaSetDevice(int gpu) {
  return call([&] {
    if (gpu < 0 || gpu >= machine().options.gpus)
      return cudaErrorInvalidDevice;
    fakeThread().gpu = gpu;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int) {
  return call([&] {
    *value = attribute == cudaDevAttrMultiProcessorCount
                 ? machine().options.multiprocessors
                 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return unsafeCall("cudaDeviceSynchronize", [] {
    machine().fault("cudaDeviceSynchronize waits for all that a trainer has "
                    "under way");
    int gpu = fakeThread().gpu;
    machine().runUntil([gpu] { return machine().pending(gpu) == 0; },
                       "cudaDeviceSynchronize");
    return cudaSuccess;
  });
}

cudaError_t cudaGetLastError() {
  cudaError_t error = fakeThread().last;
  fakeThread().last = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() { return fakeThread().last; }

const char *cudaGetErrorString(cudaError_t error) {
  switch (error) {
  case cudaSuccess:
    return "no error";
  case cudaErrorNoDevice:
    return "no CUDA-capable device is detected";
  case cudaErrorInitializationError:
    return "initialization error";
  case cudaErrorStreamCaptureUnsupported:
    return "operation not permitted when stream is capturing";
  case cudaErrorMemoryAllocation:
    return "out of memory";
  default:
    return "an error";
  }
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode) {
  std::swap(*mode, fakeThread().mode);
  return cudaSuccess;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

cudaError_t cudaMalloc(void **data, size_t bytes) {
  return unsafeCall("cudaMalloc", [&] {
    *data = machine().allocate(bytes, fakeThread().gpu, false);
    return cudaSuccess;
  });
}

cudaError_t cudaFree(void *data) {
  return unsafeCall("cudaFree", [&] {
    if (!data)
      return cudaSuccess;
    if (machine().pending(fakeThread().gpu) > 0)
      machine().fault("cudaFree waits for all that is under way on the GPU");
    return machine().free(data, "cudaFree") ? cudaSuccess
                                            : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  return call([&] {
    const uint64_t most = machine().options.freeBytes;
    *free = size_t(most - std::min(most, fakeDriverCounts().bytes));
    *total = size_t(16) << 30;
    return cudaSuccess;
  });
}

cudaError_t cudaHostAlloc(void **data, size_t bytes, unsigned) {
  return unsafeCall("cudaHostAlloc", [&] {
    *data = machine().allocate(bytes, -1, false);
    return cudaSuccess;
  });
}

cudaError_t cudaFreeHost(void *data) {
  return unsafeCall("cudaFreeHost", [&] {
    if (!data)
      return cudaSuccess;
    return machine().free(data, "cudaFreeHost") ? cudaSuccess
                                                : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool,
                              const cudaMemPoolProps *properties) {
  return call([&] {
    auto *gpu = new int(properties->location.id);
    machine().pools.insert(gpu);
    *pool = reinterpret_cast<cudaMemPool_t>(gpu);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return call([&] {
    auto *gpu = reinterpret_cast<int *>(pool);
    if (!machine().pools.erase(gpu))
      return cudaErrorInvalidValue;
    delete gpu;
    return cudaSuccess;
  });
}

cudaError_t cudaMallocFromPoolAsync(void **data, size_t bytes,
                                    cudaMemPool_t pool, cudaStream_t stream) {
  return call([&] {
    if (!machine().pools.count(pool) ||
        !machine().streamOf(stream, "cudaMallocFromPoolAsync"))
      return cudaErrorInvalidValue;
    *data = machine().allocate(bytes, *reinterpret_cast<int *>(pool), false);
    return cudaSuccess;
  });
}

cudaError_t cudaFreeAsync(void *data, cudaStream_t stream) {
  return call([&] {
    return put(stream, "free", [data]() -> FakeWork {
      return [data] {
        machine().free(data, "cudaFreeAsync");
        return true;
      };
    });
  });
}

cudaError_t cudaMemset(void *data, int value, size_t bytes) {
  return unsafeCall("cudaMemset", [&] {
    machine().fault("cudaMemset on the legacy stream");
    memset(data, value, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaMemsetAsync(void *data, int value, size_t bytes,
                            cudaStream_t stream) {
  return call([&] { return setOn(data, value, bytes, stream); });
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            cudaMemcpyKind, cudaStream_t stream) {
  return call([&] { return copyOn(to, from, bytes, stream); });
}

//===----------------------------------------------------------------------===//
// Streams and events
//===----------------------------------------------------------------------===//

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  return call([&] { return makeStream(stream, flags, 0); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                         int priority) {
  return call([&] { return makeStream(stream, flags, priority); });
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return call([&] {
    FakeStream *stream = machine().streamOf(handle, "cudaStreamDestroy");
    if (!stream)
      return cudaErrorInvalidResourceHandle;
    if (!stream->queue.empty())
      machine().fault("a stream is destroyed with work on it");
    machine().streams.erase(stream);
    delete stream;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return unsafeCall("cudaStreamQuery", [&] {
    FakeStream *stream = machine().streamOf(handle, "cudaStreamQuery");
    if (!stream)
      return cudaErrorInvalidResourceHandle;
    machine().glance();
    return stream->queue.empty() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return unsafeCall("cudaStreamSynchronize", [&] {
    FakeStream *stream = machine().streamOf(handle, "cudaStreamSynchronize");
    if (!stream)
      return cudaErrorInvalidResourceHandle;
    return machine().runUntil([&] { return stream->queue.empty(); },
                              "cudaStreamSynchronize")
               ? cudaSuccess
               : cudaErrorLaunchTimeout;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event,
                                unsigned) {
  return call([&] {
    FakeStream *stream = machine().streamOf(handle, "cudaStreamWaitEvent");
    FakeEvent *found = machine().eventOf(event, "cudaStreamWaitEvent");
    return stream && found ? machine().wait(*stream, *found)
                           : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *handle, unsigned) {
  return call([&] {
    auto *event = new FakeEvent;
    event->gpu = fakeThread().gpu;
    machine().events.insert(event);
    *handle = reinterpret_cast<cudaEvent_t>(event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return call([&] {
    FakeEvent *event = machine().eventOf(handle, "cudaEventDestroy");
    if (!event)
      return cudaErrorInvalidResourceHandle;
    machine().events.erase(event);
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
  return call([&] {
    FakeEvent *event = machine().eventOf(handle, "cudaEventRecord");
    FakeStream *found = machine().streamOf(stream, "cudaEventRecord");
    return event && found ? machine().record(*found, *event)
                          : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return unsafeCall("cudaEventQuery", [&] {
    FakeEvent *event = machine().eventOf(handle, "cudaEventQuery");
    if (!event)
      return cudaErrorInvalidResourceHandle;
    if (!event->mark)
      machine().fault("cudaEventQuery of an event that nobody has recorded");
    machine().glance();
    return !event->mark || event->mark->reached ? cudaSuccess
                                                : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return unsafeCall("cudaEventSynchronize", [&] {
    FakeEvent *event = machine().eventOf(handle, "cudaEventSynchronize");
    if (!event)
      return cudaErrorInvalidResourceHandle;
    auto mark = event->mark;
    return machine().runUntil([&] { return !mark || mark->reached; },
                              "cudaEventSynchronize")
               ? cudaSuccess
               : cudaErrorLaunchTimeout;
  });
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

cudaError_t cudaStreamBeginCapture(cudaStream_t handle,
                                   cudaStreamCaptureMode mode) {
  return call([&] {
    FakeStream *stream = machine().streamOf(handle, "cudaStreamBeginCapture");
    return stream ? machine().beginCapture(*stream, mode)
                  : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph) {
  return call([&] {
    FakeStream *stream = machine().streamOf(handle, "cudaStreamEndCapture");
    if (!stream)
      return cudaErrorInvalidResourceHandle;
    FakeGraph *made = nullptr;
    cudaError_t error = machine().endCapture(*stream, made);
    *graph = reinterpret_cast<cudaGraph_t>(made);
    return error;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle,
                                  cudaStreamCaptureStatus *status) {
  return call([&] {
    FakeStream *stream = machine().streamOf(handle, "cudaStreamIsCapturing");
    if (!stream)
      return cudaErrorInvalidResourceHandle;
    *status = stream->graph ? cudaStreamCaptureStatusActive
                            : cudaStreamCaptureStatusNone;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph,
                                 unsigned long long) {
  return unsafeCall("cudaGraphInstantiate", [&] {
    auto *made = new FakeGraph(*reinterpret_cast<FakeGraph *>(graph));
    machine().executables.insert(made);
    *executable = reinterpret_cast<cudaGraphExec_t>(made);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return call([&] {
    auto *graph = reinterpret_cast<FakeGraph *>(executable);
    if (!machine().executables.count(graph))
      return cudaErrorInvalidValue;
    return put(stream, "graph", machine().makeGraphRun(*graph));
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call([&] {
    auto *found = reinterpret_cast<FakeGraph *>(graph);
    if (!machine().graphs.erase(found))
      return cudaErrorInvalidValue;
    delete found;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return call([&] {
    auto *found = reinterpret_cast<FakeGraph *>(executable);
    if (!machine().executables.erase(found))
      return cudaErrorInvalidValue;
    delete found;
    return cudaSuccess;
  });
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

namespace {

struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> tlsConfigurations;

cudaError_t launch(const void *stub, dim3 grid, dim3 block, void **arguments,
                   cudaStream_t stream) {
  return call([&] {
    const std::string &name = machine().kernelNames[stub];
    FakeStream *found = machine().streamOf(stream, "a kernel's launch");
    if (!found)
      return cudaErrorInvalidResourceHandle;
    if (found->gpu != fakeThread().gpu) {
      machine().fault("a kernel is launched on a stream of another GPU");
      return cudaErrorInvalidResourceHandle;
    }
    for (const auto &[part, kernel] : machine().kernels)
      if (name.find(part) != std::string::npos)
        return put(stream, ("kernel " + part).c_str(),
                   kernel({grid.x, block.x, found->gpu, arguments}), grid.x);
    machine().fault("kernel " + name + " has no body");
    return cudaErrorInvalidDeviceFunction;
  });
}

} // namespace

extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block,
                                                size_t shared,
                                                cudaStream_t stream) {
  tlsConfigurations.push_back({grid, block, shared, stream});
  return 0;
}

extern "C" cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block,
                                                  size_t *shared,
                                                  void *stream) {
  Configuration &last = tlsConfigurations.back();
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared;
  *static_cast<cudaStream_t *>(stream) = last.stream;
  tlsConfigurations.pop_back();
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *stub, dim3 grid, dim3 block,
                             void **arguments, size_t, cudaStream_t stream) {
  return launch(stub, grid, block, arguments, stream);
}

/// The handle of a kernel is its stub.
extern "C" cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void *>(stub));
  return cudaSuccess;
}

extern "C" cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid,
                                          dim3 block, void **arguments, size_t,
                                          cudaStream_t stream) {
  return launch(kernel, grid, block, arguments, stream);
}

extern "C" void **__cudaRegisterFatBinary(void *) {
  static void *handle = nullptr;
  return &handle;
}

extern "C" void __cudaRegisterFatBinaryEnd(void **) {}
extern "C" void __cudaUnregisterFatBinary(void **) {}

extern "C" void __cudaRegisterFunction(void **, const char *stub, char *,
                                       const char *name, int, uint3 *, uint3 *,
                                       dim3 *, dim3 *, int *) {
  machine().kernelNames[stub] = name;
}
