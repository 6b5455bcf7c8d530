//===- Staged.cpp - A fully lowered transition, for emission --------------===//

#include "Staged.h"

#include "Slots.h"

using namespace mlir;

namespace dt {

/// The state that the only state of a flow may be made from.
static int madeFrom(const FlowInfo &flow) {
  StatesAttr states = flow.allStates();
  return states.indexOf(
      states.getEntries()[llvm::countr_zero(flow.states)].from);
}

FailureOr<ScheduledTransition> readStaged(const TransitionInfo &info,
                                          bool computeCells) {
  TransitionOp transition = info.op;
  if (transition.getBody().front().empty())
    return transition.emitOpError(
        "has an empty body, which delivers nothing: run --dt-route first");
  for (auto op : transition.getOps<TransferOp>())
    return op.emitOpError("is not scheduled yet: run --dt-schedule first");
  for (auto wave : transition.getOps<WaveOp>())
    for (auto op : wave.getOps<CollectiveOp>())
      return op.emitOpError(
          "has no instruction in a plan, expected dt.sendrecv");
  ScheduledTransition out;
  out.flows = info.makeFlows();
  if (computeCells) {
    auto flows = info.makeFlowsWithCells();
    if (failed(flows))
      return failure();
    out.flows = std::move(*flows);
  }
  out.numStates = info.numStates();
  out.numLeading = info.numLeading();
  for (const FlowInfo &flow : info.flows) {
    PlanFlow named;
    named.family = llvm::find(info.params, flow.param) - info.params.begin();
    named.states = flow.states;
    if (flow.deriveFrom)
      named.madeFrom = uint64_t(1) << madeFrom(flow);
    out.planFlows.push_back(named);
    out.sourceHoldings.push_back(flow.source);
    out.destinationHoldings.push_back(flow.destination);
  }
  auto keeps = collectLocals<KeepOp>(info);
  auto copies = collectLocals<CopyOp>(info);
  auto derived = collectLocals<DeriveOp>(info);
  auto zeros = collectLocals<ZeroOp>(info);
  auto scheduled = collectScheduled(info);
  if (failed(keeps) || failed(copies) || failed(derived) || failed(zeros) ||
      failed(scheduled))
    return failure();
  out.locals = std::move(*keeps);
  out.locals.insert(out.locals.end(), copies->begin(), copies->end());
  std::stable_sort(out.locals.begin(), out.locals.end(),
                   [](const LocalMove &a, const LocalMove &b) {
                     return a.before < b.before;
                   });
  out.derived = std::move(*derived);
  for (const FlowInfo &flow : info.flows)
    out.deriveFrom.push_back(flow.deriveFrom);
  out.zeros = std::move(*zeros);
  out.scheduled = std::move(*scheduled);
  auto staged = readSlots(info, out.scheduled);
  if (failed(staged))
    return failure();
  out.messages = std::move(staged->messages);
  out.arenaBytes = std::move(staged->arenaBytes);
  return out;
}

std::vector<int64_t> devicesOf(LayoutOp layout, SymbolTableCollection &tables) {
  if (auto devices = layout.lookupDevices(tables))
    return {devices->begin(), devices->end()};
  std::vector<int64_t> out;
  for (int64_t rank = 0; rank < layout.getWorld(); ++rank)
    out.push_back(rank);
  return out;
}

Worlds worldsOf(const TransitionInfo &info) {
  SymbolTableCollection tables;
  Worlds out;
  for (auto [rank, device] :
       llvm::enumerate(devicesOf(info.sourceLayout, tables)))
    out.sourceRank[device] = rank;
  for (auto [rank, device] :
       llvm::enumerate(devicesOf(info.destinationLayout, tables)))
    out.destinationRank[device] = rank;
  return out;
}

} // namespace dt
