//===- PlanCertificate.cpp - What a look at every piece finds -------------===//
//
// Says by example what breaks the rules: for people, before the solver is
// asked.
//
//===----------------------------------------------------------------------===//

#include "PlanCertificate.h"

#include "ProofInput.h"
#include "ProvePrograms.h"

#include "mlir/IR/Threading.h"

using namespace mlir;

namespace dt {

namespace {

/// The threads that MLIR has.
ParallelFor threadsOf(MLIRContext *context) {
  return [context](size_t n, const auto &body) {
    parallelFor(context, 0, n, body);
  };
}

LogicalResult report(const TransitionInfo &info, const ProofInput &input,
                     const MaybeFault &fault) {
  if (!fault)
    return success();
  Operation *op = fault->op == Fault::kNoOp ? info.op() : input.ops[fault->op];
  InFlightDiagnostic error = op->emitOpError() << fault->text;
  if (fault->other != Fault::kNoOp)
    error.attachNote(input.ops[fault->other]->getLoc()) << fault->note;
  return failure();
}

LogicalResult checkRules(const TransitionInfo &info, const ProofInput &input,
                         const Arrivals &arrivals, const ParallelFor &threads) {
  if (failed(report(info, input, arrivals.checkCoverage(input.wanted))) ||
      failed(report(info, input, arrivals.checkFeeding())) ||
      failed(report(info, input,
                    checkMessages(input.pieces, input.slots, threads))))
    return failure();
  return report(info, input,
                checkSlots(input.slots, info.stagingLimit, threads));
}

LogicalResult certify(const TransitionInfo &info, PlanCertificate &out) {
  // Without a body there is nothing to move yet.
  if (info.op().getBody().front().empty())
    return success();
  auto input = readProofInput(info);
  if (failed(input))
    return failure();
  ParallelFor threads = threadsOf(info.op().getContext());
  Arrivals arrivals(input->pieces, input->flowNames, threads);
  out.last = info.op();
  out.classes.push_back(
      classify(arrivals, input->slots, input->wanted, info.stagingLimit));
  out.numPieces += input->pieces.size();
  out.numSlots += input->slots.size();
  return checkRules(info, *input, arrivals, threads);
}

} // namespace

PlanCertificate::PlanCertificate(Operation *module, AnalysisManager &analyses) {
  const auto &transitions = analyses.getAnalysis<TransitionAnalysis>();
  holds = succeeded(provePrograms(cast<ModuleOp>(module))) &&
          succeeded(transitions.forEach([&](const TransitionInfo &info) {
            return certify(info, *this);
          }));
}

} // namespace dt
