//===- RoutingOps.cpp - What ops on pieces must satisfy -------------------===//

#include "PieceChecks.h"

#include "dt/Geometry/Limits.h"

using namespace mlir;

namespace dt {

// A row of the class that moves between devices; nullopt when none does.
static std::optional<Row> movingRow(const RowClass &rowClass) {
  constexpr unsigned from = PiecesAttr::kFrom, to = PiecesAttr::kTo;
  Row row = rowClass.base;
  if (row[from] != row[to])
    return row;
  for (auto [count, stride] :
       llvm::zip_equal(rowClass.counts, rowClass.strides)) {
    if (count == 1 || stride[from] == stride[to])
      continue;
    for (size_t c = 0; c < row.size(); ++c)
      row[c] += stride[c];
    return row;
  }
  return std::nullopt;
}

// A row of the class that stays on its device, or nullopt. A class may have
// both: `from i to 2`.
static std::optional<Row> stayingRow(const RowClass &rowClass) {
  constexpr unsigned from = PiecesAttr::kFrom, to = PiecesAttr::kTo;
  // Only ranges that bring the ends nearer or apart matter; most do not.
  Row row = rowClass.base;
  SmallVector<unsigned> ranges;
  int64_t least = row[to] - row[from], most = least;
  for (auto [r, stride] : llvm::enumerate(rowClass.strides)) {
    int64_t reach = (stride[to] - stride[from]) * (rowClass.counts[r] - 1);
    (reach < 0 ? least : most) += reach;
    if (reach != 0)
      ranges.push_back(r);
  }
  if (least > 0 || most < 0)
    return std::nullopt;
  auto search = [&](auto &&self, size_t next) -> bool {
    if (next == ranges.size())
      return row[from] == row[to];
    const Row &stride = rowClass.strides[ranges[next]];
    int64_t count = rowClass.counts[ranges[next]];
    for (int64_t i = 0; i < count; ++i) {
      if (self(self, next + 1))
        return true;
      for (size_t c = 0; c < row.size(); ++c)
        row[c] += stride[c];
    }
    for (size_t c = 0; c < row.size(); ++c)
      row[c] -= stride[c] * count;
    return false;
  };
  return search(search, 0) ? std::optional<Row>(row) : std::nullopt;
}

// Whether all pieces stay on their device, or all leave it.
static LogicalResult verifyEnds(Operation *op, PiecesAttr pieces,
                                bool expectSame) {
  constexpr unsigned from = PiecesAttr::kFrom, to = PiecesAttr::kTo;
  RowsAttr rows = pieces.getRows();
  std::optional<Row> wrong;
  for (const RowClass &rowClass : rows.decodeClasses())
    if (!wrong)
      wrong = expectSame ? movingRow(rowClass) : stayingRow(rowClass);
  ArrayRef<int64_t> table = rows.getTable();
  for (size_t at = 0; !wrong && at < table.size(); at += rows.getNumColumns()) {
    ArrayRef<int64_t> row = table.slice(at, rows.getNumColumns());
    if ((row[from] == row[to]) != expectSame)
      wrong = row.vec();
  }
  if (!wrong)
    return success();
  if (expectSame)
    return op->emitOpError() << "stays on one device, but a piece is from "
                             << (*wrong)[from] << " to " << (*wrong)[to];
  return op->emitOpError() << "moves between devices, but a piece is from and "
                              "to device "
                           << (*wrong)[from];
}

LogicalResult verifyLocal(Operation *op, PiecesAttr pieces) {
  return verifyEnds(op, pieces, /*expectSame=*/true);
}

LogicalResult verifyRemote(Operation *op, PiecesAttr pieces) {
  return verifyEnds(op, pieces, /*expectSame=*/false);
}

LogicalResult verifyWave(Operation *op, StringRef what, int64_t number,
                         int64_t least) {
  if (number >= least && number <= kMaxWave)
    return success();
  return op->emitOpError() << "expected " << what << " from " << least
                           << (number < least
                                   ? std::string()
                                   : " to " + std::to_string(kMaxWave))
                           << ", found " << number;
}

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
