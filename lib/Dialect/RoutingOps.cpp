//===- RoutingOps.cpp - What ops on pieces must satisfy -------------------===//

#include "PieceChecks.h"

using namespace mlir;

namespace dt {

LogicalResult KeepOp::verify() { return verifyLocal(*this, getPieces()); }
LogicalResult CopyOp::verify() { return verifyLocal(*this, getPieces()); }
LogicalResult DeriveOp::verify() { return verifyLocal(*this, getPieces()); }
LogicalResult ZeroOp::verify() { return verifyLocal(*this, getPieces()); }

LogicalResult TransferOp::verify() {
  if (failed(verifyWave(*this, "a hop", getHop(), /*least=*/0)))
    return failure();
  return verifyRemote(*this, getPieces());
}

} // namespace dt
