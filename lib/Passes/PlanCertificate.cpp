//===- PlanCertificate.cpp - What a look at every piece finds -------------===//
//
// Says by example what breaks the rules: for people, before the solver is
// asked.
//
//===----------------------------------------------------------------------===//

#include "PlanCertificate.h"

#include "ProvePrograms.h"
#include "dt/Proof/StorageRules.h"

using namespace mlir;

namespace dt {

namespace {

LogicalResult checkRules(const TransitionReading &reading,
                         const Arrivals &arrivals, const Wanted &wanted,
                         const ParallelFor &threads) {
  const TransitionInfo &info = *reading.info;
  const TransportPlan &plan = reading.plan;
  if (failed(reading.report(arrivals.checkCoverage(wanted))) ||
      failed(reading.report(arrivals.checkFeeding())) ||
      failed(reading.report(checkMessages(plan.pieces, plan.slots, threads))) ||
      failed(reading.report(checkDirect(plan, threads))) ||
      failed(reading.report(checkPorts(plan.pieces, info.cluster))) ||
      failed(
          reading.report(checkSlots(plan.slots, info.stagingLimit, threads))) ||
      failed(reading.report(checkStorage(plan, threads))))
    return failure();
  return reading.report(checkMemory(
      measureMemory(plan), {info.stagingLimit, info.deviceLimit, info.flat}));
}

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
  out.classes.push_back(
      classify(arrivals, plan.slots, wanted, info.stagingLimit));
  out.numPieces += plan.pieces.size();
  out.numSlots += plan.slots.size();
  return checkRules(reading, arrivals, wanted, threads);
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
