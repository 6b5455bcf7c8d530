//===- BoxCopy.h - Tables of strided copies, for CPUs and GPUs --*- C++ -*-===//
//
// A wave's packs, unpacks, copies and zeros as one flat table, so that a GPU
// does them all in one launch. The index arithmetic stands here once and is
// compiled for both sides: what the CPU reference copies, the kernel copies.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_BOXCOPY_H
#define DTRT_BOXCOPY_H

#include "dtrt/Packing.h"

#ifdef __CUDACC__
#define DTRT_HOST_DEVICE __host__ __device__
#else
#define DTRT_HOST_DEVICE
#endif

namespace dtrt {

/// Dims that a box may have once contiguous ones are merged.
constexpr unsigned kMaxBoxDims = 6;
/// Units of one tile: what one block of threads copies at a time.
constexpr uint32_t kTileUnits = 1024;

/// One strided copy. It is done in units of `unit` bytes: the largest of 16, 8,
/// 4, 2 and 1 that divides its run, its strides and both addresses.
struct BoxCopy {
  const std::byte *from = nullptr; // null: zeros are written
  std::byte *to = nullptr;
  uint32_t unit = 1;
  uint32_t runUnits = 0;
  uint32_t units = 0; // of the whole copy; larger copies are split
  uint32_t numDims = 0;
  uint64_t firstTile = 0; // tiles of the copies before it in the table
  uint32_t sizes[kMaxBoxDims] = {};      // innermost first
  int64_t fromStrides[kMaxBoxDims] = {}; // bytes, likewise
  int64_t toStrides[kMaxBoxDims] = {};
};

struct UnitPlace {
  int64_t from = 0; // bytes from BoxCopy::from
  int64_t to = 0;
};

/// Where unit number `index` of a copy lies.
DTRT_HOST_DEVICE inline UnitPlace placeOf(const BoxCopy &copy, uint32_t index) {
  uint32_t row = index / copy.runUnits;
  int64_t inRun = int64_t(index - row * copy.runUnits) * copy.unit;
  UnitPlace place = {inRun, inRun};
  for (uint32_t dim = 0; dim < copy.numDims; ++dim) {
    uint32_t next = row / copy.sizes[dim];
    int64_t at = int64_t(row - next * copy.sizes[dim]);
    place.from += at * copy.fromStrides[dim];
    place.to += at * copy.toStrides[dim];
    row = next;
  }
  return place;
}

/// The copy that a tile belongs to: the last whose first tile is not above it.
DTRT_HOST_DEVICE inline uint32_t copyOfTile(const BoxCopy *copies,
                                            uint32_t count, uint64_t tile) {
  uint32_t lo = 0, hi = count;
  while (hi - lo > 1) {
    uint32_t middle = lo + (hi - lo) / 2;
    if (copies[middle].firstTile <= tile)
      lo = middle;
    else
      hi = middle;
  }
  return lo;
}

/// The copies of one launch, in any order; none reads what another writes.
class BoxTable {
public:
  /// Each fails only when a buffer is not bound or a dtype changes. Packed
  /// bytes come in the order of Segment's packed form. Nothing is read or
  /// written.
  Status addPack(const PreparedSegment &segment, const LocalStorage &storage,
                 std::byte *packed);
  Status addUnpack(const PreparedSegment &segment, const LocalStorage &storage,
                   const std::byte *packed);
  Status addCopy(const PreparedCopy &copy, const LocalStorage &storage);
  Status addZero(const PreparedSegment &segment, const LocalStorage &storage);
  /// The seam for changes of dtype: refused here, as rows copy whole units.
  Status add(std::byte *to, const std::byte *from, const StridedCopy &copy);

  const std::vector<BoxCopy> &copies() const { return rows; }
  uint64_t tiles() const { return numTiles; }
  /// The kernel's work, done here: the reference that tests compare with.
  void runOnHost() const;

private:
  void addRow(BoxCopy row);

  std::vector<BoxCopy> rows;
  uint64_t numTiles = 0;
};

} // namespace dtrt

#endif // DTRT_BOXCOPY_H
