//===- VerifyProgram.cpp - Closes the program level -----------------------===//
//
// A slot is packed before it is sent, received before it is unpacked or
// relayed, and not written again in between. What holds of that is given to the
// runtime's own verifier as the program of a file would be: what it refuses is
// refused here.
//
//===----------------------------------------------------------------------===//

#include "CommonSection.h"
#include "ProgramReading.h"
#include "dt/Passes/Passes.h"
#include "dtrt/verify/Verifier.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_VERIFYPROGRAM
#include "dt/Passes/Passes.h.inc"

namespace {

/// What last happened to each slot.
class SlotStates {
public:
  LogicalResult write(Operation *op, Value slot) {
    Operation *&last = writer[slot];
    if (last) {
      InFlightDiagnostic error =
          op->emitOpError("writes a slot whose bytes were not read yet");
      error.attachNote(last->getLoc()) << "they were written here";
      return failure();
    }
    last = op;
    return success();
  }
  LogicalResult read(Operation *op, Value slot, bool receives) {
    Operation *&last = writer[slot];
    StringRef verb = isa<RelayOp>(op) ? "relays"
                     : receives       ? "unpacks"
                                      : "sends";
    if (!last)
      return op->emitOpError() << verb << " a slot that nothing "
                               << (receives ? "received" : "packed");
    if (isa<RecvOp>(last) != receives)
      return op->emitOpError() << verb << " a slot that was "
                               << (receives ? "packed here" : "received");
    last = nullptr;
    return success();
  }

private:
  llvm::DenseMap<Value, Operation *> writer;
};

/// What a call gives to several members is packed once.
LogicalResult checkGroup(GroupOp group, SlotStates &slots) {
  llvm::DenseSet<Value> given;
  for (auto send : group.getOps<SendOp>()) {
    Value buffer = send.getBuffer();
    bool isRead = group.getCallAttr() && !given.insert(buffer).second;
    if (buffer.getDefiningOp<SlotOp>() && !isRead &&
        failed(slots.read(send, buffer, /*receives=*/false)))
      return failure();
  }
  for (auto recv : group.getOps<RecvOp>())
    if (recv.getBuffer().getDefiningOp<SlotOp>() &&
        failed(slots.write(recv, recv.getBuffer())))
      return failure();
  return success();
}

LogicalResult checkProgram(ProgramOp program) {
  SlotStates slots;
  for (Operation &op : program.getBody().front()) {
    if (!op.hasTrait<ProgramLevelOp>())
      return op.emitOpError("is illegal at the program level");
    LogicalResult result = success();
    if (auto pack = dyn_cast<PackOp>(op))
      result = slots.write(pack, pack.getSlot());
    else if (auto unpack = dyn_cast<UnpackOp>(op))
      result = slots.read(unpack, unpack.getSlot(), /*receives=*/true);
    else if (auto relay = dyn_cast<RelayOp>(op))
      result = success(
          succeeded(slots.read(relay, relay.getSlot(), /*receives=*/true)) &&
          succeeded(slots.write(relay, relay.getSlot())));
    else if (auto group = dyn_cast<GroupOp>(op))
      result = checkGroup(group, slots);
    if (failed(result))
      return failure();
  }
  return success();
}

/// Emits what the runtime's verifier says, at the op of the instruction.
LogicalResult verifyAsFile(ProgramOp op, const TransitionInfo &info,
                           const dtrt::PlanCommon &common) {
  ProgramReading reading(op, info, common.memberSets);
  dtrt::ProgramFault fault = dtrt::verifyProgram(common, reading.program);
  if (fault.status.ok())
    return success();
  Operation *at = fault.instruction < reading.ops.size()
                      ? reading.ops[fault.instruction]
                      : op.getOperation();
  return at->emitOpError() << "would be refused in a plan: "
                           << fault.status.message();
}

struct VerifyProgramPass : impl::VerifyProgramBase<VerifyProgramPass> {
  LogicalResult verifyAll(const TransitionInfo &info) {
    SmallVector<ProgramOp> programs = programsOf(getOperation(), info);
    dtrt::PlanCommon common = commonSection(info);
    common.memberSets = memberSetsOf(programs);
    for (ProgramOp program : programs)
      if (failed(verifyAsFile(program, info, common)))
        return failure();
    return success();
  }

  void runOnOperation() override {
    for (auto program : getOperation().getOps<ProgramOp>())
      if (failed(checkProgram(program)))
        return signalPassFailure();
    if (failed(getAnalysis<TransitionAnalysis>().forEach(
            [&](const TransitionInfo &info) { return verifyAll(info); })))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace dt
