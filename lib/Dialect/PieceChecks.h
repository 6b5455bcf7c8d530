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

/// The param that an op inside a transition names; null where the transition
/// says itself what is wrong.
mlir::FailureOr<ParamOp> findParam(mlir::Operation *op,
                                   mlir::FlatSymbolRefAttr name,
                                   mlir::SymbolTableCollection &tables);

/// Checks the symbols, states and boxes of an op on pieces.
llvm::LogicalResult verifyMovement(MovementOpInterface op,
                                   mlir::SymbolTableCollection &tables);

/// A number of a wave or a hop ("a wave"), from `least` on.
llvm::LogicalResult verifyWave(mlir::Operation *op, llvm::StringRef what,
                               int64_t number, int64_t least);

} // namespace dt

#endif // DT_LIB_DIALECT_PIECECHECKS_H
