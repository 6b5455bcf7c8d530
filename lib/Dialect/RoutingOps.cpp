//===- RoutingOps.cpp - What ops on pieces must satisfy -------------------===//

#include "Hops.h"
#include "PieceChecks.h"

using namespace mlir;

namespace dt {

LogicalResult KeepOp::verify() { return verifyLocal(*this, getPieces()); }
LogicalResult CopyOp::verify() { return verifyLocal(*this, getPieces()); }
LogicalResult DeriveOp::verify() { return verifyLocal(*this, getPieces()); }
LogicalResult ZeroOp::verify() { return verifyLocal(*this, getPieces()); }

void TransferOp::build(OpBuilder &builder, OperationState &state,
                       FlatSymbolRefAttr param, ArrayAttr states,
                       ArrayRef<HopPieces> parts) {
  SmallVector<int64_t> hops;
  PiecesAttr pieces = joinHops(parts, hops);
  build(builder, state, TypeRange(), param, states, pieces, hops);
}

SmallVector<HopPieces, 1> TransferOp::byHop() {
  return splitHops(getPieces(), getHops());
}

int64_t TransferOp::lastHop() { return byHop().back().hop; }

void TransferOp::setByHop(ArrayRef<HopPieces> parts) {
  SmallVector<int64_t> hops;
  setPiecesAttr(joinHops(parts, hops));
  setHops(hops);
}

LogicalResult TransferOp::verify() {
  if (std::string problem = problemOfHops(getPieces(), getHops());
      !problem.empty())
    return emitOpError() << problem;
  for (const HopPieces &part : byHop())
    if (failed(verifyWave(*this, "a hop", part.hop, /*least=*/0)))
      return failure();
  return verifyRemote(*this, getPieces());
}

} // namespace dt
