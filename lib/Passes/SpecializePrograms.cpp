//===- SpecializePrograms.cpp - Programs of devices as ops ----------------===//
//
// Shows what emission writes for a device: the same ProgramBuilder makes the
// program, and this pass writes it as `dt.program`, which ProgramReading.h
// reads again.
//
//===----------------------------------------------------------------------===//

#include "PlanCertificate.h"
#include "dt/Dialect/Collectives.h"
#include "dt/Emit/Programs.h"
#include "dt/Passes/Passes.h"
#include "dtrt/format/ShardView.h"

#include <map>

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_SPECIALIZEPROGRAMS
#include "dt/Passes/Passes.h.inc"

namespace {

class ProgramWriter {
public:
  /// Calls of the program are of `memberSets`.
  ProgramWriter(const TransitionInfo &info, const dtrt::RankProgram &program,
                const std::vector<std::vector<uint32_t>> &memberSets,
                OpBuilder &builder)
      : info(info), program(program), memberSets(memberSets), builder(builder),
        loc(info.op().getLoc()) {}

  void write();

private:
  void writeShards(const std::vector<dtrt::ShardRecord> &records, Side side,
                   SmallVector<Value> &values);
  void writeInstruction(const dtrt::Instruction &instruction);
  void writeGroup(const dtrt::Instruction &instruction);
  GroupOp createGroup(const dtrt::Instruction &instruction);
  void writeCopy(const dtrt::Instruction &instruction);
  void writeRelay(const dtrt::Instruction &instruction);
  Value shard(const dtrt::Segment &segment) const {
    return (segment.side == Side::Source ? sources
                                         : destinations)[segment.shard];
  }
  const dtrt::ShardRecord &recordOf(const dtrt::Segment &segment) const;
  ArrayAttr statesOf(const dtrt::Segment &segment) const;
  ViewAttr view(const dtrt::Segment &segment) const;
  ViewAttr storageView(const dtrt::Segment &segment) const;
  Value slot(uint64_t offset, uint64_t bytes);
  void views(ArrayRef<dtrt::Segment> segments, SmallVector<Value> &shards,
             SmallVector<Attribute> &attrs) const;

