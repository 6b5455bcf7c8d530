//===- LowerCollectives.cpp - Collectives as calls, or as transfers -------===//
//
// A library's call, where that is chosen, stays a collective, of transfers that
// go as the call has it. The body of any other one is how its data goes, so
// that it only has to be put in its place: one op for each flow, as routing
// wrote them.
//
//===----------------------------------------------------------------------===//

#include "LibraryChoice.h"
#include "LibraryOps.h"
#include "dt/Passes/Passes.h"

#include <map>

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_LOWERCOLLECTIVES
#include "dt/Passes/Passes.h.inc"

namespace {

bool isOfLibrary(TransferOp transfer) {
  auto around = dyn_cast<CollectiveOp>(transfer->getParentOp());
  return around && around.getLibrary();
}

struct LowerCollectivesPass : impl::LowerCollectivesBase<LowerCollectivesPass> {
  /// Makes calls of those for which that is chosen.
  LogicalResult callLibrary(const TransitionInfo &info) {
    Block &body = info.op().getBody().front();
    if (!mayUseLibrary(info))
      return success();
    auto cells = info.flowCells();
    if (failed(cells))
      return failure();
    OpBuilder builder(info.op().getContext());
    builder.setInsertionPointToEnd(&body);
    LibraryChooser chooser(info);
    SmallVector<CollectiveOp> all(body.getOps<CollectiveOp>());
    for (CollectiveOp op : all) {
      auto transfers = op.getBody().front().getOps<TransferOp>();
      auto flow = info.flowOf(*transfers.begin());
      if (op.getLibrary() || !flow)
        continue;
      LibraryChoice choice = chooser.choose(op, *flow, (**cells)[*flow]);
      if (choice.calls.empty())
        continue;
      writeLibraryOps(op, choice.calls, builder);
      numLibrary += choice.calls.size();
      op.erase();
    }
    return success();
  }

  LogicalResult lower(const TransitionInfo &info) {
    Block &body = info.op().getBody().front();
    if (failed(callLibrary(info)))
      return failure();
    std::map<uint32_t, SmallVector<TransferOp>> byFlow;
    WalkResult result = info.op()->walk([&](TransferOp transfer) {
      if (isOfLibrary(transfer))
        return WalkResult::advance();
      auto flow = info.flowOf(transfer);
      if (!flow) {
        transfer.emitOpError("names states that are not one flow, expected "
                             "exactly those of one layout");
        return WalkResult::interrupt();
      }
      byFlow[*flow].push_back(transfer);
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return failure();
    OpBuilder builder(info.op().getContext());
    builder.setInsertionPointToEnd(&body);
    for (auto &[flow, transfers] : byFlow) {
      TransferOp first = transfers.front();
      SmallVector<HopPieces> parts;
      for (TransferOp transfer : transfers)
        llvm::append_range(parts, transfer.byHop());
      TransferOp::create(builder, first.getLoc(), first.getParamAttr(),
                         first.getStatesAttr(), parts);
      for (TransferOp transfer : transfers)
        transfer.erase();
    }
    for (auto collective :
         llvm::make_early_inc_range(body.getOps<CollectiveOp>()))
      if (!collective.getLibrary())
        collective.erase();
    return success();
  }

  void runOnOperation() override {
    bool leavesAll = true;
    if (failed(getAnalysis<TransitionAnalysis>().forEach(
            [&](const TransitionInfo &info) {
              Block &body = TransitionOp(info.op()).getBody().front();
              if (body.getOps<CollectiveOp>().empty())
                return success();
              leavesAll = false;
              return lower(info);
            })))
      return signalPassFailure();
    if (leavesAll)
      return markAllAnalysesPreserved();
    markAnalysesPreserved<TransitionAnalysis>();
  }
};

} // namespace
} // namespace dt
