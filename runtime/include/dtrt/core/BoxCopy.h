//===- BoxCopy.h - Strided copies, for CPUs and GPUs --------- --*- C++ -*-===//
//
// A wave's packs, unpacks, copies and padding as one flat table, so that a GPU
// does them all in one launch. The index arithmetic stands here once and is
// compiled for both sides: what the CPU reference copies, the kernel copies.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_CORE_BOXCOPY_H
#define DTRT_CORE_BOXCOPY_H

#include "dtrt/core/ConvertBits.h"
#include "dtrt/core/Packing.h"

#ifdef __CUDACC__
#define DTRT_UNROLL _Pragma("unroll")
#else
#define DTRT_UNROLL
#endif

namespace dtrt {

/// Dims that a box may have once contiguous ones are merged.
constexpr unsigned kMaxBoxDims = 6;
/// Threads that share a tile: neighbours move neighbouring units.
constexpr uint32_t kTileThreads = 256;
/// A tile has as many bytes whatever its unit, so that narrow units do not pay
/// more for finding their row; four of the widest units for each thread.
constexpr uint32_t kTileBytes = kTileThreads * 4 * 16;

/// Division by a number that is known ahead, exact for every 32-bit dividend:
/// T. Granlund, P. Montgomery, Division by Invariant Integers using
/// Multiplication, PLDI 1994, figure 4.1.
struct Divisor {
  uint32_t value = 1;
  uint32_t factor = 1;
  uint8_t shift1 = 0, shift2 = 0;