  const TransitionInfo &info;
  const dtrt::RankProgram &program;
  const std::vector<std::vector<uint32_t>> &memberSets;
  OpBuilder &builder;
  Location loc;
  SmallVector<Value> sources, destinations;
  std::map<std::pair<uint64_t, uint64_t>, Value> slots;
};

Shard toShard(const dtrt::ShardRecord &record, unsigned numLeading) {
  Shard out;
  out.numLeading = numLeading;
  out.dims = record.dims;
  if (record.flat)
    out.range = record.range;
  out.order = record.order;
  return out;
}

void ProgramWriter::writeShards(const std::vector<dtrt::ShardRecord> &records,
                                Side side, SmallVector<Value> &values) {
  MLIRContext *context = builder.getContext();
  for (const dtrt::ShardRecord &record : records) {
    ParamOp param = info.params[record.family];
    Shard shard = toShard(record, param.numLeading());
    StatesAttr states = param.getStates();
    int64_t bytes =
        shard.numMembers() * shard.elementsPerMember() *
        (side == Side::Source ? states.sourceBytes(record.states)
                              : states.destinationBytes(record.states));
    auto op = ShardOp::create(
        builder, loc, BufferType::get(context, bytes), side,
        FlatSymbolRefAttr::get(param.getSymNameAttr()),
        record.view == dtrt::kNoView ? TensorAttr()
                                     : info.tensors[record.view].tensor,
        stateNames(param, record.states), ShardAttr::get(context, shard));
    values.push_back(op.getBuffer());
  }
}

const dtrt::ShardRecord &
ProgramWriter::recordOf(const dtrt::Segment &segment) const {
  return (segment.side == Side::Source ? program.source
                                       : program.destination)[segment.shard];
}

/// The names of a segment's states; null where they are its shard's.
ArrayAttr ProgramWriter::statesOf(const dtrt::Segment &segment) const {
  if (segment.states == recordOf(segment).states)
    return {};
  SmallVector<Attribute> names;
  auto entries = ParamOp(info.params[segment.family]).getStates().getEntries();
  for (unsigned state : dtrt::statesOf(segment.states))
    names.push_back(entries[state].name);
  return builder.getArrayAttr(names);
}

ViewAttr ProgramWriter::view(const dtrt::Segment &segment) const {
  return ViewAttr::get(builder.getContext(), segment.offset, segment.size,
                       statesOf(segment));
}

/// Members, and a range of their elements; a scalar has one.
ViewAttr ProgramWriter::storageView(const dtrt::Segment &segment) const {
  size_t leading = ParamOp(info.params[segment.family]).numLeading();
  dtrt::DimVector offset = segment.offset, size = segment.size;
  offset.resize(leading + 1, 0);
  size.resize(leading + 1, 1);
  return ViewAttr::get(builder.getContext(), offset, size, statesOf(segment));
}

void ProgramWriter::views(ArrayRef<dtrt::Segment> segments,
                          SmallVector<Value> &shards,
                          SmallVector<Attribute> &attrs) const {
  for (const dtrt::Segment &segment : segments) {
    shards.push_back(shard(segment));
    attrs.push_back(view(segment));
  }
}

Value ProgramWriter::slot(uint64_t offset, uint64_t bytes) {
  auto [it, isNew] = slots.try_emplace({offset, bytes});
  if (isNew) {
    // Slots stand with the shards, before the first use.
    OpBuilder::InsertionGuard guard(builder);
    Operation *parent = builder.getInsertionBlock()->getParentOp();
    if (auto group = dyn_cast<GroupOp>(parent))
      builder.setInsertionPoint(group);
    it->second = SlotOp::create(builder, loc,
                                BufferType::get(builder.getContext(), bytes),
                                int64_t(offset));
  }
  return it->second;
}

GroupOp ProgramWriter::createGroup(const dtrt::Instruction &instruction) {
  const auto &from = instruction.collective;
  if (!from)
    return GroupOp::create(builder, loc, int64_t(instruction.wave), CallAttr(),
                           /*given=*/Value(), /*got=*/Value());
  const std::vector<uint32_t> &set = memberSets[from->members];
  SmallVector<int64_t> members(set.begin(), set.end());
  bool isRooted = from->kind == dtrt::CollectiveKind::Broadcast;
  auto call =
      CallAttr::get(builder.getContext(), patternOf(from->kind), members,
                    isRooted ? int64_t(from->root) : CallAttr::kNoRoot,
                    int64_t(from->blockBytes));
  auto blocks = [&](uint64_t start, int64_t bytes) {
    return bytes > 0 ? slot(start, uint64_t(bytes)) : Value();
  };
  Value given = blocks(from->giveSlot, call.bytesGiven(program.device));
  Value got = blocks(from->getSlot, call.bytesGot(program.device));
  return GroupOp::create(builder, loc, int64_t(instruction.wave), call, given,
                         got);
}

void ProgramWriter::writeGroup(const dtrt::Instruction &instruction) {
  for (const dtrt::Message &message : instruction.messages)
    if (!message.direct)
      slot(message.slot, message.bytes);
  GroupOp group = createGroup(instruction);
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&group.getBody());
  for (const dtrt::Message &message : instruction.messages) {
    Value buffer = message.direct ? shard(message.segment)
                                  : slot(message.slot, message.bytes);
    ViewAttr at = message.direct ? view(message.segment) : ViewAttr();
    if (message.receive)
      RecvOp::create(builder, loc, buffer, at, int64_t(message.peer));
    else
      SendOp::create(builder, loc, buffer, at, int64_t(message.peer));
  }
}

void ProgramWriter::writeCopy(const dtrt::Instruction &instruction) {
  SmallVector<Value> from, to;
  SmallVector<Attribute> read, written;
  for (size_t i = 0; i < instruction.segments.size(); i += 2) {
    from.push_back(shard(instruction.segments[i]));
    to.push_back(shard(instruction.segments[i + 1]));
    read.push_back(view(instruction.segments[i]));
    written.push_back(view(instruction.segments[i + 1]));
  }
  CopyLocalOp::create(builder, loc, from, builder.getArrayAttr(read), to,
                      builder.getArrayAttr(written), int64_t(instruction.wave));
}

