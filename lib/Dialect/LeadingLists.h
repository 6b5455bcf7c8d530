//===- LeadingLists.h - Sequences of leading dims in attributes -*- C++ -*-===//
//
// Params and tensors keep a sequence (dt/Geometry/Sequence.h) for each leading
// dim as three arrays: where it begins, its step, and all lists, one after the
// other, each behind its length. A dim without a list has length 0, and no
// array of lists is there where no dim has one.
//
//   [0 step 4, {0, 1, 5}], of numbers:
//       first [0, 0], step [4, 0], lists [0, 3, 0, 1, 5]
//
//   [26, {0, 14, 28, 40}], of offsets:
//       step [26, 0], lists [0, 4, 0, 14, 28, 40]
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_DIALECT_LEADINGLISTS_H
#define DT_LIB_DIALECT_LEADINGLISTS_H

#include "dt/Dialect/Dialect.h"
#include "dt/Geometry/Sequence.h"

namespace dt {

/// The list of a dim; empty where it has none.
llvm::ArrayRef<int64_t> listOf(llvm::ArrayRef<int64_t> lists, unsigned dim);

/// The sequences of all dims; those of offsets begin at 0.
std::vector<Sequence> sequencesOf(llvm::ArrayRef<int64_t> first,
                                  llvm::ArrayRef<int64_t> step,
                                  llvm::ArrayRef<int64_t> lists);

/// The other way round.
llvm::SmallVector<int64_t> listsOf(llvm::ArrayRef<Sequence> sequences);

/// What is wrong with lists of so many dims, for an error; empty: nothing. A
/// list stands where the step is 0, has distinct values that are not of one
/// step, and begins at `first`.
std::string problemOfLists(llvm::ArrayRef<int64_t> first,
                           llvm::ArrayRef<int64_t> step,
                           llvm::ArrayRef<int64_t> lists);

/// `[0 step 4, 3, {0, 1, 5}]`, or nothing.
mlir::ParseResult parseNumbers(mlir::AsmParser &parser,
                               llvm::SmallVectorImpl<int64_t> &first,
                               llvm::SmallVectorImpl<int64_t> &step,
                               llvm::SmallVectorImpl<int64_t> &lists);
void printNumbers(llvm::raw_ostream &os, llvm::ArrayRef<int64_t> first,
                  llvm::ArrayRef<int64_t> step, llvm::ArrayRef<int64_t> lists);

/// ` + [26, {0, 14, 28, 40}]`, or nothing.
mlir::ParseResult parseOffsets(mlir::AsmParser &parser,
                               llvm::SmallVectorImpl<int64_t> &step,
                               llvm::SmallVectorImpl<int64_t> &lists);
void printOffsets(llvm::raw_ostream &os, llvm::ArrayRef<int64_t> step,
                  llvm::ArrayRef<int64_t> lists);

} // namespace dt

#endif // DT_LIB_DIALECT_LEADINGLISTS_H
