//===- ProvePlan.cpp - No deadlock, no lost byte, no byte over the limit --===//
//
// Has the solver prove the lemmas and what is said of the plan's classes. That
// the plan keeps their rules is the certificate's to say (PlanCertificate.h).
//
//===----------------------------------------------------------------------===//

#include "PlanCertificate.h"
#include "ProofResult.h"
#include "dt/Passes/Files.h"
#include "dt/Passes/Passes.h"
#include "dt/Passes/Version.h"
#include "dt/Proof/Lemmas.h"
#include "dt/Proof/PlanObligations.h"
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
      numOther += classes.otherArenas + classes.otherCovers;
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
    if (!keepOutput(*file, error))
      return getOperation().emitError() << error;
    return success();
  }

  /// Whether the solver proves or leaves open each obligation. An obligation
  /// that it refutes is an error: the certificate and it cannot both be right.
  LogicalResult solve(TransitionOp transition,
                      const std::vector<Obligation> &obligations,
                      ProofResult &result) {
    size_t numLemmas = lemmas().size(), openClasses = 0;
    bool lemmasHold[] = {true, true, true}; // by claim
    uint64_t proved = 0;
    for (auto [i, answer] :
         llvm::enumerate(dt::solveAll(obligations, maxSteps))) {
      const Obligation &obligation = obligations[i];
      mostSteps = std::max<uint64_t>(mostSteps, answer.steps);
      proved += answer.verdict == Verdict::Proved;
      if (answer.verdict == Verdict::Proved)
        continue;
      if (answer.verdict == Verdict::Refuted)
        return refuse(transition, obligation, answer);
      if (i < numLemmas)
        lemmasHold[size_t(obligation.claim)] = false;
      openClasses += i >= numLemmas;
      remark(transition, obligation, answer, i < numLemmas);
    }
    result.coverage = lemmasHold[size_t(Claim::Coverage)];
    result.deadlockFree = lemmasHold[size_t(Claim::DeadlockFree)];
    result.memorySafe = lemmasHold[size_t(Claim::MemorySafe)];
    numProved += proved;
    if (proved == 0)
      return success();
    result.solver = solverName();
    result.solverSteps = maxSteps;
    if (size_t numClasses = obligations.size() - numLemmas; openClasses > 0)
      result.solver += ", " + std::to_string(numClasses - openClasses) +
                       " of " + std::to_string(numClasses) +
                       " classes, the others by exact check";
    return success();
  }

  LogicalResult refuse(TransitionOp transition, const Obligation &obligation,
                       const SolverAnswer &answer) {
    InFlightDiagnostic error = transition.emitOpError();
    error << "is refuted by " << solverName() << ": '" << obligation.name
          << "' does not hold: " << obligation.statement;
    error.attachNote() << "the solver says: " << answer.detail;
    return error;
  }

  /// What the exact check has decided stands without the solver's word.
  void remark(TransitionOp transition, const Obligation &obligation,
              const SolverAnswer &answer, bool isLemma) {
    InFlightDiagnostic open =
        isLemma ? transition.emitWarning() : transition.emitRemark();
    open << "is checked, but " << solverName() << " does not prove '"
         << obligation.name << "' in " << unsigned(maxSteps) << " steps ("
         << answer.detail << "): " << obligation.statement;
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
    if (failed(solve(transition, obligations, getAnalysis<ProofResult>())))
      return failure();
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
