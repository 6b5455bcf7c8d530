//===- ProvePlan.cpp - No deadlock, no lost byte, no byte over the limit --===//
//
// Proves the module's transition, or says what is wrong with it: the lemmas by
// the solver, that the plan keeps their rules by checking it piece by piece
// (dt/Proof). Programs in the module are run in thought: groups that wait on
// each other are named.
//
//===----------------------------------------------------------------------===//

#include "ProofInput.h"
#include "ProofResult.h"
#include "ProvePrograms.h"
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

LogicalResult report(const TransitionInfo &info, const ProofInput &input,
                     const MaybeFault &fault) {
  if (!fault)
    return success();
  Operation *op =
      fault->op == Fault::kNoOp ? TransitionOp(info.op) : input.ops[fault->op];
  InFlightDiagnostic error = op->emitOpError() << fault->text;
  if (fault->other != Fault::kNoOp)
    error.attachNote(input.ops[fault->other]->getLoc()) << fault->note;
  return failure();
}

struct ProvePlanPass : impl::ProvePlanBase<ProvePlanPass> {
  using ProvePlanBase::ProvePlanBase;

  /// That the plan keeps the rules.
  LogicalResult certify(const TransitionInfo &info) {
    auto input = readProofInput(info);
    if (failed(input))
      return failure();
    Arrivals arrivals(input->pieces, input->flowNames);
    if (failed(report(info, *input, arrivals.checkCoverage(input->wanted))) ||
        failed(report(info, *input, arrivals.checkFeeding())) ||
        failed(
            report(info, *input, checkMessages(input->pieces, input->slots))) ||
        failed(
            report(info, *input, checkSlots(input->slots, info.stagingLimit))))
      return failure();
    numPieces += input->pieces.size();
    numSlots += input->slots.size();
    return success();
  }

  LogicalResult writeObligations() {
    std::string error;
    auto file = openOutputFile(emitSmtlib, &error);
    if (!file)
      return getOperation().emitError() << error;
    file->os() << toSmtLib(
        lemmas(), {"What makes plans safe, proved for any plan that keeps the "
                   "rules; " +
                       std::string(kVersion),
                   "checks piece by piece that a plan does."});
    file->keep();
    return success();
  }

  LogicalResult proveLemmas(TransitionOp transition) {
    for (const Obligation &lemma : lemmas()) {
      SolverAnswer answer = solve(lemma, timeLimitMs);
      if (answer.verdict == Verdict::Proved) {
        ++numLemmas;
        continue;
      }
      InFlightDiagnostic error = transition.emitOpError();
      error << "cannot be proved: no proof of '" << lemma.name << "' with "
            << solverName() << " within " << uint64_t(timeLimitMs)
            << " ms: " << lemma.statement;
      if (!answer.detail.empty())
        error.attachNote() << "the solver says: " << answer.detail;
      return failure();
    }
    return success();
  }

  LogicalResult prove() {
    if (!emitSmtlib.empty() && failed(writeObligations()))
      return failure();
    if (failed(provePrograms(getOperation())))
      return failure();
    TransitionOp transition;
    if (failed(forEachTransition(getOperation(), [&](TransitionInfo &info) {
          // Without a body there is nothing to move yet.
          if (info.op.getBody().front().empty())
            return success();
          transition = info.op;
          return certify(info);
        })))
      return failure();
    if (!transition)
      return success();
    if (solverName().empty()) {
      transition.emitWarning(
          "is checked but not proved: this compiler was built without Z3");
      return success();
    }
    if (failed(proveLemmas(transition)))
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
