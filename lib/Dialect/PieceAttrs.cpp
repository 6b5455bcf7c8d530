//===- PieceAttrs.cpp - #dt.pieces and #dt.shards -------------------------===//

#include "RowText.h"

#include "dt/Geometry/Limits.h"

using namespace mlir;

namespace dt {

//===----------------------------------------------------------------------===//
// What #dt.pieces and #dt.shards share
//===----------------------------------------------------------------------===//

// at [..] size [..]
static ParseResult readBox(AsmParser &parser, RowReader &reader) {
  unsigned rank = 0, sizes = 0;
  if (parser.parseKeyword("at") || reader.columns(rank) ||
      parser.parseKeyword("size") || reader.columns(sizes))
    return failure();
  if (rank == sizes)
    return success();
  return parser.emitError(parser.getCurrentLocation())
         << "the offset has " << rank << " dims but the size has " << sizes;
}

static void printBox(llvm::raw_ostream &os, const RowClass &entry,
                     unsigned first, unsigned rank) {
  os << " at ";
  printColumns(os, entry, first, rank);
  os << " size ";
  printColumns(os, entry, first + rank, rank);
}

static Box boxOf(llvm::ArrayRef<int64_t> row, unsigned first, unsigned rank) {
  Box box(rank);
  for (unsigned d = 0; d < rank; ++d) {
    int64_t lo = row[first + d];
    box[d] = {lo, lo + row[first + rank + d]};
  }
  return box;
}

// `rank N` comes first where the rows do not tell it.
static ParseResult parseRank(AsmParser &parser, unsigned fixedColumns,
                             RowSet &rows, bool &more) {
  more = true;
  if (failed(parser.parseOptionalKeyword("dims")))
    return success();
  unsigned rank = 0;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseInteger(rank))
    return failure();
  if (rank > kMaxRank)
    return parser.emitError(loc)
           << "has " << rank << " dims, more than the limit of " << kMaxRank;
  rows.numColumns = fixedColumns + 2 * rank;
  more = succeeded(parser.parseOptionalComma());
  return success();
}

static void printRank(llvm::raw_ostream &os, RowsAttr rows, unsigned rank) {
  bool empty = rows.getTable().empty();
  if (!rows.getClasses().empty() || (!empty && !printsAsTable(rows)))
    return;
  os << "dims " << rank << (empty ? "" : ", ");
}

// Elements of the largest box of some rows, or of what bounds it.
static int64_t mostElements(llvm::ArrayRef<int64_t> sizes) {
  int64_t volume = 1;
  for (int64_t size : sizes)
    if (__builtin_mul_overflow(volume, size, &volume))
      return INT64_MAX;
  return volume;
}

// Columns [first, first + 2 * rank) are a box: offsets from 0, sizes from 1,
// and neither an end nor a volume beyond what can be added up.
static LogicalResult
verifyBoxes(llvm::function_ref<InFlightDiagnostic()> emitError, unsigned first,
            unsigned rank, RowsAttr rows, const Row &lo, const Row &hi) {
  for (unsigned d = 0; d < rank; ++d) {
    if (lo[first + d] < 0)
      return emitError() << "expected offsets from 0 in dim " << d << ", found "
                         << lo[first + d];
    if (lo[first + rank + d] < 1)
      return emitError() << "expected positive sizes in dim " << d << ", found "
                         << lo[first + rank + d];
    if (hi[first + d] > kMaxBytes)
      return emitError() << "expected offsets up to " << kMaxBytes << " in dim "
                         << d << ", found " << hi[first + d];
  }
  auto isLarge = [&](const Row &sizes) {
    return mostElements(llvm::ArrayRef(sizes).slice(first + rank, rank)) >
           kMaxBytes;
  };
  if (!isLarge(hi))
    return success();
  // The sizes may be of different rows: class by class, and row by row.
  bool found = false;
  llvm::ArrayRef<int64_t> table = rows.getTable();
  for (size_t at = 0; at < table.size(); at += rows.getNumColumns())
    found |= isLarge(table.slice(at, rows.getNumColumns()).vec());
  for (const RowClass &rowClass : rows.decodeClasses()) {
    Row most = rowClass.base;
    for (auto [count, stride] :
         llvm::zip_equal(rowClass.counts, rowClass.strides))
      for (unsigned c = first + rank; c < first + 2 * rank; ++c)
        most[c] += std::max<int64_t>(stride[c], 0) * (count - 1);
    found |= isLarge(most);
  }
  if (found)
    return emitError() << "expected boxes of at most " << kMaxBytes
                       << " elements";
  return success();
}