void ProgramWriter::writeRelay(const dtrt::Instruction &instruction) {
  SmallVector<Attribute> params, views;
  for (const dtrt::Segment &segment : instruction.segments) {
    ParamOp param = info.params[segment.family];
    params.push_back(FlatSymbolRefAttr::get(param.getSymNameAttr()));
    views.push_back(ViewAttr::get(builder.getContext(), segment.offset,
                                  segment.size,
                                  stateNames(param, segment.states)));
  }
  RelayOp::create(builder, loc, slot(instruction.slot, instruction.bytes),
                  builder.getArrayAttr(params), builder.getArrayAttr(views),
                  int64_t(instruction.wave));
}

void ProgramWriter::writeInstruction(const dtrt::Instruction &instruction) {
  SmallVector<Value> shards;
  SmallVector<Attribute> attrs;
  int64_t wave = instruction.wave;
  switch (instruction.op) {
  case dtrt::Opcode::Copy:
    return writeCopy(instruction);
  case dtrt::Opcode::Group:
    return writeGroup(instruction);
  case dtrt::Opcode::Relay:
    return writeRelay(instruction);
  case dtrt::Opcode::Zero:
    views(instruction.segments, shards, attrs);
    ZeroFillOp::create(builder, loc, shards, builder.getArrayAttr(attrs));
    return;
  case dtrt::Opcode::Pack:
    views(instruction.segments, shards, attrs);
    PackOp::create(builder, loc, shards, builder.getArrayAttr(attrs),
                   slot(instruction.slot, instruction.bytes), wave);
    return;
  case dtrt::Opcode::Unpack:
    views(instruction.segments, shards, attrs);
    UnpackOp::create(builder, loc, slot(instruction.slot, instruction.bytes),
                     shards, builder.getArrayAttr(attrs), wave);
    return;
  case dtrt::Opcode::Create:
  case dtrt::Opcode::Release:
    for (const dtrt::Segment &segment : instruction.segments) {
      shards.push_back(shard(segment));
      attrs.push_back(storageView(segment));
    }
    if (instruction.op == dtrt::Opcode::Create)
      CreateShardOp::create(builder, loc, shards, builder.getArrayAttr(attrs));
    else
      ReleaseShardOp::create(builder, loc, shards, builder.getArrayAttr(attrs));
    return;
  }
}

void ProgramWriter::write() {
  auto op = ProgramOp::create(
      builder, loc, FlatSymbolRefAttr::get(info.op().getSymNameAttr()),
      int64_t(program.device), program.sourceRank, program.destinationRank,
      int64_t(program.stagingBytes));
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&op.getBody());
  writeShards(program.source, Side::Source, sources);
  writeShards(program.destination, Side::Destination, destinations);
  for (const dtrt::Instruction &instruction : program.instructions)
    writeInstruction(instruction);
}

/// What --dt-specialize=device= says of every device.
constexpr int64_t kAllDevices = -1;

struct SpecializeProgramsPass
    : impl::SpecializeProgramsBase<SpecializeProgramsPass> {
  using SpecializeProgramsBase::SpecializeProgramsBase;

  LogicalResult specialize(const TransitionReading &reading) {
    const TransitionInfo &info = *reading.info;
    Worlds worlds = worldsOf(info);
    ProgramBuilder programs(reading.plan, worlds);
    auto memberSets = memberSetsOf(reading.plan);
    bool isOne = device != kAllDevices;
    if (isOne && !llvm::is_contained(programs.devices(), int64_t(device)))
      return info.op().emitOpError() << "has no device " << int64_t(device);
    OpBuilder builder(&getContext());
    builder.setInsertionPointToEnd(info.op()->getBlock());
    for (int64_t each : programs.devices())
      if (!isOne || each == device)
        ProgramWriter(info, programs.build(each), memberSets, builder).write();
    return success();
  }

  void runOnOperation() override {
    if (!getAnalysis<PlanCertificate>().holds ||
        failed(getAnalysis<TransportReading>().forEach(
            [&](const TransitionReading &reading) {
              return specialize(reading);
            })))
      return signalPassFailure();
    markAnalysesPreserved<TransitionAnalysis, TransportReading>();
  }
};

} // namespace
} // namespace dt
