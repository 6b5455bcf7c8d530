//===- LibraryOps.h - A library's calls at the routing level ----*- C++ -*-===//

#ifndef DT_PASSES_LIBRARYOPS_H
#define DT_PASSES_LIBRARYOPS_H

#include "TransitionAnalysis.h"
#include "dt/Scheduling/LibraryWaves.h"

namespace dt {

/// The calls as ops, which stand at the end of the body: those of one kind
/// whose members are others are one.
void writeLibraryOps(CollectiveOp from, mlir::ArrayRef<LibraryCall> calls,
                     mlir::OpBuilder &builder);

/// What library collectives of a module at the routing level move, by group.
std::vector<LibraryCall> readLibraryCalls(const TransitionInfo &info);

} // namespace dt

#endif // DT_PASSES_LIBRARYOPS_H
