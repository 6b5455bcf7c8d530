//===- RowText.h - Reading and printing rows --------------------*- C++ -*-===//
//
// The text that #dt.rows, #dt.pieces and #dt.shards share: entries separated
// by commas, each a class over named ranges or a single row,
//
//   [i: 32, j: 4] <columns as linear expressions of i and j>, <constants>
//
// and, for many single rows, `table "0 1 2; 3 4 5"`: one token, so that a
// million rows cost the lexer nothing.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_DIALECT_ROWTEXT_H
#define DT_LIB_DIALECT_ROWTEXT_H

#include "dt/Dialect/Dialect.h"

namespace dt {

/// Stands for "no range": the whole of each member's local tensor.
constexpr int64_t kNoRange = -1;

/// Reads the columns of one entry.
class RowReader {
public:
  explicit RowReader(mlir::AsmParser &parser) : parser(parser) {}

  /// Reads `[i: 4, j: 2]` where it is present.
  mlir::ParseResult ranges();
  /// Reads one linear expression as the next column.
  mlir::ParseResult column();
  /// Reads `[e, e, ...]` as the next columns, and counts them.
  mlir::ParseResult columns(unsigned &count,
                            mlir::AsmParser::Delimiter delimiter =
                                mlir::AsmParser::Delimiter::Square);
  /// The next column has the same value as the last one.
  void repeatColumn();
  void constantColumn(int64_t value);
  RowClass take() { return std::move(entry); }

private:
  mlir::ParseResult term(int64_t &base, std::vector<int64_t> &strides);

  mlir::AsmParser &parser;
  RowClass entry;
  llvm::SmallVector<llvm::StringRef> names;
};

/// Reads entries up to the first token that continues none. `readEntry` reads
/// the columns of one; `rows.numColumns` is 0 when the first entry decides it.
mlir::ParseResult
parseRows(mlir::AsmParser &parser, RowSet &rows,
          llvm::function_ref<mlir::ParseResult(RowReader &)> readEntry);

/// Prints one column as a linear expression.
void printColumn(llvm::raw_ostream &os, const RowClass &entry, unsigned column);
/// Prints `[e, e, ...]`.
void printColumns(llvm::raw_ostream &os, const RowClass &entry, unsigned first,
                  unsigned count);
/// Whether two columns of an entry are always equal.
bool sameColumn(const RowClass &entry, unsigned a, unsigned b);

/// Whether all single rows go into the table string, so that the text alone
/// does not tell the number of columns unless there are classes.
bool printsAsTable(RowsAttr rows);
void printRows(llvm::raw_ostream &os, RowsAttr rows,
               llvm::function_ref<void(const RowClass &)> printEntry);

/// Devices of ranks, one at least: distinct, from 0 to kMaxDevice.
llvm::LogicalResult
verifyDeviceList(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                 llvm::ArrayRef<int64_t> devices);

/// `[1, 2, 3]`
mlir::ParseResult parseIntList(mlir::AsmParser &parser,
                               llvm::SmallVectorImpl<int64_t> &values);
void printIntList(llvm::raw_ostream &os, llvm::ArrayRef<int64_t> values);

} // namespace dt

#endif // DT_LIB_DIALECT_ROWTEXT_H
