//===- Hops.h - The hops of a transfer --------------------------*- C++ -*-===//
//
// A transfer has the pieces of all its hops in one attribute, those of a lower
// hop first, and for each hop how many classes and how many single rows of them
// are its own:
//
//   <classes a, b, rows c, d> hops [0 1 2, 3 1 0]   a, c and d at hop 0, b at 3
//
// Of hop 0 alone nothing is said. The text has the pieces hop by hop.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_DIALECT_HOPS_H
#define DT_LIB_DIALECT_HOPS_H

#include "dt/Dialect/Ops.h"

namespace dt {

/// What is wrong with the hops of some pieces, for an error; empty: nothing.
std::string problemOfHops(PiecesAttr pieces, llvm::ArrayRef<int64_t> hops);

/// The pieces hop by hop; there is no problem with them.
llvm::SmallVector<HopPieces, 1> splitHops(PiecesAttr pieces,
                                          llvm::ArrayRef<int64_t> hops);

/// The other way round; one at least, in any order, several of one hop too.
PiecesAttr joinHops(llvm::ArrayRef<HopPieces> parts,
                    llvm::SmallVectorImpl<int64_t> &hops);

/// `<pieces>` or `<pieces> hop 1, <pieces> hop 3`
mlir::ParseResult parseHops(mlir::OpAsmParser &parser, PiecesAttr &pieces,
                            llvm::SmallVector<int64_t> &hops);
void printHops(mlir::OpAsmPrinter &printer, mlir::Operation *op,
               PiecesAttr pieces, llvm::ArrayRef<int64_t> hops);

} // namespace dt

#endif // DT_LIB_DIALECT_HOPS_H
