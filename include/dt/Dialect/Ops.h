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

namespace dt {
/// What a transfer moves at one hop.
struct HopPieces {
  int64_t hop = 0;
  PiecesAttr pieces;
};
} // namespace dt

#include "dt/Dialect/DtInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dt/Dialect/DtOps.h.inc"

#endif // DT_DIALECT_OPS_H
