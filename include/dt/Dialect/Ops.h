//===- Ops.h - The ops of the dt dialect ------------------------*- C++ -*-===//

#ifndef DT_DIALECT_OPS_H
#define DT_DIALECT_OPS_H

#include "dt/Dialect/Dialect.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace dt {
class LayoutOp;
class MeshOp;
class ParamOp;
class PlaceOp;
class SpaceOp;
} // namespace dt

#include "dt/Dialect/DtInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dt/Dialect/DtOps.h.inc"

namespace dt {

/// The holdings of a place op, by device. A `bucketed` place is evaluated as
/// its placement cuts it, before the buckets do. On a placement that does not
/// fit, emits an error at the op.
mlir::FailureOr<std::vector<Holding>>
evaluateHoldings(PlaceOp place, mlir::SymbolTableCollection &tables);

/// Checks the symbols, states and boxes of an op on pieces.
llvm::LogicalResult verifyMovement(MovementOpInterface op,
                                   mlir::SymbolTableCollection &tables);

/// The param that an op inside a transition names, or null.
ParamOp lookupParam(mlir::Operation *op, mlir::FlatSymbolRefAttr name,
                    mlir::SymbolTableCollection &tables);

} // namespace dt

#endif // DT_DIALECT_OPS_H
