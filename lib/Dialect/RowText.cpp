//===- RowText.cpp - Reading and printing rows ----------------------------===//

#include "RowText.h"

#include "dt/Geometry/Limits.h"

#include <charconv>

using namespace mlir;

namespace dt {

// More single rows than this are one table string.
static constexpr size_t kMaxPrintedRows = 64;

static std::string rangeName(unsigned index) {
  static constexpr llvm::StringLiteral letters = "ijklmn";
  if (index < letters.size())
    return std::string(1, letters[index]);
  return "r" + std::to_string(index);
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

ParseResult RowReader::ranges() {
  return parser.parseCommaSeparatedList(
      AsmParser::Delimiter::OptionalSquare, [&]() -> ParseResult {
        llvm::StringRef name;
        int64_t count = 0;
        if (parser.parseKeyword(&name) || parser.parseColon() ||
            parser.parseInteger(count))
          return failure();
        if (names.size() == kMaxRanges)
          return parser.emitError(parser.getCurrentLocation())
                 << "a class has more ranges than the limit of " << kMaxRanges;
        names.push_back(name);
        entry.counts.push_back(count);
        entry.strides.emplace_back();
        return success();
      });
}

// integer | name [* integer]
ParseResult RowReader::term(int64_t &base, std::vector<int64_t> &strides) {
  int64_t value = 0;
  llvm::SMLoc loc = parser.getCurrentLocation();
  auto add = [&](int64_t &sum) -> ParseResult {
    if (__builtin_add_overflow(sum, value, &sum))
      return parser.emitError(loc, "the terms overflow 64 bits");
    return success();
  };
  OptionalParseResult constant = parser.parseOptionalInteger(value);
  if (constant.has_value())
    return failure(failed(*constant) || failed(add(base)));
  llvm::StringRef name;
  if (failed(parser.parseOptionalKeyword(&name)))
    return parser.emitError(loc, "expected an integer or the name of a range");
  const auto *found = llvm::find(names, name);
  if (found == names.end())
    return parser.emitError(loc) << "no range is named '" << name << "'";
  value = 1;
  if (succeeded(parser.parseOptionalStar()) && parser.parseInteger(value))
    return failure();
  return add(strides[found - names.begin()]);
}

ParseResult RowReader::column() {
  int64_t base = 0;
  std::vector<int64_t> strides(names.size(), 0);
  do {
    if (term(base, strides))
      return failure();
  } while (succeeded(parser.parseOptionalPlus()));
  entry.base.push_back(base);
  for (size_t r = 0; r < strides.size(); ++r)
    entry.strides[r].push_back(strides[r]);
  return success();
}

ParseResult RowReader::columns(unsigned &count,
                               AsmParser::Delimiter delimiter) {
  count = 0;
  return parser.parseCommaSeparatedList(delimiter, [&] {
    ++count;
    return column();
  });
}

void RowReader::repeatColumn() {
  entry.base.push_back(entry.base.back());
  for (Row &stride : entry.strides)
    stride.push_back(stride.back());
}

void RowReader::constantColumn(int64_t value) {
  entry.base.push_back(value);
  for (Row &stride : entry.strides)
    stride.push_back(0);
}

static ParseResult parseTable(AsmParser &parser, RowSet &rows) {
  std::string text;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseString(&text))
    return failure();
  const char *at = text.data(), *end = at + text.size();
  while (at != end) {
    if (*at == ' ' || *at == ';') {
      ++at;
      continue;
    }
    int64_t value = 0;
    auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc())
      return parser.emitError(loc, "expected integers in the table, found '")
             << *at << "'";
    rows.table.push_back(value);
    at = next;
  }
  if (rows.numColumns == 0 || rows.table.size() % rows.numColumns != 0)
    return parser.emitError(loc)
           << "the table has " << rows.table.size()
           << " integers, not a multiple of " << rows.numColumns << " columns";
  return success();
}

static ParseResult
parseEntry(AsmParser &parser, RowSet &rows,
           llvm::function_ref<ParseResult(RowReader &)> readEntry) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  RowReader reader(parser);
  if (reader.ranges() || readEntry(reader))
    return failure();
  RowClass entry = reader.take();
  if (rows.numColumns == 0)
    rows.numColumns = entry.base.size();
  if (entry.base.size() != rows.numColumns)
    return parser.emitError(loc) << "the row has " << entry.base.size()
                                 << " columns, expected " << rows.numColumns;
  if (entry.counts.empty())
    rows.table.insert(rows.table.end(), entry.base.begin(), entry.base.end());
  else
    rows.classes.push_back(std::move(entry));
  return success();
}

