//===- GpuPoolEntries.cpp - The process's pools of pages ------------------===//

#include "dtrt/cuda/GpuPoolEntries.h"

#include "Stream.h"

#include <map>
#include <mutex>

namespace dtrt {

namespace {

/// Never destroyed: tensors may outlive all else, and the driver too.
struct Pools {
  std::mutex mutex;
  std::map<int, std::shared_ptr<GpuPages>> byGpu;

  static Pools &get() {
    static auto *pools = new Pools;
    return *pools;
  }
};

Result<std::byte *> allocate(uint64_t bytes, int gpu) {
  auto pool = processPages(gpu);
  DTRT_RETURN_IF_ERROR(pool);
  auto start = (*pool)->reserve(bytes);
  DTRT_RETURN_IF_ERROR(start);
  Status there = (*pool)->hold(*start, bytes);
  if (!there.ok())
    (void)(*pool)->free(*start);
  DTRT_RETURN_IF_ERROR(there);
  return start;
}

} // namespace

Result<std::shared_ptr<GpuPages>> processPages(int gpu, const DriverApi *api) {
  Pools &pools = Pools::get();
  std::lock_guard<std::mutex> lock(pools.mutex);
  auto &pool = pools.byGpu[gpu];
  if (!pool) {
    auto made = GpuPages::create(gpu, UINT64_MAX, api);
    DTRT_RETURN_IF_ERROR(made);
    pool = std::move(*made);
  }
  return pool;
}

void *allocatePooled(uint64_t bytes, int gpu) {
  auto start = allocate(bytes, gpu);
  return start.ok() ? *start : nullptr;
}

void freePooled(void *start, int gpu, GpuStream stream) {
  auto pool = processPages(gpu);
  if (!start || !pool.ok())
    return;
  {
    UseGpu use(gpu);
    cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(stream));
  }
  (void)(*pool)->free(static_cast<std::byte *>(start));
}

} // namespace dtrt