static LogicalResult
verifyRank(llvm::function_ref<InFlightDiagnostic()> emitError, unsigned rank,
           RowsAttr rows, unsigned numColumns) {
  if (rank > kMaxRank)
    return emitError() << "has " << rank << " dims, more than the limit of "
                       << kMaxRank;
  if (rows.getNumColumns() != numColumns)
    return emitError() << "rows have " << rows.getNumColumns()
                       << " columns, expected " << numColumns << " for " << rank
                       << " dims";
  return success();
}

//===----------------------------------------------------------------------===//
// #dt.pieces
//===----------------------------------------------------------------------===//

PiecesAttr PiecesAttr::get(MLIRContext *context, const RowSet &rows,
                           unsigned rank) {
  return get(context, rank, RowsAttr::get(context, rows));
}

LogicalResult
PiecesAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                   unsigned rank, RowsAttr rows) {
  Row lo, hi;
  if (failed(verifyRank(emitError, rank, rows, numColumns(rank))))
    return failure();
  if (!rows.bounds(lo, hi))
    return success();
  if (lo[kFrom] < 0 || lo[kTo] < 0)
    return emitError() << "expected devices from 0, found "
                       << std::min(lo[kFrom], lo[kTo]);
  if (hi[kFrom] > kMaxDevice || hi[kTo] > kMaxDevice)
    return emitError() << "expected devices up to " << kMaxDevice << ", found "
                       << std::max(hi[kFrom], hi[kTo]);
  return verifyBoxes(emitError, kOffset, rank, rows, lo, hi);
}

int64_t PiecesAttr::numElements() const {
  int64_t total = 0;
  getRows().forEach([&](llvm::ArrayRef<int64_t> row) {
    int64_t volume = 1;
    for (int64_t size : row.drop_front(sizeColumn()))
      volume *= size;
    total += volume;
  });
  return total;
}

void PiecesAttr::forEach(
    llvm::function_ref<void(int64_t, int64_t, const Box &)> fn) const {
  getRows().forEach([&](llvm::ArrayRef<int64_t> row) {
    fn(row[kFrom], row[kTo], boxOf(row, kOffset, getRank()));
  });
}

static ParseResult readPiece(AsmParser &parser, RowReader &reader) {
  if (succeeded(parser.parseOptionalKeyword("on"))) {
    if (reader.column())
      return failure();
    reader.repeatColumn();
    return readBox(parser, reader);
  }
  if (parser.parseKeyword("from") || reader.column() ||
      parser.parseKeyword("to") || reader.column())
    return failure();
  return readBox(parser, reader);
}

Attribute PiecesAttr::parse(AsmParser &parser, Type) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  RowSet rows;
  bool more = true;
  if (parser.parseLess() || parseRank(parser, /*fixedColumns=*/2, rows, more))
    return {};
  auto read = [&](RowReader &reader) { return readPiece(parser, reader); };
  if (more && parseRows(parser, rows, read))
    return {};
  if (parser.parseGreater())
    return {};
  RowsAttr attr = RowsAttr::getChecked(parser, loc, rows);
  if (!attr)
    return {};
  return parser.getChecked<PiecesAttr>(loc, parser.getContext(),
                                       (rows.numColumns - 2) / 2, attr);
}

void PiecesAttr::print(AsmPrinter &printer) const {
  llvm::raw_ostream &os = printer.getStream();
  os << "<";
  printRank(os, getRows(), getRank());
  printRows(os, getRows(), [&](const RowClass &entry) {
    bool local = sameColumn(entry, kFrom, kTo);
    os << (local ? "on " : "from ");
    printColumn(os, entry, kFrom);
    if (!local) {
      os << " to ";
      printColumn(os, entry, kTo);
    }
    printBox(os, entry, kOffset, getRank());
  });
  os << ">";
}

//===----------------------------------------------------------------------===//
// #dt.shards
//===----------------------------------------------------------------------===//

