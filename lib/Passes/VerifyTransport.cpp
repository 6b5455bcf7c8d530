//===- VerifyTransport.cpp - Closes the transport level -------------------===//
//
// Accepts what --dt-emit can write: the rules that the lemmas suppose
// (dt/Proof/Certificate.h), checked piece by piece.
//
//===----------------------------------------------------------------------===//

#include "PlanCertificate.h"
#include "dt/Passes/Passes.h"

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_VERIFYTRANSPORT
#include "dt/Passes/Passes.h.inc"

namespace {

struct VerifyTransportPass : impl::VerifyTransportBase<VerifyTransportPass> {
  void runOnOperation() override {
    if (!getAnalysis<PlanCertificate>().holds)
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace dt
