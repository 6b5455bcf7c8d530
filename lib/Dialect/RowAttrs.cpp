//===- RowAttrs.cpp - #dt.rows, #dt.pieces and #dt.shards -----------------===//

#include "RowText.h"

#include <limits>

using namespace mlir;

namespace dt {

//===----------------------------------------------------------------------===//
// #dt.rows
//===----------------------------------------------------------------------===//

// A class of one row says the same as a row of the table; one spelling.
static bool isSingleRow(const RowClass &rowClass) {
  return llvm::all_of(rowClass.counts, [](int64_t n) { return n == 1; });
}

RowsAttr RowsAttr::get(MLIRContext *context, const RowSet &rows) {
  llvm::SmallVector<int64_t> classes;
  std::vector<int64_t> singles;
  for (const RowClass &rowClass : rows.classes) {
    if (isSingleRow(rowClass)) {
      singles.insert(singles.end(), rowClass.base.begin(), rowClass.base.end());
      continue;
    }
    classes.push_back(rowClass.counts.size());
    llvm::append_range(classes, rowClass.counts);
    llvm::append_range(classes, rowClass.base);
    for (const Row &stride : rowClass.strides)
      llvm::append_range(classes, stride);
  }
  if (singles.empty())
    return get(context, rows.numColumns, classes, rows.table);
  singles.insert(singles.end(), rows.table.begin(), rows.table.end());
  return get(context, rows.numColumns, classes, singles);
}

std::vector<RowClass> RowsAttr::decodeClasses() const {
  std::vector<RowClass> result;
  llvm::ArrayRef<int64_t> left = getClasses();
  auto take = [&](size_t n) {
    llvm::ArrayRef<int64_t> part = left.take_front(n);
    left = left.drop_front(n);
    return std::vector<int64_t>(part.begin(), part.end());
  };
  while (!left.empty()) {
    RowClass &rowClass = result.emplace_back();
    size_t numRanges = take(1).front();
    rowClass.counts = take(numRanges);
    rowClass.base = take(getNumColumns());
    for (size_t r = 0; r < numRanges; ++r)
      rowClass.strides.push_back(take(getNumColumns()));
  }
  return result;
}

RowSet RowsAttr::toRowSet() const {
  return {getNumColumns(), decodeClasses(), getTable().vec()};
}

int64_t RowsAttr::numRows() const {
  int64_t count = getTable().size() / getNumColumns();
  for (const RowClass &rowClass : decodeClasses()) {
    int64_t size = 1;
    for (int64_t n : rowClass.counts)
      size *= n;
    count += size;
  }
  return count;
}

// Extremes of a linear column lie at the ends of its ranges.
static bool columnBounds(const RowClass &rowClass, unsigned column, int64_t &lo,
                         int64_t &hi) {
  lo = hi = rowClass.base[column];
  for (size_t r = 0; r < rowClass.counts.size(); ++r) {
    int64_t reach = 0, stride = rowClass.strides[r][column];
    if (__builtin_mul_overflow(stride, rowClass.counts[r] - 1, &reach))
      return false;
    int64_t &end = reach < 0 ? lo : hi;
    if (__builtin_add_overflow(end, reach, &end))
      return false;
  }
  return true;
}

bool RowsAttr::bounds(Row &lo, Row &hi) const {
  lo.assign(getNumColumns(), std::numeric_limits<int64_t>::max());
  hi.assign(getNumColumns(), std::numeric_limits<int64_t>::min());
  for (const RowClass &rowClass : decodeClasses())
    for (unsigned c = 0; c < getNumColumns(); ++c) {
      int64_t classLo = 0, classHi = 0;
      columnBounds(rowClass, c, classLo, classHi);
      lo[c] = std::min(lo[c], classLo);
      hi[c] = std::max(hi[c], classHi);
    }
  llvm::ArrayRef<int64_t> table = getTable();
  for (size_t i = 0, c = 0; i < table.size(); ++i) {
    lo[c] = std::min(lo[c], table[i]);
    hi[c] = std::max(hi[c], table[i]);
    c = c + 1 == getNumColumns() ? 0 : c + 1;
  }
  return !getTable().empty() || !getClasses().empty();
}

std::vector<int64_t> RowsAttr::distinct(unsigned column) const {
  std::vector<int64_t> values;
  for (const RowClass &rowClass : decodeClasses()) {
    std::vector<int64_t> image = {rowClass.base[column]};
    for (size_t r = 0; r < rowClass.counts.size(); ++r) {
      int64_t stride = rowClass.strides[r][column];
      size_t before = image.size();
      for (int64_t i = 1; stride != 0 && i < rowClass.counts[r]; ++i)
        for (size_t k = 0; k < before; ++k)
          image.push_back(image[k] + i * stride);
    }
    llvm::append_range(values, image);
  }
  for (size_t i = column; i < getTable().size(); i += getNumColumns())
    values.push_back(getTable()[i]);
  llvm::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

static void forEachRow(const RowClass &rowClass, Row &row, size_t range,
                       llvm::function_ref<void(llvm::ArrayRef<int64_t>)> fn) {
  if (range == rowClass.counts.size())
    return fn(row);
  const Row &stride = rowClass.strides[range];
  int64_t count = rowClass.counts[range];
  for (int64_t i = 0; i < count; ++i) {
    forEachRow(rowClass, row, range + 1, fn);
    for (size_t c = 0; c < row.size(); ++c)
      row[c] += stride[c];
  }
  for (size_t c = 0; c < row.size(); ++c)
    row[c] -= stride[c] * count;
}

void RowsAttr::forEach(
    llvm::function_ref<void(llvm::ArrayRef<int64_t>)> fn) const {
  for (const RowClass &rowClass : decodeClasses()) {
    Row row = rowClass.base;
    forEachRow(rowClass, row, 0, fn);
  }
  for (size_t at = 0; at < getTable().size(); at += getNumColumns())
    fn(getTable().slice(at, getNumColumns()));
}

static LogicalResult
verifyClass(llvm::function_ref<InFlightDiagnostic()> emitError,
            const RowClass &rowClass) {
  int64_t size = 1;
  for (int64_t count : rowClass.counts) {
    if (count <= 0)
      return emitError() << "expected positive counts, found " << count;
    if (__builtin_mul_overflow(size, count, &size))
      return emitError() << "a class has more rows than 64 bits can count";
  }
  for (unsigned c = 0; c < rowClass.base.size(); ++c) {
    int64_t lo = 0, hi = 0;
    if (!columnBounds(rowClass, c, lo, hi))
      return emitError() << "column " << c << " of a class leaves 64 bits";
  }
  return success();
}

// The encoding may come from a hostile bytecode file: check it before it is
// decoded.
static bool isWellFormed(unsigned numColumns, llvm::ArrayRef<int64_t> classes) {
  while (!classes.empty()) {
    int64_t numRanges = classes.front();
    if (numRanges <= 0 || numRanges > int64_t(classes.size()))
      return false;
    size_t length = 1 + numRanges + (1 + numRanges) * size_t(numColumns);
    if (classes.size() < length)
      return false;
    classes = classes.drop_front(length);
  }
  return true;
}

LogicalResult
RowsAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                 unsigned numColumns, llvm::ArrayRef<int64_t> classes,
                 llvm::ArrayRef<int64_t> table) {
  if (numColumns == 0)
    return emitError() << "expected at least one column";
  if (!isWellFormed(numColumns, classes))
    return emitError() << "row classes are not well formed";
  if (table.size() % numColumns != 0)
    return emitError() << "the table has " << table.size()
                       << " integers, not a multiple of " << numColumns
                       << " columns";
  llvm::ArrayRef<int64_t> left = classes;
  while (!left.empty()) {
    size_t numRanges = left.front();
    llvm::ArrayRef<int64_t> at = left.drop_front();
    RowClass rowClass;
    rowClass.counts = at.take_front(numRanges).vec();
    rowClass.base = at.slice(numRanges, numColumns).vec();
    for (size_t r = 0; r < numRanges; ++r)
      rowClass.strides.push_back(
          at.slice(numRanges + (r + 1) * numColumns, numColumns).vec());
    if (failed(verifyClass(emitError, rowClass)))
      return failure();
    left = at.drop_front(numRanges + (1 + numRanges) * numColumns);
  }
  return success();
}

// Rows read from text, checked. Returns null after an error.
static RowsAttr getCheckedRows(AsmParser &parser, llvm::SMLoc loc,
                               const RowSet &rows) {
  auto emitError = [&] { return parser.emitError(loc); };
  for (const RowClass &rowClass : rows.classes)
    if (failed(verifyClass(emitError, rowClass)))
      return {};
  return RowsAttr::get(parser.getContext(), rows);
}

static ParseResult readTuple(RowReader &reader) {
  unsigned count = 0;
  return reader.columns(count, AsmParser::Delimiter::Paren);
}

Attribute RowsAttr::parse(AsmParser &parser, Type) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  RowSet rows;
  if (parser.parseLess() || parser.parseInteger(rows.numColumns) ||
      parser.parseKeyword("columns"))
    return {};
  if (rows.numColumns == 0) {
    parser.emitError(loc, "expected at least one column");
    return {};
  }
  if (succeeded(parser.parseOptionalComma()) &&
      parseRows(parser, rows, readTuple))
    return {};
  if (parser.parseGreater())
    return {};
  return getCheckedRows(parser, loc, rows);
}

