//===- VerifyLayout.cpp - Closes the layout level -------------------------===//

#include "TransitionInfo.h"
#include "dt/Passes/Passes.h"

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_VERIFYLAYOUT
#include "dt/Passes/Passes.h.inc"

namespace {

struct VerifyLayoutPass : impl::VerifyLayoutBase<VerifyLayoutPass> {
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
    // Evaluating the layouts checks that every state is placed once.
    if (failed(forEachTransition(getOperation(),
                                 [](TransitionInfo &) { return success(); })))
      signalPassFailure();
  }
};

} // namespace
} // namespace dt
