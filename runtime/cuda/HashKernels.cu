//===- HashKernels.cu - Hashes of regions on a GPU ------------------------===//

#include "HashKernels.h"
#include "RegionHash.h"
#include "Stream.h"

#include <algorithm>

namespace dtrt {

namespace {

/// Adds into memory that other threads add to, too.
__device__ void add(uint64_t *to, uint64_t value) {
  static_assert(sizeof(unsigned long long) == sizeof(uint64_t));
  atomicAdd(reinterpret_cast<unsigned long long *>(to), value);
}

__global__ void __launch_bounds__(kTileThreads)
    hashRegions(const HashRow *rows, uint32_t count, uint64_t tiles) {
  __shared__ uint64_t low, high;
  for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    if (threadIdx.x == 0)
      low = high = 0;
    __syncthreads();
    const HashRow &row = rows[hashRowOfTile(rows, count, tile)];
    RegionHash sum = hashShare(row, tile, threadIdx.x, kTileThreads);
    add(&low, sum.low);
    add(&high, sum.high);
    __syncthreads();
    if (threadIdx.x == 0) {
      add(&row.sum->low, low);
      add(&row.sum->high, high);
    }
    __syncthreads(); // before the next tile's sums start
  }
}

} // namespace

Status launchHashes(const HashRow *rows, uint32_t count, uint64_t tiles,
                    uint32_t blocks, cudaStream_t stream) {
  if (tiles == 0)
    return {};
  hashRegions<<<uint32_t(std::min<uint64_t>(tiles, blocks)), kTileThreads, 0,
                stream>>>(rows, count, tiles);
  return cudaStatus(cudaGetLastError(), "cannot launch the hashes");
}

} // namespace dtrt
