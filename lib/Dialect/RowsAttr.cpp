//===- RowsAttr.cpp - #dt.rows --------------------------------------------===//

#include "RowText.h"

#include "dt/Geometry/Limits.h"

#include <limits>

using namespace mlir;

namespace dt {

// A class of one row says the same as a row of the table; one spelling.
static bool isSingleRow(const RowClass &rowClass) {
  return llvm::all_of(rowClass.counts, [](int64_t n) { return n == 1; });
}

namespace {
/// Rows as the attribute holds them.
struct Encoded {
  llvm::SmallVector<int64_t> classes;
  std::vector<int64_t> table;
};
} // namespace

static Encoded encode(const RowSet &rows) {
  auto [classes, singles] = Encoded();
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
  singles.insert(singles.end(), rows.table.begin(), rows.table.end());
  return {std::move(classes), std::move(singles)};
}

RowsAttr RowsAttr::get(MLIRContext *context, const RowSet &rows) {
  Encoded encoded = encode(rows);
  return get(context, rows.numColumns, encoded.classes, encoded.table);
}

static std::vector<RowClass> decode(unsigned numColumns,
                                    llvm::ArrayRef<int64_t> classes) {
  std::vector<RowClass> result;
  auto take = [&](size_t n) {
    llvm::ArrayRef<int64_t> part = classes.take_front(n);
    classes = classes.drop_front(n);
    return part.vec();
  };
  while (!classes.empty()) {
    RowClass &rowClass = result.emplace_back();
    size_t numRanges = take(1).front();
    rowClass.counts = take(numRanges);
    rowClass.base = take(numColumns);
    for (size_t r = 0; r < numRanges; ++r)
      rowClass.strides.push_back(take(numColumns));
  }
  return result;
}

namespace {
/// A class as it is encoded, without copies: loops over all classes allocate
/// nothing.
struct EncodedClass {
  llvm::ArrayRef<int64_t> counts, base, strides; // a row of strides per count

