//===- GpuMemory.cpp - Memory of a GPU ------------------------------------===//

#include "dtrt/cuda/GpuMemory.h"
#include "dtrt/core/MemorySource.h"

#include "Stream.h"

#include <algorithm>
#include <mutex>

namespace dtrt {

Result<int> countGpus() {
  int count = 0;
  DTRT_RETURN_IF_ERROR(
      cudaStatus(cudaGetDeviceCount(&count), "no GPU can be used"));
  if (count == 0)
    return makeError(ErrorCode::System, "this machine has no GPU");
  return count;
}

Status useGpu(int gpu) {
  return cudaStatus(cudaSetDevice(gpu), "cannot use the GPU");
}

Result<int> currentGpu() {
  int gpu = 0;
  DTRT_RETURN_IF_ERROR(
      cudaStatus(cudaGetDevice(&gpu), "cannot query the current GPU"));
  return gpu;
}

Status awaitGpu(int gpu) {
  UseGpu use(gpu);
  return cudaStatus(cudaDeviceSynchronize(), "work on a GPU failed");
}

Result<GpuRoom> roomOn(int gpu) {
  UseGpu use(gpu);
  size_t free = 0, total = 0;
  DTRT_RETURN_IF_ERROR(cudaStatus(cudaMemGetInfo(&free, &total),
                                  "cannot query the memory of a GPU"));
  return GpuRoom{free, total};
}

namespace {

Result<int> gpuOr(std::optional<int> given) {
  return given ? Result<int>(*given) : currentGpu();
}

/// Memory in the order of a stream, so that nobody waits for the whole GPU when
/// it comes or goes. Copies of a source share it, on any threads.
class Pool {
public:
  explicit Pool(Result<int> gpu) : gpu(std::move(gpu)) {}
  ~Pool() {
    if (!pool)
      return;
    UseGpu use(*gpu);
    cudaMemPoolDestroy(pool);
  }

  std::byte *allocate(uint64_t bytes) {
    if (!gpu.ok())
      return nullptr;
    std::lock_guard<std::mutex> lock(mutex);
    UseGpu use(*gpu);
    void *block = nullptr;
    if (!create().ok() || cudaMallocFromPoolAsync(&block, bytes, pool,
                                                  stream.get()) != cudaSuccess)
      return nullptr;
    cudaMemsetAsync(block, 0, bytes, stream.get());
    if (stream.synchronize().ok())
      return static_cast<std::byte *>(block);
    giveBack(block);
    return nullptr;
  }

  void free(void *block) {
    std::lock_guard<std::mutex> lock(mutex);
    UseGpu use(*gpu);
    giveBack(block);
  }

private:
  void giveBack(void *block) {
    cudaFreeAsync(block, stream.get());
    (void)stream.synchronize(); // then the pool gives it back
  }
  Status create() {
    if (pool)
      return {};
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = *gpu;
    DTRT_RETURN_IF_ERROR(stream.create());
    return cudaStatus(cudaMemPoolCreate(&pool, &properties),
                      "cannot make a pool of GPU memory");
  }

  Result<int> gpu;
  std::mutex mutex; // of what follows
  Stream stream;
  cudaMemPool_t pool = nullptr;
};

} // namespace

MemorySource gpuMemory(std::optional<int> gpu) {
  auto pool = std::make_shared<Pool>(gpuOr(gpu));
  return {[pool](uint64_t bytes) { return pool->allocate(bytes); },
          [pool](std::byte *block) { pool->free(block); },
          {}};
}

MemorySource pinnedMemory() {
  auto allocate = [](uint64_t bytes) -> std::byte * {
    auto gpu = currentGpu();
    if (!gpu.ok())
      return nullptr;
    UseGpu use(*gpu);
    void *block = nullptr;
    if (cudaHostAlloc(&block, bytes, cudaHostAllocPortable) != cudaSuccess)
      return nullptr;
    std::fill_n(static_cast<std::byte *>(block), bytes, std::byte(0));
    return static_cast<std::byte *>(block);
  };
  auto free = [](std::byte *block) {
    auto gpu = currentGpu();
    UseGpu use(gpu.ok() ? *gpu : 0);
    cudaFreeHost(block);
  };
  return {allocate, free, {}};
}

CopyBytes gpuCopies(std::optional<int> given) {
  auto gpu = gpuOr(given);
  auto stream = std::make_shared<Stream>();
  Status made = statusOf(gpu);
  if (made.ok()) {
    UseGpu use(*gpu);
    made = stream->create();
  }
  return [=](std::byte *to, const std::byte *from, uint64_t bytes) -> Status {
    DTRT_RETURN_IF_ERROR(made);
    UseGpu use(*gpu);
    DTRT_RETURN_IF_ERROR(cudaStatus(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream->get()),
        "cannot copy"));
    return stream->synchronize();
  };
}

} // namespace dtrt
