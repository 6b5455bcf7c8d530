//===- VerifyLayout.cpp - Closes the layout level -------------------------===//

#include "TransitionAnalysis.h"
#include "VerifyTensors.h"
#include "dt/Passes/Passes.h"

#include <map>

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_VERIFYLAYOUT
#include "dt/Passes/Passes.h.inc"

namespace {

/// A rank holds an element once. Rows of a request are checked by its reader,
/// placements cannot say such a thing.
LogicalResult checkRows(PlaceOp place, SymbolTableCollection &tables) {
  auto shards = dyn_cast<ShardsAttr>(place.getHow());
  if (!shards)
    return success();
  ParamOp param = place.lookupParam(tables);
  std::vector<int64_t> shape = place.placedShape(param);
  std::map<int64_t, std::vector<HeldBox>> byRank;
  for (RankBox &row : shards.toGeometry())
    byRank[row.rank].push_back({row.rank, row.box, row.range});
  for (const auto &[rank, rows] : byRank) {
    std::vector<Cell> cells;
    for (const HeldBox &row : rows)
      for (const Holding &holding : holdingsOf({row}, param.numLeading()))
        for (const Box &box : regions(holding.shard, shape))
          cells.push_back({box, 0});
    if (auto twice = firstOverlap(cells)) {
      InFlightDiagnostic error = place.emitOpError()
                                 << "places " << place.placedName()
                                 << toString(twice->box) << " on rank " << rank
                                 << " twice";
      error.attachNote(param.getLoc()) << "the param is here";
      return failure();
    }
  }
  return success();
}

LogicalResult checkRows(ModuleOp module) {
  SymbolTableCollection tables;
  for (auto layout : module.getOps<LayoutOp>())
    for (auto place : layout.getOps<PlaceOp>())
      if (failed(checkRows(place, tables)))
        return failure();
  return success();
}

LogicalResult checkTensors(ModuleOp module) {
  SymbolTableCollection tables;
  for (auto layout : module.getOps<LayoutOp>())
    if (failed(verifyTensors(layout, tables)))
      return failure();
  return success();
}

struct VerifyLayoutPass : impl::VerifyLayoutBase<VerifyLayoutPass> {
  using VerifyLayoutBase::VerifyLayoutBase;

  void runOnOperation() override {
    for (Operation &op : *getOperation().getBody())
      if (!op.hasTrait<LayoutLevelOp>()) {
        op.emitOpError("is illegal at the layout level");
        return signalPassFailure();
      }
    for (auto op : getOperation().getOps<TransitionOp>())
      for (Operation &inner : op.getBody().front()) {
        inner.emitOpError("is illegal at the layout level: the body of a "
                          "transition is empty there");
        return signalPassFailure();
      }
    if (failed(checkTensors(getOperation())))
      return signalPassFailure();
    // Evaluating the layouts checks that every state is placed once.
    const auto &transitions = getAnalysis<TransitionAnalysis>();
    auto isRight = [&](const TransitionInfo &info) {
      return success(!complete || succeeded(info.verifyComplete()));
    };
    if (failed(transitions.forEach(isRight)) ||
        failed(checkRows(getOperation())))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace dt
