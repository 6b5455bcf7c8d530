//===- VerifyRouting.cpp - Closes the routing level -----------------------===//
//
// Only routing ops stand in a transition, and they do what is asked of it: the
// rules of coverage and feeding (dt/Proof/Certificate.h), with hops in place of
// waves.
//
//===----------------------------------------------------------------------===//

#include "Threads.h"
#include "TransportReading.h"
#include "dt/Passes/Passes.h"

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_VERIFYROUTING
#include "dt/Passes/Passes.h.inc"

namespace {

LogicalResult checkTransition(const TransitionReading &reading) {
  const TransportPlan &plan = reading.plan;
  Arrivals arrivals(plan.pieces, plan.flows,
                    threadsOf(reading.info->op().getContext()),
                    /*clock=*/"hop");
  if (failed(reading.report(arrivals.checkCoverage(wantedOf(plan.flows)))))
    return failure();
  return reading.report(arrivals.checkFeeding());
}

struct VerifyRoutingPass : impl::VerifyRoutingBase<VerifyRoutingPass> {
  void runOnOperation() override {
    if (failed(getAnalysis<RoutingReading>().forEach(checkTransition)))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace dt
