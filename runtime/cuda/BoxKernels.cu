//===- BoxKernels.cu - Strided copies on a GPU ----------------------------===//

#include "BoxKernels.h"
#include "Stream.h"

#include <algorithm>

namespace dtrt {

namespace {

/// Blocks that fit into a multiprocessor; more tiles are taken in turns.
constexpr uint32_t kBlocksPerCore = 3;

/// Words of a row, which as many threads bring.
constexpr uint32_t kRowWords = sizeof(BoxCopy) / sizeof(uint32_t);
static_assert(sizeof(BoxCopy) % sizeof(uint32_t) == 0 &&
              kRowWords <= kTileThreads);

__global__ void __launch_bounds__(kTileThreads, kBlocksPerCore)
    copyBoxes(const BoxCopy *copies, uint32_t count, uint64_t tiles,
              const volatile uint64_t *stopped) {
  if (stopped && *stopped != 0)
    return;
  // Raw memory: a row has initializers, which shared memory does not run.
  __shared__ alignas(BoxCopy) uint32_t words[kRowWords];
  const auto &copy = *reinterpret_cast<const BoxCopy *>(words);
  TileWalk walk(copies, count, tiles, blockIdx.x, gridDim.x);
  for (bool newRow = true; !walk.done(); newRow = walk.next()) {
    if (newRow) {
      __syncthreads(); // all are done with the last row
      if (threadIdx.x < kRowWords)
        words[threadIdx.x] =
            reinterpret_cast<const uint32_t *>(&walk.row())[threadIdx.x];
      __syncthreads();
    }
    moveShare(copy, walk.number(), threadIdx.x);
  }
}

} // namespace

Result<uint32_t> multiprocessors(int gpu) {
  int count = 0;
  DTRT_RETURN_IF_ERROR(cudaStatus(
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, gpu),
      "cannot query the multiprocessors of the GPU"));
  return uint32_t(count);
}

Result<uint32_t> fullGrid(int gpu) {
  auto count = multiprocessors(gpu);
  DTRT_RETURN_IF_ERROR(count);
  return *count * kBlocksPerCore;
}

Status launchBoxCopies(const BoxCopy *rows, uint32_t count, uint64_t tiles,
                       uint32_t blocks, cudaStream_t stream,
                       const volatile uint64_t *stopped) {
  if (tiles == 0)
    return {};
  copyBoxes<<<uint32_t(std::min<uint64_t>(tiles, blocks)), kTileThreads, 0,
              stream>>>(rows, count, tiles, stopped);
  return cudaStatus(cudaGetLastError(), "cannot launch the box copies");
}

} // namespace dtrt