void RowsAttr::print(AsmPrinter &printer) const {
  llvm::raw_ostream &os = printer.getStream();
  os << "<" << getNumColumns() << " columns";
  if (!getClasses().empty() || !getTable().empty())
    os << ", ";
  printRows(os, *this, [&](const RowClass &entry) {
    os << "(";
    for (unsigned c = 0; c < getNumColumns(); ++c) {
      os << (c ? ", " : "");
      printColumn(os, entry, c);
    }
    os << ")";
  });
  os << ">";
}

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
  if (parser.parseInteger(rank))
    return failure();
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

// Columns [first, first + 2 * rank) are a box: offsets from 0, sizes from 1.
static LogicalResult
verifyBoxes(llvm::function_ref<InFlightDiagnostic()> emitError, unsigned first,
            unsigned rank, const Row &lo) {
  for (unsigned d = 0; d < rank; ++d) {
    if (lo[first + d] < 0)
      return emitError() << "expected offsets from 0 in dim " << d
                         << ", found " << lo[first + d];
    if (lo[first + rank + d] < 1)
      return emitError() << "expected positive sizes in dim " << d
                         << ", found " << lo[first + rank + d];
  }
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
  return verifyBoxes(emitError, kOffset, rank, lo);
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
  RowsAttr attr = getCheckedRows(parser, loc, rows);
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

static constexpr int64_t kNoRange = -1;

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

std::vector<RankBox> ShardsAttr::toGeometry() const {
  std::vector<RankBox> result;
  unsigned rangeColumn = numColumns(getRank()) - 2;
  getRows().forEach([&](llvm::ArrayRef<int64_t> row) {
    RankBox &held = result.emplace_back();
    held.rank = row[0];
    held.box = boxOf(row, 1, getRank());
    if (row[rangeColumn] != kNoRange)
      held.range = Interval{row[rangeColumn], row[rangeColumn + 1]};
  });
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
  return verifyBoxes(emitError, /*first=*/1, rank, lo);
}

static ParseResult readShard(AsmParser &parser, RowReader &reader) {
  if (parser.parseKeyword("rank") || reader.column() ||
      readBox(parser, reader))
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
  RowsAttr attr = getCheckedRows(parser, loc, rows);
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
