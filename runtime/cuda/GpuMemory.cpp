//===- GpuMemory.cpp - Memory of a GPU ------------------------------------===//

#include "dtrt/Cuda.h"

#include "Stream.h"

namespace dtrt {

Result<int> countGpus() {
  int count = 0;
  DTRT_RETURN_IF_ERROR(
      cudaStatus(cudaGetDeviceCount(&count), "no GPU can be used"));
  if (count == 0)
    return makeError("this machine has no GPU");
  return count;
}

Status useGpu(int gpu) {
  return cudaStatus(cudaSetDevice(gpu), "cannot use the GPU");
}

Result<int> currentGpu() {
  int gpu = 0;
  DTRT_RETURN_IF_ERROR(
      cudaStatus(cudaGetDevice(&gpu), "cannot tell the GPU in use"));
  return gpu;
}

MemorySource gpuMemory() {
  auto allocate = [](uint64_t bytes) -> std::byte * {
    void *block = nullptr;
    if (cudaMalloc(&block, bytes) != cudaSuccess)
      return nullptr;
    // Other streams do not wait for the one that the zeros are written on.
    if (cudaMemset(block, 0, bytes) != cudaSuccess ||
        cudaStreamSynchronize(cudaStreamLegacy) != cudaSuccess) {
      cudaFree(block);
      return nullptr;
    }
    return static_cast<std::byte *>(block);
  };
  return {allocate, [](std::byte *block) { cudaFree(block); }, {}};
}

/// On a stream of the thread, so that threads do not wait for each other.
Status copyBytesOnGpu(std::byte *to, const std::byte *from, uint64_t bytes) {
  DTRT_RETURN_IF_ERROR(cudaStatus(
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cudaStreamPerThread),
      "cannot copy"));
  return cudaStatus(cudaStreamSynchronize(cudaStreamPerThread),
                    "a copy failed");
}

Result<GpuBoxTable> GpuBoxTable::upload(const BoxTable &table) {
  GpuBoxTable gpu;
  if (table.copies().size() > UINT32_MAX)
    return makeError("a box table of ", table.copies().size(), " rows");
  gpu.count = uint32_t(table.copies().size());
  gpu.tiles = table.tiles();
  if (gpu.count == 0)
    return gpu;
  uint64_t bytes = gpu.count * sizeof(BoxCopy);
  MemorySource memory = gpuMemory();
  gpu.rows.reset(memory.allocate(bytes), memory.free);
  if (!gpu.rows)
    return makeError(ErrorCode::OutOfMemory, "cannot allocate ", bytes,
                     " bytes for a box table");
  DTRT_RETURN_IF_ERROR(copyBytesOnGpu(
      gpu.rows.get(),
      reinterpret_cast<const std::byte *>(table.copies().data()), bytes));
  return gpu;
}

Status GpuBoxTable::run() const {
  DTRT_RETURN_IF_ERROR(launchBoxCopies(rows.get(), count, tiles, nullptr));
  return cudaStatus(cudaStreamSynchronize(nullptr), "box copies failed");
}

} // namespace dtrt