  Divisor() = default;
  /// Not zero.
  explicit Divisor(uint32_t by) : value(by) {
    unsigned bits = 0;
    while (bits < 32 && (uint64_t(1) << bits) < by)
      ++bits;
    uint64_t power = uint64_t(1) << bits;
    factor = uint32_t(((power - by) << 32) / by + 1);
    shift1 = uint8_t(bits < 1 ? bits : 1);
    shift2 = uint8_t(bits > 1 ? bits - 1 : 0);
  }
  DTRT_HOST_DEVICE uint32_t divide(uint32_t number) const {
    auto high = uint32_t((uint64_t(factor) * number) >> 32);
    return (high + ((number - high) >> shift1)) >> shift2;
  }
};

/// One strided copy, in units. Where the dtype stays, a unit is the largest of
/// 16, 8, 4, 2 and 1 bytes that divides the run, the strides and both
/// addresses; by element, an element.
struct BoxCopy {
  const std::byte *from = nullptr; // null: `fill` is written
  std::byte *to = nullptr;
  uint64_t fill = 0;      // an element's bits, again and again
  uint64_t firstTile = 0; // tiles of the copies before it in the table
  Divisor runUnits;
  uint32_t units = 0; // of the whole copy; larger copies are split
  uint32_t tileUnits = 1;
  uint32_t numDims = 0;
  Divisor sizes[kMaxBoxDims];            // innermost first
  int64_t fromStrides[kMaxBoxDims] = {}; // bytes, likewise
  int64_t toStrides[kMaxBoxDims] = {};
  uint8_t fromUnit = 1; // bytes
  uint8_t toUnit = 1;
  /// Bytes that are read or written at a time: less than a unit where elements
  /// do not lie at multiples of their size.
  uint8_t fromAccess = 1;
  uint8_t toAccess = 1;
  /// Where the dtype changes, or a fill does not lie at multiples of its size.
  bool byElement = false;
  DType fromType = DType::U8; // where it changes
  DType toType = DType::U8;
};

struct UnitPlace {
  int64_t from = 0; // bytes from BoxCopy::from
  int64_t to = 0;
};

/// Where unit number `index` of a copy lies.
DTRT_HOST_DEVICE inline UnitPlace placeOf(const BoxCopy &copy, uint32_t index) {
  uint32_t row = copy.runUnits.divide(index);
  int64_t inRun = int64_t(index - row * copy.runUnits.value);
  UnitPlace place = {inRun * copy.fromUnit, inRun * copy.toUnit};
  for (uint32_t dim = 0; dim < copy.numDims; ++dim) {
    uint32_t next = copy.sizes[dim].divide(row);
    int64_t at = int64_t(row - next * copy.sizes[dim].value);
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

/// The tiles that one block of threads works on, one after the other, and their
/// rows. Tables have no row without a tile.
class TileWalk {
public:
  DTRT_HOST_DEVICE TileWalk(const BoxCopy *copies, uint32_t count,
                            uint64_t tiles, uint32_t block, uint32_t blocks)
      : copies(copies), count(count), tiles(tiles),
        tile(tiles * block / blocks), end(tiles * (block + 1) / blocks) {
    if (tile < end)
      enter(copyOfTile(copies, count, tile));
  }
  DTRT_HOST_DEVICE bool done() const { return tile >= end; }
  DTRT_HOST_DEVICE const BoxCopy &row() const { return copies[index]; }
  /// In the row's tiles.
  DTRT_HOST_DEVICE uint32_t number() const { return uint32_t(tile - rowStart); }
  /// To the next tile; true where it has another row.
  DTRT_HOST_DEVICE bool next() {
    bool passes = ++tile == rowEnd && tile < end;
    if (passes)
      enter(index + 1);
    return passes;
  }

private:
  DTRT_HOST_DEVICE void enter(uint32_t row) {
    index = row;
    rowStart = copies[row].firstTile;
    rowEnd = row + 1 < count ? copies[row + 1].firstTile : tiles;
  }

  const BoxCopy *copies;
  uint32_t count;
  uint64_t tiles;
  uint64_t tile, end;
  uint32_t index = 0;
  uint64_t rowStart = 0, rowEnd = 0;
};

/// Memory that is read and written as `Bytes` bytes at once.
template <unsigned Bytes> struct alignas(Bytes) Unit;
template <> struct alignas(16) Unit<16> {
  uint32_t words[4];
};
template <> struct alignas(8) Unit<8> {
  uint32_t words[2];
};
template <> struct alignas(4) Unit<4> {
  uint32_t words[1];
};
template <> struct alignas(2) Unit<2> {
  uint16_t words[1];
};
template <> struct Unit<1> {
  uint8_t words[1];
};

/// A unit's words as the bytes of a pattern of 8.
template <typename Word, uint32_t Count>
DTRT_HOST_DEVICE void fillWords(Word (&words)[Count], uint64_t pattern) {
  DTRT_UNROLL
  for (uint32_t i = 0; i < Count; ++i)
    words[i] = Word(pattern >> (8 * sizeof(Word) * i % 64));
}

/// Units that a thread has under way at a time: what registers allow, and more
/// of narrow ones, so that bytes enough are under way.
template <unsigned Bytes> constexpr uint32_t kUnitsAtATime = Bytes >= 8 ? 4 : 8;

/// The units `index`, `index` + kTileThreads and so on, below `end`; all loads
/// are under way before the first store. `placeOfUnit` says where a unit lies.
template <unsigned Bytes, typename PlaceOfUnit>
DTRT_HOST_DEVICE void copyUnits(const BoxCopy &copy, uint32_t index,
                                uint32_t end, PlaceOfUnit placeOfUnit) {
  constexpr uint32_t kUnits = kUnitsAtATime<Bytes>;
  Unit<Bytes> values[kUnits] = {};
  int64_t places[kUnits] = {};
  DTRT_UNROLL
  for (uint32_t k = 0; k < kUnits; ++k) {
    if (index + k * kTileThreads >= end)
      break;
    UnitPlace place = placeOfUnit(index + k * kTileThreads);
    places[k] = place.to;
    if (copy.from)
      values[k] =
          *reinterpret_cast<const Unit<Bytes> *>(copy.from + place.from);
    else
      fillWords(values[k].words, copy.fill);
  }
  DTRT_UNROLL
  for (uint32_t k = 0; k < kUnits; ++k) {
    if (index + k * kTileThreads >= end)
      break;
    *reinterpret_cast<Unit<Bytes> *>(copy.to + places[k]) = values[k];
  }
}

/// Units of a copy, of one of its tiles.
struct TileUnits {
  uint32_t begin = 0, end = 0;
};

DTRT_HOST_DEVICE inline TileUnits unitsOfTile(const BoxCopy &copy,
                                              uint32_t tile) {
  uint32_t begin = tile * copy.tileUnits;
  uint32_t rest = copy.units - begin;
  return {begin, begin + (rest < copy.tileUnits ? rest : copy.tileUnits)};
}

/// What one thread moves of a tile. A tile that lies inside one run, as most do
/// where runs are long, is divided once.
template <unsigned Bytes>
DTRT_HOST_DEVICE void copyShare(const BoxCopy &copy, uint32_t tile,
                                uint32_t thread) {
  constexpr uint32_t kStep = kUnitsAtATime<Bytes> * kTileThreads;
  TileUnits units = unitsOfTile(copy, tile);
  if (copy.runUnits.divide(units.begin) ==
      copy.runUnits.divide(units.end - 1)) {
    UnitPlace first = placeOf(copy, units.begin);
    for (uint32_t at = units.begin; at < units.end; at += kStep)
      copyUnits<Bytes>(copy, at + thread, units.end, [&](uint32_t index) {
        int64_t bytes = int64_t(index - units.begin) * Bytes;
        return UnitPlace{first.from + bytes, first.to + bytes};
      });
    return;
  }
  for (uint32_t at = units.begin; at < units.end; at += kStep)
    copyUnits<Bytes>(copy, at + thread, units.end,
                     [&](uint32_t index) { return placeOf(copy, index); });
}

template <typename Word>
DTRT_HOST_DEVICE uint64_t readWords(const std::byte *at, uint32_t bytes) {
  uint64_t bits = 0;
  for (uint32_t i = 0; i < bytes; i += uint32_t(sizeof(Word)))
    bits |= uint64_t(*reinterpret_cast<const Word *>(at + i)) << (8 * i);
  return bits;
}

template <typename Word>
DTRT_HOST_DEVICE void writeWords(std::byte *at, uint32_t bytes, uint64_t bits) {
  for (uint32_t i = 0; i < bytes; i += uint32_t(sizeof(Word)))
    *reinterpret_cast<Word *>(at + i) = Word(bits >> (8 * i));
}

/// An element of `bytes` bytes, which lies at a multiple of `access`.
DTRT_HOST_DEVICE inline uint64_t readElement(const std::byte *at,
                                             uint32_t bytes, uint32_t access) {
  switch (access) {
  case 8:
    return readWords<uint64_t>(at, bytes);
  case 4:
    return readWords<uint32_t>(at, bytes);
  case 2:
    return readWords<uint16_t>(at, bytes);
  default:
    return readWords<uint8_t>(at, bytes);
  }
}

DTRT_HOST_DEVICE inline void writeElement(std::byte *at, uint32_t bytes,
                                          uint32_t access, uint64_t bits) {
  switch (access) {
  case 8:
    return writeWords<uint64_t>(at, bytes, bits);
  case 4:
    return writeWords<uint32_t>(at, bytes, bits);
  case 2:
    return writeWords<uint16_t>(at, bytes, bits);
  default:
    return writeWords<uint8_t>(at, bytes, bits);
  }
}

/// copyShare by element.
DTRT_HOST_DEVICE inline void moveElements(const BoxCopy &copy, uint32_t tile,
                                          uint32_t thread) {
  TileUnits units = unitsOfTile(copy, tile);
  for (uint32_t index = units.begin + thread; index < units.end;
       index += kTileThreads) {
    UnitPlace place = placeOf(copy, index);
    uint64_t bits = copy.fill;
    if (copy.from) {
      bits =
          readElement(copy.from + place.from, copy.fromUnit, copy.fromAccess);
      bits = floats::convertElement(bits, copy.fromType, copy.toType);
    }
    writeElement(copy.to + place.to, copy.toUnit, copy.toAccess, bits);
  }
}

/// What one of the kTileThreads threads does of one tile of a copy.
DTRT_HOST_DEVICE inline void moveShare(const BoxCopy &copy, uint32_t tile,
                                       uint32_t thread) {
  if (copy.byElement)
    return moveElements(copy, tile, thread);
  switch (copy.toUnit) {
  case 16:
    return copyShare<16>(copy, tile, thread);
  case 8:
    return copyShare<8>(copy, tile, thread);
  case 4:
    return copyShare<4>(copy, tile, thread);
  case 2:
    return copyShare<2>(copy, tile, thread);
  default:
    return copyShare<1>(copy, tile, thread);
  }
}

} // namespace dtrt

#endif // DTRT_CORE_BOXCOPY_H
