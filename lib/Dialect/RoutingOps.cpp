//===- RoutingOps.cpp - What ops on pieces must satisfy -------------------===//

#include "PieceChecks.h"

using namespace mlir;

namespace dt {

// Whether some class or row of the pieces stays on its device, and whether
// some leaves it. A class may do both: `from i to 2`.
static LogicalResult verifyEnds(Operation *op, PiecesAttr pieces,
                                bool expectSame) {
  LogicalResult result = success();
  auto check = [&](int64_t from, int64_t to) {
    if ((from == to) == expectSame || failed(result))
      return;
    result = expectSame
                 ? op->emitOpError() << "stays on one device, but a piece is "
                                     << "from " << from << " to " << to
                 : op->emitOpError() << "moves between devices, but a piece is "
                                     << "from and to device " << from;
  };
  constexpr unsigned from = PiecesAttr::kFrom, to = PiecesAttr::kTo;
  RowsAttr rows = pieces.getRows();
  for (const RowClass &rowClass : rows.decodeClasses())
    forEachEnd(rowClass, check);
  ArrayRef<int64_t> table = rows.getTable();
  for (size_t at = 0; at < table.size(); at += rows.getNumColumns())
    check(table[at + from], table[at + to]);
  return result;
}

LogicalResult verifyLocal(Operation *op, PiecesAttr pieces) {
  return verifyEnds(op, pieces, /*expectSame=*/true);
}

LogicalResult verifyRemote(Operation *op, PiecesAttr pieces) {
  return verifyEnds(op, pieces, /*expectSame=*/false);
}

void forEachEnd(const RowClass &rowClass,
                llvm::function_ref<void(int64_t from, int64_t to)> fn) {
  constexpr unsigned from = PiecesAttr::kFrom, to = PiecesAttr::kTo;
  // Only the ranges that change a device matter; most have a few values.
  RowSet ends;
  RowClass projected;
  projected.base = {rowClass.base[from], rowClass.base[to]};
  for (size_t r = 0; r < rowClass.counts.size(); ++r) {
    const Row &stride = rowClass.strides[r];
    if (stride[from] == 0 && stride[to] == 0)
      continue;
    projected.counts.push_back(rowClass.counts[r]);
    projected.strides.push_back({stride[from], stride[to]});
  }
  ends.numColumns = 2;
  ends.classes.push_back(std::move(projected));
  std::vector<int64_t> rows = expandRows(ends);
  for (size_t i = 0; i < rows.size(); i += 2)
    fn(rows[i], rows[i + 1]);
}

LogicalResult KeepOp::verify() { return verifyLocal(*this, getPieces()); }
LogicalResult CopyOp::verify() { return verifyLocal(*this, getPieces()); }
LogicalResult DeriveOp::verify() { return verifyLocal(*this, getPieces()); }
LogicalResult ZeroOp::verify() { return verifyLocal(*this, getPieces()); }

LogicalResult TransferOp::verify() {
  if (getHop() < 0)
    return emitOpError() << "expected a hop from 0, found " << getHop();
  return verifyRemote(*this, getPieces());
}

} // namespace dt