  llvm::ArrayRef<int64_t> stride(size_t range) const {
    return strides.slice(range * base.size(), base.size());
  }
};

template <typename Fn>
void forEachClass(unsigned numColumns, llvm::ArrayRef<int64_t> classes, Fn fn) {
  while (!classes.empty()) {
    size_t numRanges = classes.front();
    llvm::ArrayRef<int64_t> rows = classes.drop_front(1 + numRanges);
    fn(EncodedClass{classes.slice(1, numRanges), rows.take_front(numColumns),
                    rows.slice(numColumns, numRanges * numColumns)});
    classes = rows.drop_front((1 + numRanges) * numColumns);
  }
}
} // namespace

std::vector<RowClass> RowsAttr::decodeClasses() const {
  return decode(getNumColumns(), getClasses());
}

RowSet RowsAttr::toRowSet() const {
  return {getNumColumns(), decodeClasses(), getTable().vec()};
}

int64_t RowsAttr::numRows() const {
  int64_t count = getTable().size() / getNumColumns();
  forEachClass(getNumColumns(), getClasses(), [&](const EncodedClass &entry) {
    int64_t size = 1;
    for (int64_t n : entry.counts)
      size *= n;
    count += size;
  });
  return count;
}

// Extremes of a linear column lie at the ends of its ranges.
static bool columnBounds(const EncodedClass &entry, unsigned column,
                         int64_t &lo, int64_t &hi) {
  lo = hi = entry.base[column];
  for (size_t r = 0; r < entry.counts.size(); ++r) {
    int64_t reach = 0, stride = entry.stride(r)[column];
    if (__builtin_mul_overflow(stride, entry.counts[r] - 1, &reach))
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
  const unsigned numColumns = getNumColumns();
  forEachClass(numColumns, getClasses(), [&](const EncodedClass &entry) {
    for (unsigned c = 0; c < numColumns; ++c) {
      int64_t classLo = 0, classHi = 0;
      columnBounds(entry, c, classLo, classHi);
      lo[c] = std::min(lo[c], classLo);
      hi[c] = std::max(hi[c], classHi);
    }
  });
  llvm::ArrayRef<int64_t> table = getTable();
  int64_t *least = lo.data(), *most = hi.data();
  for (const int64_t *row = table.begin(); row != table.end();
       row += numColumns)
    for (unsigned c = 0; c < numColumns; ++c) {
      least[c] = std::min(least[c], row[c]);
      most[c] = std::max(most[c], row[c]);
    }
  return !getTable().empty() || !getClasses().empty();
}

// Distinct values of base + i * strides[0] + j * strides[1] + ..., ascending.
static std::vector<int64_t> imageOf(int64_t base,
                                    llvm::ArrayRef<int64_t> counts,
                                    llvm::ArrayRef<int64_t> strides) {
  std::vector<int64_t> image = {base};
  for (auto [count, stride] : llvm::zip_equal(counts, strides)) {
    if (stride == 0)
      continue;
    size_t before = image.size();
    for (int64_t i = 1; i < count; ++i)
      for (size_t k = 0; k < before; ++k)
        image.push_back(image[k] + i * stride);
    llvm::sort(image);
    image.erase(llvm::unique(image), image.end());
  }
  return image;
}

std::vector<int64_t> RowsAttr::distinct(unsigned column) const {
  std::vector<int64_t> values;
  for (const RowClass &rowClass : decodeClasses()) {
    llvm::SmallVector<int64_t> strides;
    for (const Row &stride : rowClass.strides)
      strides.push_back(stride[column]);
    llvm::append_range(
        values, imageOf(rowClass.base[column], rowClass.counts, strides));
  }
  for (size_t i = column; i < getTable().size(); i += getNumColumns())
    values.push_back(getTable()[i]);
  llvm::sort(values);
  values.erase(llvm::unique(values), values.end());
  return values;
}

static void forEachRow(const EncodedClass &entry, Row &row, size_t range,
                       llvm::function_ref<void(llvm::ArrayRef<int64_t>)> fn) {
  if (range == entry.counts.size())
    return fn(row);
  llvm::ArrayRef<int64_t> stride = entry.stride(range);
  int64_t count = entry.counts[range];
  for (int64_t i = 0; i < count; ++i) {
    forEachRow(entry, row, range + 1, fn);
    for (size_t c = 0; c < row.size(); ++c)
      row[c] += stride[c];
  }
  for (size_t c = 0; c < row.size(); ++c)
    row[c] -= stride[c] * count;
}

void RowsAttr::forEach(
    llvm::function_ref<void(llvm::ArrayRef<int64_t>)> fn) const {
  Row row;
  forEachClass(getNumColumns(), getClasses(), [&](const EncodedClass &entry) {
    row.assign(entry.base.begin(), entry.base.end());
    forEachRow(entry, row, 0, fn);
  });
  for (size_t at = 0; at < getTable().size(); at += getNumColumns())
    fn(getTable().slice(at, getNumColumns()));
}

static LogicalResult
verifyClass(llvm::function_ref<InFlightDiagnostic()> emitError,
            const EncodedClass &entry, int64_t &numRows) {
  int64_t size = 1;
  for (int64_t count : entry.counts) {
    if (count <= 0)
      return emitError() << "expected positive counts, found " << count;
    if (__builtin_mul_overflow(size, count, &size))
      size = std::numeric_limits<int64_t>::max();
  }
  if (size > kMaxPieces - numRows)
    return emitError() << "a class of " << size
                       << " rows makes more than the limit of " << kMaxPieces;
  numRows += size;
  for (unsigned c = 0; c < entry.base.size(); ++c) {
    int64_t lo = 0, hi = 0;
    if (!columnBounds(entry, c, lo, hi))
      return emitError() << "column " << c << " of a class overflows 64 bits";
  }
  return success();
}

// The encoding may come from a hostile bytecode file: check it before it is
// decoded.
static bool isWellFormed(unsigned numColumns, llvm::ArrayRef<int64_t> classes) {
  while (!classes.empty()) {
    int64_t numRanges = classes.front();
    if (numRanges <= 0 || numRanges > int64_t(kMaxRanges))
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
  if (numColumns == 0 || numColumns > kMaxColumns)
    return emitError() << "expected 1 to " << kMaxColumns << " columns, found "
                       << numColumns;
  if (!isWellFormed(numColumns, classes))
    return emitError() << "row classes are not well formed";
  if (table.size() % numColumns != 0)
    return emitError() << "the table has " << table.size()
                       << " integers, not a multiple of " << numColumns
                       << " columns";
  int64_t numRows = table.size() / numColumns;
  if (numRows > kMaxPieces)
    return emitError() << "has " << numRows << " rows, more than the limit of "
                       << kMaxPieces;
  LogicalResult result = success();
  forEachClass(numColumns, classes, [&](const EncodedClass &entry) {
    if (succeeded(result))
      result = verifyClass(emitError, entry, numRows);
  });
  return result;
}

RowsAttr RowsAttr::getChecked(AsmParser &parser, llvm::SMLoc loc,
                              const RowSet &rows) {
  // A class without rows is no class, and has no place in the encoding.
  for (const RowClass &rowClass : rows.classes)
    for (int64_t count : rowClass.counts)
      if (count <= 0) {
        parser.emitError(loc) << "expected positive counts, found " << count;
        return {};
      }
  Encoded encoded = encode(rows);
  return parser.getChecked<RowsAttr>(loc, parser.getContext(), rows.numColumns,
                                     ArrayRef<int64_t>(encoded.classes),
                                     ArrayRef<int64_t>(encoded.table));
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
  if (succeeded(parser.parseOptionalComma()) &&
      parseRows(parser, rows, readTuple))
    return {};
  if (parser.parseGreater())
    return {};
  return getChecked(parser, loc, rows);
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

} // namespace dt
