//===- BoxKernels.cu - Strided copies on a GPU ----------------------------===//

#include "Stream.h"

#include <algorithm>

namespace dtrt {

namespace {

/// Enough to keep every multiprocessor busy; more tiles are taken in turns.
constexpr uint64_t kMaxBlocks = 8192;

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

Status launchBoxCopies(const std::byte *rows, uint32_t count, uint64_t tiles,
                       cudaStream_t stream) {
  if (tiles == 0)
    return {};
  copyBoxes<<<uint32_t(std::min(tiles, kMaxBlocks)), kTileThreads, 0, stream>>>(
      reinterpret_cast<const BoxCopy *>(rows), count, tiles);
  return cudaStatus(cudaGetLastError(), "cannot launch the box copies");
}

} // namespace dtrt
