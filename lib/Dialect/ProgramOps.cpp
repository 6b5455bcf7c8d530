//===- ProgramOps.cpp - What the program of one device must satisfy -------===//

#include "dt/Dialect/Ops.h"

using namespace mlir;

namespace dt {

LogicalResult ProgramOp::verify() {
  if (getDevice() < 0)
    return emitOpError() << "expected a device from 0, found " << getDevice();
  if (getStaging() < 0)
    return emitOpError() << "expected staging from 0 bytes, found "
                         << getStaging();
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  int64_t lastWave = -1;
  for (Operation &op : getBody().front()) {
    if (!op.hasTrait<ProgramLevelOp>())
      return op.emitOpError(
          "cannot stand in a program, expected an op of the program level");
    auto group = dyn_cast<GroupOp>(op);
    if (!group)
      continue;
    if (group.getWave() <= lastWave)
      return group.emitOpError() << "is of wave " << group.getWave()
                                 << ", expected one after " << lastWave;
    lastWave = group.getWave();
  }
  return success();
}

LogicalResult ProgramOp::verifySymbolUses(SymbolTableCollection &tables) {
  Operation *module = (*this)->getParentOp();
  if (module && module->hasTrait<OpTrait::SymbolTable>() &&
      isa_and_nonnull<TransitionOp>(
          tables.lookupSymbolIn(module, getTransitionAttr().getAttr())))
    return success();
  return emitOpError() << "is of " << getTransitionAttr()
                       << ", which is no dt.transition";
}

LogicalResult SlotOp::verify() {
  auto program = cast<ProgramOp>((*this)->getParentOp());
  int64_t end = 0;
  if (getOffset() < 0 || __builtin_add_overflow(getOffset(),
                                                getBuffer().getType().getBytes(),
                                                &end) ||
      end > program.getStaging()) {
    InFlightDiagnostic diagnostic =
        emitOpError() << "of " << getBuffer().getType().getBytes()
                      << " bytes at " << getOffset()
                      << " leaves the staging of " << program.getStaging()
                      << " bytes";
    diagnostic.attachNote(program.getLoc()) << "the program is here";
    return diagnostic;
  }
  return success();
}

static LogicalResult verifyViews(Operation *op, size_t numShards,
                                 ArrayAttr views) {
  if (numShards == views.size())
    return success();
  return op->emitOpError() << "has " << views.size() << " views of "
                           << numShards << " shards, expected one for each";
}

LogicalResult PackOp::verify() {
  return verifyViews(*this, getShards().size(), getViews());
}

LogicalResult UnpackOp::verify() {
  return verifyViews(*this, getShards().size(), getViews());
}

LogicalResult ZeroFillOp::verify() {
  return verifyViews(*this, getShards().size(), getViews());
}

LogicalResult CopyLocalOp::verify() {
  if (getSources().size() != getDestinations().size())
    return emitOpError() << "copies " << getSources().size()
                         << " sources to " << getDestinations().size()
                         << " destinations, expected as many";
  return verifyViews(*this, getSources().size(), getViews());
}

LogicalResult GroupOp::verify() {
  if (getWave() < 0)
    return emitOpError() << "expected a wave from 0, found " << getWave();
  return success();
}

LogicalResult GroupOp::verifyRegions() {
  llvm::DenseMap<int64_t, Operation *> sends, receives;
  for (Operation &op : getBody().front()) {
    auto send = dyn_cast<SendOp>(op);
    auto receive = dyn_cast<RecvOp>(op);
    if (!send && !receive)
      return op.emitOpError(
          "cannot stand in a group, expected dt.send or dt.recv");
    int64_t peer = send ? send.getPeer() : receive.getPeer();
    auto [at, isNew] = (send ? sends : receives).try_emplace(peer, &op);
    if (isNew)
      continue;
    InFlightDiagnostic diagnostic =
        op.emitOpError() << "is the second in its group with peer " << peer
                         << ", expected one message per peer and direction";
    diagnostic.attachNote(at->second->getLoc()) << "the first is here";
    return diagnostic;
  }
  return success();
}

static LogicalResult verifyMessage(Operation *op, Value buffer, ViewAttr view,
                                   int64_t peer) {
  if (peer < 0)
    return op->emitOpError() << "expected a peer from 0, found " << peer;
  Operation *source = buffer.getDefiningOp();
  if (isa_and_nonnull<ShardOp>(source) && !view)
    return op->emitOpError("names a shard, expected 'at' and a view of it");
  if (isa_and_nonnull<SlotOp>(source) && view)
    return op->emitOpError("names a slot, expected no view");
  return success();
}

LogicalResult SendOp::verify() {
  return verifyMessage(*this, getBuffer(), getViewAttr(), getPeer());
}

LogicalResult RecvOp::verify() {
  return verifyMessage(*this, getBuffer(), getViewAttr(), getPeer());
}

static LogicalResult verifySide(Operation *op, ValueRange shards, Side side) {
  for (Value value : shards) {
    auto shard = value.getDefiningOp<ShardOp>();
    if (shard && shard.getSide() == side)
      continue;
    return op->emitOpError() << "expected shards of the "
                             << stringifySide(side);
  }
  return success();
}

LogicalResult CreateShardOp::verify() {
  return verifySide(*this, getShards(), Side::Destination);
}

LogicalResult ReleaseShardOp::verify() {
  return verifySide(*this, getShards(), Side::Source);
}

} // namespace dt