// Rows with and without a range are compressed apart, so that no class runs
// through the mark of the latter.
ShardsAttr ShardsAttr::get(MLIRContext *context, llvm::ArrayRef<RankBox> boxes,
                           unsigned rank) {
  RowSet all;
  all.numColumns = numColumns(rank);
  for (bool ranged : {false, true}) {
    std::vector<int64_t> rows;
    for (const RankBox &held : boxes) {
      if (held.range.has_value() != ranged)
        continue;
      rows.push_back(held.rank);
      for (unsigned d = 0; d < rank; ++d)
        rows.push_back(held.box[d].lo);
      for (unsigned d = 0; d < rank; ++d)
        rows.push_back(held.box[d].size());
      rows.push_back(ranged ? held.range->lo : kNoRange);
      rows.push_back(ranged ? held.range->hi : kNoRange);
    }
    if (rows.empty())
      continue;
    RowSet part = compressRows(rows, all.numColumns);
    llvm::append_range(all.classes, part.classes);
    llvm::append_range(all.table, part.table);
  }
  return get(context, rank, RowsAttr::get(context, all));
}

void ShardsAttr::forEach(llvm::function_ref<void(const RankBox &)> fn) const {
  unsigned rangeColumn = numColumns(getRank()) - 2;
  getRows().forEach([&](llvm::ArrayRef<int64_t> row) {
    RankBox held;
    held.rank = row[0];
    held.box = boxOf(row, 1, getRank());
    if (row[rangeColumn] != kNoRange)
      held.range = Interval{row[rangeColumn], row[rangeColumn + 1]};
    fn(held);
  });
}

std::vector<RankBox> ShardsAttr::toGeometry() const {
  std::vector<RankBox> result;
  forEach([&](const RankBox &held) { result.push_back(held); });
  return result;
}

LogicalResult
ShardsAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                   unsigned rank, RowsAttr rows) {
  Row lo, hi;
  if (failed(verifyRank(emitError, rank, rows, numColumns(rank))))
    return failure();
  if (!rows.bounds(lo, hi))
    return success();
  if (lo[0] < 0)
    return emitError() << "expected ranks from 0, found " << lo[0];
  for (unsigned end : {numColumns(rank) - 2, numColumns(rank) - 1})
    if (lo[end] < kNoRange)
      return emitError() << "expected ranges from 0, found " << lo[end];
  if (rows.numRows() > kMaxRegions)
    return emitError() << "has " << rows.numRows()
                       << " rows, more than the limit of " << kMaxRegions;
  return verifyBoxes(emitError, /*first=*/1, rank, rows, lo, hi);
}

static ParseResult readShard(AsmParser &parser, RowReader &reader) {
  if (parser.parseKeyword("rank") || reader.column() || readBox(parser, reader))
    return failure();
  if (failed(parser.parseOptionalKeyword("range"))) {
    reader.constantColumn(kNoRange);
    reader.constantColumn(kNoRange);
    return success();
  }
  unsigned count = 0;
  if (reader.columns(count))
    return failure();
  if (count == 2)
    return success();
  return parser.emitError(parser.getCurrentLocation())
         << "expected a range of 2 ends, found " << count;
}

Attribute ShardsAttr::parseBody(AsmParser &parser) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  RowSet rows;
  bool more = true;
  auto read = [&](RowReader &reader) { return readShard(parser, reader); };
  if (parseRank(parser, /*fixedColumns=*/3, rows, more) ||
      (more && parseRows(parser, rows, read)))
    return {};
  RowsAttr attr = RowsAttr::getChecked(parser, loc, rows);
  if (!attr)
    return {};
  return parser.getChecked<ShardsAttr>(loc, parser.getContext(),
                                       (rows.numColumns - 3) / 2, attr);
}

void ShardsAttr::printBody(AsmPrinter &printer) const {
  llvm::raw_ostream &os = printer.getStream();
  printRank(os, getRows(), getRank());
  unsigned rangeColumn = numColumns(getRank()) - 2;
  printRows(os, getRows(), [&](const RowClass &entry) {
    os << "rank ";
    printColumn(os, entry, 0);
    printBox(os, entry, 1, getRank());
    if (entry.base[rangeColumn] == kNoRange)
      return;
    os << " range ";
    printColumns(os, entry, rangeColumn, 2);
  });
}

Attribute ShardsAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  Attribute result = parseBody(parser);
  if (!result || parser.parseGreater())
    return {};
  return result;
}

void ShardsAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printBody(printer);
  printer << ">";
}

} // namespace dt
