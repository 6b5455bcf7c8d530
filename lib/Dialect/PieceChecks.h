//===- PieceChecks.h - Checks that ops on pieces share ----------*- C++ -*-===//

#ifndef DT_LIB_DIALECT_PIECECHECKS_H
#define DT_LIB_DIALECT_PIECECHECKS_H

#include "dt/Dialect/Ops.h"

namespace dt {

/// Every piece stays on its device.
llvm::LogicalResult verifyLocal(mlir::Operation *op, PiecesAttr pieces);
/// No piece stays on its device.
llvm::LogicalResult verifyRemote(mlir::Operation *op, PiecesAttr pieces);

/// The states named are the param's.
llvm::LogicalResult verifyStates(mlir::Operation *op, mlir::ArrayAttr states,
                                 ParamOp param);

/// The distinct (from, to) of a class, some perhaps twice.
void forEachEnd(const RowClass &rowClass,
                llvm::function_ref<void(int64_t from, int64_t to)> fn);

} // namespace dt

#endif // DT_LIB_DIALECT_PIECECHECKS_H
