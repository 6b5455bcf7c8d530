//===- VerifyRouting.cpp - Closes the routing level -----------------------===//
//
// Only routing ops stand in a transition, and they do what is asked of it
// (Coverage.h): a forward reads what arrived at a lower hop.
//
//===----------------------------------------------------------------------===//

#include "Coverage.h"
#include "dt/Passes/Passes.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Threading.h"

#include <atomic>

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_VERIFYROUTING
#include "dt/Passes/Passes.h.inc"

namespace {

/// All flows at once, silently; where one is wrong, one after the other, so
/// that what is said does not depend on threads.
LogicalResult checkAll(MLIRContext *context,
                       MutableArrayRef<FlowChecker> checkers) {
  std::atomic<bool> areRight = true;
  {
    ScopedDiagnosticHandler handler(context,
                                    [](Diagnostic &) { return success(); });
    parallelForEach(context, checkers, [&](FlowChecker &checker) {
      if (failed(checker.check()))
        areRight = false;
    });
  }
  if (areRight)
    return success();
  for (FlowChecker &checker : checkers)
    if (failed(checker.check()))
      return failure();
  return success();
}

LogicalResult checkTransition(const TransitionInfo &info) {
  std::vector<FlowChecker> checkers;
  for (uint32_t i = 0; i < info.flows.size(); ++i)
    checkers.emplace_back(info, i);
  for (Operation &op : info.op().getBody().front()) {
    if (!op.hasTrait<RoutingLevelOp>())
      return op.emitOpError("is illegal at the routing level");
    auto movement = cast<MovementOpInterface>(op);
    auto flow = info.flowOf(movement);
    if (!flow)
      return op.emitOpError("names states that do not lie alike");
    FlowChecker &checker = checkers[*flow];
    auto transfer = dyn_cast<TransferOp>(op);
    int64_t hop = transfer            ? transfer.getHop()
                  : isa<DeriveOp>(op) ? kMadeTime
                                      : -1;
    movement.getPieces().forEach([&](int64_t from, int64_t to, const Box &box) {
      if (isa<ZeroOp>(op))
        checker.addZero(&op, to, box);
      else
        checker.addArrival(to, {&op, hop, from, box});
    });
  }
  return checkAll(info.op().getContext(), checkers);
}

struct VerifyRoutingPass : impl::VerifyRoutingBase<VerifyRoutingPass> {
  void runOnOperation() override {
    if (failed(getAnalysis<TransitionAnalysis>().forEach(checkTransition)))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace dt
