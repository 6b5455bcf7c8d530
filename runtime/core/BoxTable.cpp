//===- BoxTable.cpp - Tables of strided copies ----------------------------===//

#include "dtrt/core/BoxTable.h"

#include <algorithm>

namespace dtrt {

namespace {

/// Copies larger than this are split, so that 32 bits hold every index.
constexpr int64_t kMaxUnits = int64_t(1) << 31;
constexpr int64_t kWidestUnit = 16;

/// The largest power of two, up to `most`, that divides all that is or-ed into
/// `bits`.
uint8_t unitOf(uint64_t bits, int64_t most) {
  auto unit = uint64_t(most);
  while (bits % unit != 0)
    unit /= 2;
  return uint8_t(unit);
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
    // Whole elements of any dtype.
    toSkip = copy.run / 2 / kWidestUnit * kWidestUnit;
    fromSkip = copy.convert ? toSkip / byteWidth(copy.to) * byteWidth(copy.from)
                            : toSkip;
    rest.run -= toSkip;
    copy.run = toSkip;
  }
  split(to, from, copy, add);
  split(to + toSkip, from ? from + fromSkip : nullptr, rest, add);
}

/// Units, and how they are read and written.
void setUnits(BoxCopy &row, const StridedCopy &copy) {
  uint64_t fromBits = address(row.from), toBits = address(row.to);
  for (const StridedCopy::Dim &dim : copy.dims) {
    fromBits |= uint64_t(row.from ? dim.source : 0);
    toBits |= uint64_t(dim.destination);
  }
  if (copy.convert && row.from) {
    row.byElement = true;
    row.fromType = copy.from;
    row.toType = copy.to;
    row.fromUnit = uint8_t(byteWidth(copy.from));
    row.toUnit = uint8_t(byteWidth(copy.to));
    row.fromAccess = unitOf(fromBits, row.fromUnit);
    row.toAccess = unitOf(toBits, row.toUnit);
  } else {
    row.toUnit = unitOf(fromBits | toBits | uint64_t(copy.run), kWidestUnit);
    row.fromUnit = row.fromAccess = row.toAccess = row.toUnit;
  }
}

/// What is written where nothing is read. Bytes that differ are written element
/// by element where these do not lie at multiples of their size.
void setFill(BoxCopy &row, const ElementFill &fill) {
  row.fill = fill.bits;
  for (int64_t width = fill.width; width < 8; width *= 2)
    row.fill |= row.fill << (8 * width);
  bool isOneByte = row.fill == (row.fill & 0xff) * 0x0101010101010101;
  if (isOneByte || row.toUnit >= fill.width)
    return;
  row.byElement = true;
  row.fromUnit = row.toUnit = uint8_t(fill.width);
}

BoxCopy rowOf(std::byte *to, const std::byte *from, const StridedCopy &copy,
              const ElementFill &fill) {
  BoxCopy row;
  row.from = from;
  row.to = to;
  setUnits(row, copy);
  if (!from)
    setFill(row, fill);
  int64_t bytes = copy.run;
  for (size_t i = copy.dims.size(); i-- > 0;) {
    const StridedCopy::Dim &dim = copy.dims[i];
    row.sizes[row.numDims] = Divisor(uint32_t(dim.size));
    row.fromStrides[row.numDims] = dim.source;
    row.toStrides[row.numDims++] = dim.destination;
    bytes *= dim.size;
  }
  row.runUnits = Divisor(uint32_t(copy.run / row.toUnit));
  row.tileUnits = kTileBytes / std::max(row.fromUnit, row.toUnit);
  row.units = uint32_t(bytes / row.toUnit);
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
      visit(part, *data, packed);
      packed += part.boxBytes;
    }
  return {};
}

} // namespace

void BoxTable::addRow(BoxCopy row) {
  if (row.units == 0)
    return;
  row.firstTile = numTiles;
  numTiles += (row.units - 1) / row.tileUnits + 1;
  rows.push_back(row);
}

void BoxTable::append(const BoxTable &other) {
  for (const BoxCopy &row : other.rows)
    addRow(row);
}

void BoxTable::add(std::byte *to, const std::byte *from,
                   const StridedCopy &copy) {
  add(to, from, copy, {});
}

void BoxTable::add(std::byte *to, const std::byte *from,
                   const StridedCopy &copy, const ElementFill &fill) {
  if (copy.run == 0)
    return;
  split(to, from, copy,
        [&](std::byte *to, const std::byte *from, const StridedCopy &part) {
          addRow(rowOf(to, from, part, fill));
        });
}

Status BoxTable::addPack(const PreparedSegment &segment,
                         const LocalStorage &storage, std::byte *packed) {
  return forEachPackedBox(
      segment, storage, [&](const StatePart &part, std::byte *box, int64_t at) {
        add(packed + at, box, part.toPacked);
      });
}

Status BoxTable::addUnpack(const PreparedSegment &segment,
                           const LocalStorage &storage,
                           const std::byte *packed) {
  return forEachPackedBox(
      segment, storage, [&](const StatePart &part, std::byte *box, int64_t at) {
        add(box, packed + at, part.fromPacked);
      });
}

Status BoxTable::addFill(const PreparedSegment &segment,
                         const LocalStorage &storage) {
  return forEachPackedBox(
      segment, storage, [&](const StatePart &part, std::byte *box, int64_t) {
        add(box, nullptr, part.fromPacked, {part.fill, byteWidth(part.type)});
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
      if (*write != *read) // else a tensor stays as it is
        add(*write, *read, copy.perState[i]);
    }
  return {};
}

void BoxTable::runOnHost(uint32_t blocks) const {
  for (uint32_t block = 0; block < blocks; ++block)
    for (TileWalk walk(rows.data(), uint32_t(rows.size()), numTiles, block,
                       blocks);
         !walk.done(); walk.next())
      for (uint32_t thread = 0; thread < kTileThreads; ++thread)
        moveShare(walk.row(), walk.number(), thread);
}

} // namespace dtrt
