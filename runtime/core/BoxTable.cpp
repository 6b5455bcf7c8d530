//===- BoxTable.cpp - Tables of strided copies ----------------------------===//

#include "dtrt/BoxCopy.h"

#include <algorithm>
#include <cstring>

namespace dtrt {

namespace {

/// Copies larger than this are split, so that 32 bits hold every index.
constexpr int64_t kMaxUnits = int64_t(1) << 31;

/// The widest unit that divides everything that is or-ed into `bits`.
uint32_t unitOf(uint64_t bits) {
  uint32_t unit = 16;
  while (bits % unit != 0)
    unit /= 2;
  return unit;
}

uint64_t address(const std::byte *at) { return reinterpret_cast<uint64_t>(at); }

/// In halves until both fit: along the outermost dim, else along the run.
template <typename Add>
void split(std::byte *to, const std::byte *from, StridedCopy copy, Add add) {
  int64_t units = copy.run;
  for (const StridedCopy::Dim &dim : copy.dims)
    units *= dim.size;
  if (units < kMaxUnits && copy.dims.size() <= kMaxBoxDims)
    return add(to, from, copy);
  StridedCopy rest = copy;
  int64_t toSkip = 0, fromSkip = 0;
  if (!copy.dims.empty()) {
    StridedCopy::Dim &dim = copy.dims.front();
    int64_t half = dim.size / 2;
    toSkip = half * dim.destination;
    fromSkip = half * dim.source;
    rest.dims.front().size -= half;
    dim.size = half;
    for (StridedCopy *part : {&copy, &rest})
      if (part->dims.front().size == 1)
        part->dims.erase(part->dims.begin());
  } else {
    int64_t half = copy.run / 2 / 16 * 16;
    toSkip = fromSkip = half;
    rest.run -= half;
    copy.run = half;
  }
  split(to, from, copy, add);
  split(to + toSkip, from ? from + fromSkip : nullptr, rest, add);
}

BoxCopy rowOf(std::byte *to, const std::byte *from, const StridedCopy &copy) {
  BoxCopy row;
  row.from = from;
  row.to = to;
  uint64_t bits = address(to) | address(from) | uint64_t(copy.run);
  int64_t bytes = copy.run;
  for (size_t i = copy.dims.size(); i-- > 0;) {
    const StridedCopy::Dim &dim = copy.dims[i];
    row.sizes[row.numDims] = uint32_t(dim.size);
    row.fromStrides[row.numDims] = dim.source;
    row.toStrides[row.numDims++] = dim.destination;
    bits |= uint64_t(from ? dim.source : 0) | uint64_t(dim.destination);
    bytes *= dim.size;
  }
  row.unit = unitOf(bits);
  row.runUnits = uint32_t(copy.run / row.unit);
  row.units = uint32_t(bytes / row.unit);
  return row;
}

/// Calls visit(part, address of the box, its place in the packed form).
template <typename Visit>
Status forEachPackedBox(const PreparedSegment &segment,
                        const LocalStorage &storage, Visit visit) {
  int64_t packed = 0;
  for (const StatePart &part : segment.parts)
    for (int64_t member : segment.members) {
      auto data = boxData(segment, part, member, storage);
      DTRT_RETURN_IF_ERROR(data);
      DTRT_RETURN_IF_ERROR(visit(part, *data, packed));
      packed += part.boxBytes;
    }
  return {};
}

} // namespace

void BoxTable::addRow(BoxCopy row) {
  if (row.units == 0)
    return;
  row.firstTile = numTiles;
  numTiles += (row.units + kTileUnits - 1) / kTileUnits;
  rows.push_back(row);
}

Status BoxTable::add(std::byte *to, const std::byte *from,
                     const StridedCopy &copy) {
  if (copy.run == 0)
    return {};
  if (copy.convert && from)
    return makeError("a state changes dtype, which box tables do not do");
  split(to, from, copy,
        [this](std::byte *to, const std::byte *from, const StridedCopy &part) {
          addRow(rowOf(to, from, part));
        });
  return {};
}

Status BoxTable::addPack(const PreparedSegment &segment,
                         const LocalStorage &storage, std::byte *packed) {
  return forEachPackedBox(
      segment, storage, [&](const StatePart &part, std::byte *box, int64_t at) {
        return add(packed + at, box, part.toPacked);
      });
}

Status BoxTable::addUnpack(const PreparedSegment &segment,
                           const LocalStorage &storage,
                           const std::byte *packed) {
  return forEachPackedBox(
      segment, storage, [&](const StatePart &part, std::byte *box, int64_t at) {
        return add(box, packed + at, part.fromPacked);
      });
}

Status BoxTable::addZero(const PreparedSegment &segment,
                         const LocalStorage &storage) {
  return forEachPackedBox(segment, storage,
                          [&](const StatePart &part, std::byte *box, int64_t) {
                            return add(box, nullptr, part.fromPacked);
                          });
}

Status BoxTable::addCopy(const PreparedCopy &copy,
                         const LocalStorage &storage) {
  const PreparedSegment &from = copy.source, &to = copy.destination;
  for (size_t i = 0; i < from.parts.size(); ++i)
    for (size_t m = 0; m < from.members.size(); ++m) {
      auto read = boxData(from, from.parts[i], from.members[m], storage);
      DTRT_RETURN_IF_ERROR(read);
      auto write = boxData(to, to.parts[i], to.members[m], storage);
      DTRT_RETURN_IF_ERROR(write);
      DTRT_RETURN_IF_ERROR(add(*write, *read, copy.perState[i]));
    }
  return {};
}

void BoxTable::runOnHost() const {
  for (uint64_t tile = 0; tile < numTiles; ++tile) {
    const BoxCopy &row =
        rows[copyOfTile(rows.data(), uint32_t(rows.size()), tile)];
    uint64_t first = (tile - row.firstTile) * kTileUnits;
    uint64_t last = std::min<uint64_t>(first + kTileUnits, row.units);
    for (uint64_t index = first; index < last; ++index) {
      UnitPlace place = placeOf(row, uint32_t(index));
      if (row.from)
        memcpy(row.to + place.to, row.from + place.from, row.unit);
      else
        memset(row.to + place.to, 0, row.unit);
    }
  }
}

} // namespace dtrt
