//===- BoxKernels.cu - Strided copies on a GPU ----------------------------===//

#include "Stream.h"

#include <algorithm>

namespace dtrt {

namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kPerThread = kTileUnits / kThreads;
/// Enough to keep every multiprocessor busy; more tiles are taken in turns.
constexpr uint64_t kMaxBlocks = 8192;

/// All loads of a thread are under way before its first store.
template <typename Unit>
__device__ void copyTile(const BoxCopy &copy, uint32_t first) {
  Unit values[kPerThread];
  int64_t places[kPerThread];
#pragma unroll
  for (uint32_t k = 0; k < kPerThread; ++k) {
    uint32_t index = first + threadIdx.x + k * kThreads;
    if (index >= copy.units)
      break;
    UnitPlace place = placeOf(copy, index);
    places[k] = place.to;
    values[k] = Unit();
    if (copy.from)
      values[k] = *reinterpret_cast<const Unit *>(copy.from + place.from);
  }
#pragma unroll
  for (uint32_t k = 0; k < kPerThread; ++k) {
    if (first + threadIdx.x + k * kThreads >= copy.units)
      break;
    *reinterpret_cast<Unit *>(copy.to + places[k]) = values[k];
  }
}

__global__ void copyBoxes(const BoxCopy *copies, uint32_t count,
                          uint64_t tiles) {
  __shared__ BoxCopy copy;
  for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    if (threadIdx.x == 0)
      copy = copies[copyOfTile(copies, count, tile)];
    __syncthreads();
    uint32_t first = uint32_t(tile - copy.firstTile) * kTileUnits;
    switch (copy.unit) {
    case 16:
      copyTile<uint4>(copy, first);
      break;
    case 8:
      copyTile<uint2>(copy, first);
      break;
    case 4:
      copyTile<uint32_t>(copy, first);
      break;
    case 2:
      copyTile<uint16_t>(copy, first);
      break;
    default:
      copyTile<uint8_t>(copy, first);
    }
    __syncthreads(); // before the next tile's row is put in its place
  }
}

} // namespace

Status launchBoxCopies(const std::byte *rows, uint32_t count, uint64_t tiles,
                       cudaStream_t stream) {
  if (tiles == 0)
    return {};
  copyBoxes<<<uint32_t(std::min(tiles, kMaxBlocks)), kThreads, 0, stream>>>(
      reinterpret_cast<const BoxCopy *>(rows), count, tiles);
  return cudaStatus(cudaGetLastError(), "cannot launch the box copies");
}

} // namespace dtrt
