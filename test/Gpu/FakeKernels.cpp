//===- FakeKernels.cpp - Our kernels on the fake GPUs ---------------------===//

#include "FakeKernels.h"

#include "FakeGpu.h"

#include "RegionHash.h"

using namespace dtrt;
using namespace dtrt::test;

namespace {

template <typename T> T argument(const FakeKernelCall &call, size_t index) {
  return *static_cast<const T *>(call.arguments[index]);
}

/// From the first to the last byte of what a row reads or writes: whether there
/// is memory.
bool touchBox(const std::byte *data, const BoxCopy &row, const int64_t *strides,
              unsigned unit, int gpu) {
  int64_t bytes = int64_t(row.runUnits.value) * unit;
  for (uint32_t dim = 0; dim < row.numDims; ++dim)
    bytes += int64_t(row.sizes[dim].value - 1) * strides[dim];
  return touchFakeMemory(data, uint64_t(bytes), gpu, "a box copy");
}

FakeMake copyBoxes(const FakeKernelCall &call) {
  auto *rows = argument<const BoxCopy *>(call, 0);
  auto count = argument<uint32_t>(call, 1);
  auto tiles = argument<uint64_t>(call, 2);
  auto *stopped = argument<const volatile uint64_t *>(call, 3);
  int gpu = call.gpu;
  uint32_t blocks = call.blocks;
  return [=]() -> FakeWork {
    return [=] {
      if (stopped && *stopped != 0)
        return true;
      touchFakeMemory(rows, count * sizeof(BoxCopy), gpu, "a table's launch");
      bool there = true;
      for (uint32_t i = 0; i < count; ++i) {
        const BoxCopy &row = rows[i];
        if (row.from)
          there &= touchBox(row.from, row, row.fromStrides, row.fromUnit, gpu);
        there &= touchBox(row.to, row, row.toStrides, row.toUnit, gpu);
      }
      if (!there)
        return true;
      for (uint32_t block = 0; block < blocks; ++block)
        for (TileWalk walk(rows, count, tiles, block, blocks); !walk.done();
             walk.next())
          for (uint32_t thread = 0; thread < kTileThreads; ++thread)
            moveShare(walk.row(), walk.number(), thread);
      return true;
    };
  };
}

FakeMake hashRegions(const FakeKernelCall &call) {
  auto *rows = argument<const HashRow *>(call, 0);
  auto count = argument<uint32_t>(call, 1);
  auto tiles = argument<uint64_t>(call, 2);
  int gpu = call.gpu;
  return [=]() -> FakeWork {
    return [=] {
      touchFakeMemory(rows, count * sizeof(HashRow), gpu, "a table's launch");
      for (uint32_t i = 0; i < count; ++i) {
        touchFakeMemory(rows[i].data, rows[i].bytes, gpu, "a hash");
        touchFakeMemory(rows[i].sum, sizeof(RegionHash), gpu, "a hash");
      }
      for (uint64_t tile = 0; tile < tiles; ++tile) {
        const HashRow &row = rows[hashRowOfTile(rows, count, tile)];
        for (uint32_t thread = 0; thread < kTileThreads; ++thread) {
          RegionHash sum = hashShare(row, tile, thread, kTileThreads);
          row.sum->low += sum.low;
          row.sum->high += sum.high;
        }
      }
      return true;
    };
  };
}

} // namespace

void dtrt::test::setFakeKernels() {
  setFakeKernel("copyBoxes", copyBoxes);
  setFakeKernel("hashRegions", hashRegions);
}
