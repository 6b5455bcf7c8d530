//===- LowerCollectives.cpp - Collectives as their transfers --------------===//
//
// The body of a collective is how its data goes, so that it only has to be put
// in its place: hop after hop, flow after flow, one op for each, as routing
// wrote them.
//
//===----------------------------------------------------------------------===//

#include "TransitionAnalysis.h"
#include "dt/Passes/Passes.h"

#include <map>

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_LOWERCOLLECTIVES
#include "dt/Passes/Passes.h.inc"

namespace {

/// All pieces of several ops, as classes and then a table.
PiecesAttr unite(ArrayRef<TransferOp> transfers) {
  PiecesAttr first = TransferOp(transfers.front()).getPieces();
  if (transfers.size() == 1)
    return first;
  RowSet rows;
  rows.numColumns = first.getRows().getNumColumns();
  for (TransferOp transfer : transfers) {
    RowSet own = transfer.getPieces().toRowSet();
    llvm::append_range(rows.classes, own.classes);
    llvm::append_range(rows.table, own.table);
  }
  return PiecesAttr::get(first.getContext(), rows, first.getRank());
}

struct LowerCollectivesPass : impl::LowerCollectivesBase<LowerCollectivesPass> {
  LogicalResult lower(const TransitionInfo &info) {
    Block &body = info.op().getBody().front();
    if (body.getOps<CollectiveOp>().empty())
      return success();
    std::map<std::pair<int64_t, uint32_t>, SmallVector<TransferOp>> byHop;
    WalkResult result = info.op()->walk([&](TransferOp transfer) {
      auto flow = info.flowOf(transfer);
      if (!flow) {
        transfer.emitOpError("names states that are not one flow, expected "
                             "exactly those of one layout");
        return WalkResult::interrupt();
      }
      byHop[{transfer.getHop(), *flow}].push_back(transfer);
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return failure();
    OpBuilder builder(info.op().getContext());
    builder.setInsertionPointToEnd(&body);
    for (auto &[key, transfers] : byHop) {
      TransferOp first = transfers.front();
      TransferOp::create(builder, first.getLoc(), first.getParamAttr(),
                         first.getStatesAttr(), unite(transfers), key.first);
      for (TransferOp transfer : transfers)
        transfer.erase();
    }
    for (auto collective :
         llvm::make_early_inc_range(body.getOps<CollectiveOp>()))
      collective.erase();
    return success();
  }

  void runOnOperation() override {
    if (failed(getAnalysis<TransitionAnalysis>().forEach(
            [&](const TransitionInfo &info) { return lower(info); })))
      return signalPassFailure();
    markAnalysesPreserved<TransitionAnalysis>();
  }
};

} // namespace
} // namespace dt
