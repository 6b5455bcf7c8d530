//===- PieceChecks.cpp - Checks that ops on pieces share ------------------===//

#include "PieceChecks.h"

#include "dt/Geometry/Limits.h"

using namespace mlir;

namespace dt {

//===----------------------------------------------------------------------===//
// Devices and waves
//===----------------------------------------------------------------------===//

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

//===----------------------------------------------------------------------===//
// One op: its param, states and boxes
//===----------------------------------------------------------------------===//

LogicalResult verifyStates(Operation *op, ArrayAttr states, ParamOp param) {
  if (!states)
    return success();
  for (auto state : states.getAsRange<StringAttr>()) {
    if (param.getStates().indexOf(state.getValue()) >= 0)
      continue;
    InFlightDiagnostic diagnostic = op->emitOpError()
                                    << "names state " << state << ", which @"
                                    << param.getSymName() << " does not have";
    diagnostic.attachNote(param.getLoc())
        << "the param has states " << param.getStates();
    return diagnostic;
  }
  return success();
}

// The largest end (offset + size) in each dim over all pieces.
static Row largestEnds(PiecesAttr pieces) {
  const unsigned rank = pieces.getRank(), offset = PiecesAttr::kOffset,
                 size = pieces.sizeColumn();
  Row largest(rank, 0);
  for (const RowClass &rowClass : pieces.getRows().decodeClasses())
    for (unsigned d = 0; d < rank; ++d) {
      int64_t end = rowClass.base[offset + d] + rowClass.base[size + d];
      for (size_t r = 0; r < rowClass.counts.size(); ++r) {
        const Row &stride = rowClass.strides[r];
        int64_t step = stride[offset + d] + stride[size + d];
        end += std::max<int64_t>(step, 0) * (rowClass.counts[r] - 1);
      }
      largest[d] = std::max(largest[d], end);
    }
  ArrayRef<int64_t> table = pieces.getRows().getTable();
  for (size_t at = 0; at < table.size(); at += pieces.getRows().getNumColumns())
    for (unsigned d = 0; d < rank; ++d)
      largest[d] =
          std::max(largest[d], table[at + offset + d] + table[at + size + d]);
  return largest;
}

static InFlightDiagnostic &&noteParam(InFlightDiagnostic &&diagnostic,
                                      ParamOp param) {
  Diagnostic &note = diagnostic.attachNote(param.getLoc())
                     << "the param has shape [";
  note.appendRange(param.getShape()) << "]";
  return std::move(diagnostic);
}

static LogicalResult verifyBoxes(MovementOpInterface op, ParamOp param) {
  PiecesAttr pieces = op.getPieces();
  if (pieces.getRank() != param.rank())
    return noteParam(op->emitOpError() << "has pieces of " << pieces.getRank()
                                       << " dims, but @" << param.getSymName()
                                       << " has " << param.rank(),
                     param);
  // Padding lies outside by its nature.
  if (isa<ZeroOp>(op))
    return success();
  const Row ends = largestEnds(pieces);
  for (unsigned d = 0; d < param.rank(); ++d) {
    int64_t end = ends[d];
    if (end > param.getShape()[d])
      return noteParam(op->emitOpError()
                           << "has a piece that ends at " << end << " in dim "
                           << d << ", but @" << param.getSymName()
                           << " ends at " << param.getShape()[d],
                       param);
  }
  return success();
}

FailureOr<ParamOp> findParam(Operation *op, FlatSymbolRefAttr name,
                             SymbolTableCollection &tables) {
  auto transition = op->getParentOfType<TransitionOp>();
  if (!transition)
    return op->emitOpError("has no dt.transition around it, expected one");
  SpaceOp space = transition.lookupSpace(tables);
  if (!space)
    return ParamOp();
  auto param =
      dyn_cast_or_null<ParamOp>(tables.lookupSymbolIn(space, name.getAttr()));
  if (!param)
    return op->emitOpError() << "moves " << name << ", which space @"
                             << space.getSymName() << " does not have";
  return param;
}

LogicalResult verifyMovement(MovementOpInterface op,
                             SymbolTableCollection &tables) {
  auto param = findParam(op, op.getParamAttr(), tables);
  if (failed(param))
    return failure();
  if (!*param)
    return success();
  if (failed(verifyStates(op, op.getStatesAttr(), *param)))
    return failure();
  return verifyBoxes(op, *param);
}

} // namespace dt
