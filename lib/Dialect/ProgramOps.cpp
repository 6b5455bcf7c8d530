//===- ProgramOps.cpp - What the program of one device must satisfy -------===//

#include "PieceChecks.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace dt {

LogicalResult ProgramOp::verify() {
  if (getDevice() < 0)
    return emitOpError() << "expected a device from 0, found " << getDevice();
  if (getStaging() < 0)
    return emitOpError() << "expected staging from 0 bytes, found "
                         << getStaging();
  if (getSourceRank() < -1 || getDestinationRank() < -1)
    return emitOpError() << "expected ranks from 0, found "
                         << std::min(getSourceRank(), getDestinationRank());
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  int64_t lastWave = -1;
  for (Operation &op : getBody().front()) {
    if (!op.hasTrait<ProgramLevelOp>())
      return op.emitOpError(
          "is not allowed in a program, expected an op of the program level");
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

static LogicalResult verifyShard(ShardOp shard, SpaceOp space,
                                 SymbolTableCollection &tables) {
  auto param = dyn_cast_or_null<ParamOp>(
      tables.lookupSymbolIn(space, shard.getParamAttr().getAttr()));
  if (!param)
    return shard.emitOpError()
           << "is of " << shard.getParamAttr() << ", which space @"
           << space.getSymName() << " does not have";
  if (shard.getShard().getCounts().size() != param.rank()) {
    InFlightDiagnostic diagnostic =
        shard.emitOpError()
        << "has " << shard.getShard().getCounts().size() << " dims, but @"
        << param.getSymName() << " has " << param.rank();
    diagnostic.attachNote(param.getLoc()) << "the param is here";
    return diagnostic;
  }
  return verifyStates(shard, shard.getStatesAttr(), param);
}

// Params exist and have as many dims as the views of them.
static LogicalResult verifyRelay(RelayOp relay, SpaceOp space,
                                 SymbolTableCollection &tables) {
  auto names = relay.getParams().getAsRange<FlatSymbolRefAttr>();
  auto views = relay.getViews().getAsRange<ViewAttr>();
  for (auto [name, view] : llvm::zip(names, views)) {
    auto param =
        dyn_cast_or_null<ParamOp>(tables.lookupSymbolIn(space, name.getAttr()));
    if (!param)
      return relay.emitOpError() << "is of " << name << ", which space @"
                                 << space.getSymName() << " does not have";
    if (view.getSize().size() != param.rank())
      return relay.emitOpError()
             << "has a view of " << view.getSize().size() << " dims, but @"
             << param.getSymName() << " has " << param.rank();
    if (failed(verifyStates(relay, view.getStates(), param)))
      return failure();
  }
  return success();
}

LogicalResult ProgramOp::verifySymbolUses(SymbolTableCollection &tables) {
  Operation *module = SymbolTable::getNearestSymbolTable(*this);
  auto transition =
      module ? dyn_cast_or_null<TransitionOp>(
                   tables.lookupSymbolIn(module, getTransitionAttr().getAttr()))
             : TransitionOp();
  if (!transition)
    return emitOpError() << "is of " << getTransitionAttr()
                         << ", which is not a dt.transition";
  SpaceOp space = transition.lookupSpace(tables);
  if (!space)
    return success(); // The transition says so itself.
  for (ShardOp shard : getBody().front().getOps<ShardOp>())
    if (failed(verifyShard(shard, space, tables)))
      return failure();
  for (RelayOp relay : getBody().front().getOps<RelayOp>())
    if (failed(verifyRelay(relay, space, tables)))
      return failure();
  return success();
}

LogicalResult SlotOp::verify() {
  auto program = cast<ProgramOp>((*this)->getParentOp());
  int64_t end = 0;
  if (getOffset() < 0 ||
      __builtin_add_overflow(getOffset(), getBuffer().getType().getBytes(),
                             &end) ||
      end > program.getStaging()) {
    InFlightDiagnostic diagnostic = emitOpError()
                                    << "of " << getBuffer().getType().getBytes()
                                    << " bytes at " << getOffset()
                                    << " leaves the staging of "
                                    << program.getStaging() << " bytes";
    diagnostic.attachNote(program.getLoc()) << "the program is here";
    return diagnostic;
  }
  return success();
}

// One view per shard, each inside its shard's dims.
static LogicalResult verifyViews(Operation *op, ValueRange shards,
                                 ArrayAttr views) {
  if (shards.size() != views.size())
    return op->emitOpError() << "has " << views.size() << " views of "
                             << shards.size() << " shards, expected one each";
  for (auto [value, view] : llvm::zip(shards, views.getAsRange<ViewAttr>())) {
    auto shard = value.getDefiningOp<ShardOp>();
    if (!shard)
      return op->emitOpError("expected shards, found a slot");
    if (shard.getShard().getCounts().size() != view.getSize().size())
      return op->emitOpError()
             << "has a view of " << view.getSize().size()
             << " dims in a shard of " << shard.getShard().getCounts().size();
  }
  return success();
}

LogicalResult PackOp::verify() {
  return verifyViews(*this, getShards(), getViews());
}

LogicalResult UnpackOp::verify() {
  return verifyViews(*this, getShards(), getViews());
}

LogicalResult RelayOp::verify() {
  if (getParams().size() != getViews().size())
    return emitOpError() << "has " << getViews().size() << " views of "
                         << getParams().size() << " params, expected one each";
  if (!getSlot().getDefiningOp<SlotOp>())
    return emitOpError("names a shard, expected a slot");
  return success();
}

LogicalResult ZeroFillOp::verify() {
  return verifyViews(*this, getShards(), getViews());
}

LogicalResult CopyLocalOp::verify() {
  if (getSources().size() != getDestinations().size())
    return emitOpError() << "copies " << getSources().size() << " sources to "
                         << getDestinations().size()
                         << " destinations, expected as many";
  if (failed(verifyViews(*this, getSources(), getSourceViews())))
    return failure();
  return verifyViews(*this, getDestinations(), getDestinationViews());
}

// The blocks of a call that the device of a group gives, or gets.
static LogicalResult verifyBlocks(GroupOp group, StringRef verb, Value blocks,
                                  int64_t bytes) {
  if (blocks && !blocks.getDefiningOp<SlotOp>())
    return group.emitOpError() << verb << " a shard, expected a slot";
  int64_t found = blocks ? cast<BufferType>(blocks.getType()).getBytes() : 0;
  if (found == bytes)
    return success();
  auto program = cast<ProgramOp>(group->getParentOp());
  return group.emitOpError()
         << verb << " " << found << " bytes, expected " << bytes
         << ": the blocks of device " << program.getDevice() << " in this "
         << keywordOf(group.getCallAttr().getKind());
}

LogicalResult GroupOp::verify() {
  if (getWave() < 0)
    return emitOpError() << "expected a wave from 0, found " << getWave();
  CallAttr call = getCallAttr();
  if (!call)
    return getGiven() || getGot()
               ? emitOpError("gives or gets blocks, expected a call")
               : success();
  int64_t device = cast<ProgramOp>((*this)->getParentOp()).getDevice();
  if (!call.hasMember(device))
    return emitOpError() << "is a call of which device " << device
                         << " is no member";
  if (failed(verifyBlocks(*this, "gives", getGiven(), call.bytesGiven(device))))
    return failure();
  return verifyBlocks(*this, "gets", getGot(), call.bytesGot(device));
}

// What a library's collective brings lies in slots, and is its members'.
static LogicalResult verifyBrought(Operation *op, CallAttr call, Value buffer,
                                   int64_t peer) {
  if (!call)
    return success();
  if (!buffer.getDefiningOp<SlotOp>())
    return op->emitOpError("names a shard in a call, expected a slot");
  if (!call.hasMember(peer))
    return op->emitOpError()
           << "is with device " << peer << ", which is no member of the call";
  return success();
}

LogicalResult GroupOp::verifyRegions() {
  llvm::DenseMap<int64_t, Operation *> sends, receives;
  for (Operation &op : getBody().front()) {
    auto send = dyn_cast<SendOp>(op);
    auto receive = dyn_cast<RecvOp>(op);
    if (!send && !receive)
      return op.emitOpError(
          "is not allowed in a group, expected dt.send or dt.recv");
    int64_t peer = send ? send.getPeer() : receive.getPeer();
    if (failed(verifyBrought(&op, getCallAttr(),
                             send ? send.getBuffer() : receive.getBuffer(),
                             peer)))
      return failure();
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

// One view of storage per shard, and shards of one side.
static LogicalResult verifyStorage(Operation *op, ValueRange shards,
                                   ArrayAttr views, Side side) {
  if (shards.size() != views.size())
    return op->emitOpError() << "has " << views.size() << " views of "
                             << shards.size() << " shards, expected one each";
  for (auto [value, view] : llvm::zip(shards, views.getAsRange<ViewAttr>())) {
    auto shard = value.getDefiningOp<ShardOp>();
    if (!shard || shard.getSide() != side)
      return op->emitOpError() << "expected shards of the " << sideName(side);
    int64_t leading = shard.getShard().getLeading();
    if (int64_t(view.getSize().size()) != leading + 1)
      return op->emitOpError()
             << "has a view of " << view.getSize().size()
             << " dims, expected the " << leading
             << " leading dims of its shard and one of elements";
  }
  return success();
}

LogicalResult CreateShardOp::verify() {
  return verifyStorage(*this, getShards(), getViews(), Side::Destination);
}

LogicalResult ReleaseShardOp::verify() {
  return verifyStorage(*this, getShards(), getViews(), Side::Source);
}

} // namespace dt
