//===- ProvePlan.cpp - No deadlock, no lost byte, no byte over the limit --===//
//
// Has the solver prove the lemmas and what is said of the plan's classes. That
// the plan keeps their rules is the certificate's to say (PlanCertificate.h).
//
//===----------------------------------------------------------------------===//

#include "PlanCertificate.h"
#include "ProofResult.h"
#include "dt/Passes/Passes.h"
#include "dt/Passes/Version.h"
#include "dt/Proof/Solver.h"

#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_PROVEPLAN
#include "dt/Passes/Passes.h.inc"

namespace {

struct ProvePlanPass : impl::ProvePlanBase<ProvePlanPass> {
  using ProvePlanBase::ProvePlanBase;

  /// The lemmas, once, and what is said of the classes of all transitions.
  std::vector<Obligation> collect(const PlanCertificate &certificate) {
    std::vector<Obligation> obligations = lemmas();
    for (const PlanClasses &classes : certificate.classes) {
      numClasses +=
          classes.waves.size() + classes.arenas.size() + classes.covers.size();
      numOther += classes.otherCovers;
      for (Obligation &obligation : planObligations(classes))
        obligations.push_back(std::move(obligation));
    }
    return obligations;
  }

  LogicalResult writeObligations(const std::vector<Obligation> &obligations) {
    std::string error;
    auto file = openOutputFile(emitSmtlib, &error);
    if (!file)
      return getOperation().emitError() << error;
    file->os() << toSmtLib(
        obligations,
        {"The lemmas, which hold for any plan that keeps the rules, and what "
         "is said of the",
         "classes of this plan; " + std::string(kVersion) +
             " checks piece by piece that",
         "they are its classes."});
    file->keep();
    return success();
  }

  LogicalResult solve(TransitionOp transition,
                      const std::vector<Obligation> &obligations) {
    SolverRun run = solveAll(obligations, timeLimitMs);
    numProved += run.numProved;
    if (run.numProved == obligations.size())
      return success();
    const Obligation &open = obligations[run.numProved];
    InFlightDiagnostic error = transition.emitOpError();
    error << "cannot be proved: no proof of '" << open.name << "' with "
          << solverName() << " within " << uint64_t(timeLimitMs)
          << " ms: " << open.statement;
    if (!run.failure.detail.empty())
      error.attachNote() << "the solver says: " << run.failure.detail;
    return failure();
  }

  LogicalResult prove() {
    const PlanCertificate &certificate = getAnalysis<PlanCertificate>();
    numPieces += certificate.numPieces;
    numSlots += certificate.numSlots;
    std::vector<Obligation> obligations = collect(certificate);
    if (!emitSmtlib.empty() && failed(writeObligations(obligations)))
      return failure();
    if (!certificate.holds)
      return failure();
    TransitionOp transition = certificate.last;
    if (!transition)
      return success();
    if (solverName().empty()) {
      transition.emitWarning(
          "is checked but not proved: this compiler was built without Z3");
      return success();
    }
    if (failed(solve(transition, obligations)))
      return failure();
    ProofResult &result = getAnalysis<ProofResult>();
    result.proved = true;
    result.solver = solverName();
    return success();
  }

  void runOnOperation() override {
    if (failed(prove()))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace dt
