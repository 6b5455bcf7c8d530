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

/// A number of a wave or a hop ("a wave"), from `least` on.
llvm::LogicalResult verifyWave(mlir::Operation *op, llvm::StringRef what,
                               int64_t number, int64_t least);

} // namespace dt

#endif // DT_LIB_DIALECT_PIECECHECKS_H
