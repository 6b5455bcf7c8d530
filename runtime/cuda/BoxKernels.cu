//===- BoxKernels.cu - Strided copies on a GPU ----------------------------===//

#include "Kernels.h"
#include "Stream.h"

#include <algorithm>

namespace dtrt {

namespace {

/// Blocks that fit into a multiprocessor; more tiles are taken in turns.
constexpr uint32_t kBlocksPerCore = 3;

__global__ void __launch_bounds__(kTileThreads)
    copyBoxes(const BoxCopy *copies, uint32_t count, uint64_t tiles) {
  // Raw memory: a row has initializers, which shared memory does not run.
  __shared__ alignas(BoxCopy) unsigned char row[sizeof(BoxCopy)];
  auto &copy = *reinterpret_cast<BoxCopy *>(row);
  for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    if (threadIdx.x == 0)
      copy = copies[copyOfTile(copies, count, tile)];
    __syncthreads();
    moveShare(copy, uint32_t(tile - copy.firstTile) * kTileUnits, threadIdx.x);
    __syncthreads(); // before the next tile's row is put in its place
  }
}

} // namespace

Result<uint32_t> multiprocessors(int gpu) {
  int count = 0;
  DTRT_RETURN_IF_ERROR(cudaStatus(
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, gpu),
      "cannot tell the multiprocessors of the GPU"));
  return uint32_t(count);
}

Result<uint32_t> fullGrid(int gpu) {
  auto count = multiprocessors(gpu);
  DTRT_RETURN_IF_ERROR(count);
  return *count * kBlocksPerCore;
}

Status launchBoxCopies(const BoxCopy *rows, uint32_t count, uint64_t tiles,
                       uint32_t blocks, cudaStream_t stream) {
  if (tiles == 0)
    return {};
  copyBoxes<<<uint32_t(std::min<uint64_t>(tiles, blocks)), kTileThreads, 0,
              stream>>>(rows, count, tiles);
  return cudaStatus(cudaGetLastError(), "cannot launch the box copies");
}

} // namespace dtrt
