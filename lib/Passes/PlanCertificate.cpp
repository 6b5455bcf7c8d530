//===- PlanCertificate.cpp - What a look at every piece finds -------------===//
//
// Says by example what breaks the rules: for people, before the solver is
// asked.
//
//===----------------------------------------------------------------------===//

#include "PlanCertificate.h"

#include "ProvePrograms.h"
#include "Threads.h"
#include "dt/Proof/PlanRules.h"

using namespace mlir;

namespace dt {

namespace {

LogicalResult refuseUnstaged(const TransitionReading &reading) {
  for (auto wave : reading.info->op().getOps<WaveOp>())
    if (!wave.getSlotsAttr())
      return wave.emitOpError("has no slots: run --dt-allocate-staging first");
  return success();
}

LogicalResult certify(const TransitionReading &reading, PlanCertificate &out) {
  if (!reading.plan.isStaged)
    return refuseUnstaged(reading);
  const TransitionInfo &info = *reading.info;
  if (failed(info.verifyComplete()))
    return failure();
  const TransportPlan &plan = reading.plan;
  ParallelFor threads = threadsOf(info.op().getContext());
  Arrivals arrivals(plan.pieces, plan.flows, threads);
  Wanted wanted = wantedOf(plan.flows);
  out.last = info.op();
  out.numPieces += plan.pieces.size();
  out.numSlots += plan.slots.size();
  PlanClasses &classes = out.classes.emplace_back();
  MaybeFault fault;
  // What the solver is asked is found out beside the check of all pieces.
  threads(2, [&](size_t part) {
    if (part == 0)
      classes = classify(arrivals, plan.slots, wanted, info.stagingLimit);
    else
      fault =
          checkRules(plan, arrivals, wanted, info.cluster,
                     {info.stagingLimit, info.deviceLimit, info.mode}, threads);
  });
  return reading.report(fault);
}

} // namespace

PlanCertificate::PlanCertificate(Operation *module, AnalysisManager &analyses) {
  const auto &readings = analyses.getAnalysis<TransportReading>();
  holds = succeeded(provePrograms(cast<ModuleOp>(module))) &&
          succeeded(readings.forEach([&](const TransitionReading &reading) {
            return certify(reading, *this);
          }));
}

} // namespace dt
