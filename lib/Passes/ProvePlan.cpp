//===- ProvePlan.cpp - No deadlock, no lost byte, no byte over the limit --===//
//
// Proves the module's transition, or says what is wrong with it: the lemmas and
// what is said of the plan's classes by the solver, that the plan keeps their
// rules by checking it piece by piece (dt/Proof). Programs in the module are
// run in thought: groups that wait on each other are named.
//
//===----------------------------------------------------------------------===//

#include "ProofInput.h"
#include "ProofResult.h"
#include "ProvePrograms.h"
#include "dt/Passes/Passes.h"
#include "dt/Passes/Version.h"
#include "dt/Proof/PlanClasses.h"
#include "dt/Proof/Solver.h"

#include "mlir/IR/Threading.h"
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

  /// The threads that MLIR has.
  ParallelFor parallel() {
    return [context = &getContext()](size_t n, const auto &body) {
      parallelFor(context, 0, n, body);
    };
  }

  /// Says by example what breaks the rules: for people, before the solver.
  LogicalResult certify(const TransitionInfo &info, const ProofInput &input,
                        const Arrivals &arrivals) {
    ParallelFor threads = parallel();
    if (failed(report(info, input, arrivals.checkCoverage(input.wanted))) ||
        failed(report(info, input, arrivals.checkFeeding())) ||
        failed(report(info, input,
                      checkMessages(input.pieces, input.slots, threads))) ||
        failed(report(info, input,
                      checkSlots(input.slots, info.stagingLimit, threads))))
      return failure();
    numPieces += input.pieces.size();
    numSlots += input.slots.size();
    return success();
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

  /// The lemmas are proved once, with the first transition.
  LogicalResult proveTransition(const TransitionInfo &info,
                                std::vector<Obligation> &obligations) {
    auto input = readProofInput(info);
    if (failed(input))
      return failure();
    Arrivals arrivals(input->pieces, input->flowNames, parallel());
    PlanClasses classes =
        classify(arrivals, input->slots, input->wanted, info.stagingLimit);
    numClasses +=
        classes.waves.size() + classes.arenas.size() + classes.covers.size();
    numOther += classes.otherCovers;
    for (Obligation &obligation : planObligations(classes))
      obligations.push_back(std::move(obligation));
    if (!emitSmtlib.empty() && failed(writeObligations(obligations)))
      return failure();
    return certify(info, *input, arrivals);
  }

  LogicalResult prove() {
    std::vector<Obligation> obligations = lemmas();
    if (!emitSmtlib.empty() && failed(writeObligations(obligations)))
      return failure();
    if (failed(provePrograms(getOperation())))
      return failure();
    TransitionOp transition;
    if (failed(forEachTransition(getOperation(), [&](TransitionInfo &info) {
          // Without a body there is nothing to move yet.
          if (info.op.getBody().front().empty())
            return success();
          transition = info.op;
          return proveTransition(info, obligations);
        })))
      return failure();
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