ParseResult parseRows(AsmParser &parser, RowSet &rows,
                      llvm::function_ref<ParseResult(RowReader &)> readEntry) {
  do {
    if (succeeded(parser.parseOptionalKeyword("table"))) {
      if (parseTable(parser, rows))
        return failure();
      continue;
    }
    if (parseEntry(parser, rows, readEntry))
      return failure();
  } while (succeeded(parser.parseOptionalComma()));
  return success();
}

ParseResult parseIntList(AsmParser &parser,
                         llvm::SmallVectorImpl<int64_t> &values) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    return parser.parseInteger(values.emplace_back());
  });
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

void printIntList(llvm::raw_ostream &os, llvm::ArrayRef<int64_t> values) {
  os << "[";
  llvm::interleaveComma(values, os);
  os << "]";
}

void printColumn(llvm::raw_ostream &os, const RowClass &entry,
                 unsigned column) {
  bool first = true;
  for (size_t r = 0; r < entry.counts.size(); ++r) {
    int64_t stride = entry.strides[r][column];
    if (stride == 0)
      continue;
    os << (first ? "" : " + ") << rangeName(r);
    if (stride != 1)
      os << " * " << stride;
    first = false;
  }
  if (first || entry.base[column] != 0)
    os << (first ? "" : " + ") << entry.base[column];
}

void printColumns(llvm::raw_ostream &os, const RowClass &entry, unsigned first,
                  unsigned count) {
  os << "[";
  for (unsigned c = 0; c < count; ++c) {
    os << (c ? ", " : "");
    printColumn(os, entry, first + c);
  }
  os << "]";
}

bool sameColumn(const RowClass &entry, unsigned a, unsigned b) {
  return entry.base[a] == entry.base[b] &&
         llvm::all_of(entry.strides, [&](const Row &stride) {
           return stride[a] == stride[b];
         });
}

static void printRanges(llvm::raw_ostream &os, const RowClass &entry) {
  os << "[";
  for (size_t r = 0; r < entry.counts.size(); ++r)
    os << (r ? ", " : "") << rangeName(r) << ": " << entry.counts[r];
  os << "] ";
}

static void printTable(llvm::raw_ostream &os, RowsAttr rows) {
  os << "table \"";
  llvm::ArrayRef<int64_t> table = rows.getTable();
  for (size_t i = 0; i < table.size(); ++i) {
    if (i)
      os << (i % rows.getNumColumns() == 0 ? "; " : " ");
    os << table[i];
  }
  os << '"';
}

bool printsAsTable(RowsAttr rows) {
  return rows.getTable().size() > kMaxPrintedRows * rows.getNumColumns();
}

void printRows(llvm::raw_ostream &os, RowsAttr rows,
               llvm::function_ref<void(const RowClass &)> printEntry) {
  bool first = true;
  auto separate = [&] {
    os << (first ? "" : ", ");
    first = false;
  };
  for (const RowClass &rowClass : rows.decodeClasses()) {
    separate();
    printRanges(os, rowClass);
    printEntry(rowClass);
  }
  llvm::ArrayRef<int64_t> table = rows.getTable();
  if (printsAsTable(rows)) {
    separate();
    printTable(os, rows);
    return;
  }
  for (size_t at = 0; at < table.size(); at += rows.getNumColumns()) {
    separate();
    llvm::ArrayRef<int64_t> row = table.slice(at, rows.getNumColumns());
    printEntry(RowClass{Row(row.begin(), row.end()), {}, {}});
  }
}

LogicalResult
verifyDeviceList(llvm::function_ref<InFlightDiagnostic()> emitError,
                 ArrayRef<int64_t> devices) {
  SmallVector<int64_t> sorted(devices);
  llvm::sort(sorted);
  if (sorted.front() < 0)
    return emitError() << "expected devices from 0, found " << sorted.front();
  if (sorted.back() > kMaxDevice)
    return emitError() << "expected devices up to " << kMaxDevice << ", found "
                       << sorted.back();
  auto *twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    return emitError() << "device " << *twice << " appears twice";
  return success();
}

} // namespace dt
