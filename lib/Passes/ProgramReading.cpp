//===- ProgramReading.cpp - dt.program as the runtime's program -----------===//

#include "ProgramReading.h"

#include "dt/Dialect/Collectives.h"
#include "dtrt/format/ShardView.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"

#include <set>

using namespace mlir;

namespace dt {

namespace {

std::vector<uint32_t> membersOf(CallAttr call) {
  return {call.getMembers().begin(), call.getMembers().end()};
}

class Reader {
public:
  Reader(ProgramReading &out, const TransitionInfo &info,
         const std::vector<std::vector<uint32_t>> &memberSets)
      : out(out), info(info), memberSets(memberSets) {
    for (auto [i, param] : llvm::enumerate(info.params))
      families[ParamOp(param).getSymNameAttr()] = uint32_t(i);
    for (auto [i, own] : llvm::enumerate(info.tensors))
      views[{own.tensor, unsigned(own.side)}] = uint32_t(i);
  }

  void read(Operation &op);

private:
  struct Place {
    uint32_t family = 0;
    uint64_t states = 0;
    Side side = Side::Source;
    uint32_t shard = 0;
  };

  void readShard(ShardOp op);
  uint32_t viewOf(ShardOp op) const;
  uint64_t statesIn(uint32_t family, ArrayAttr names) const;
  dtrt::Segment segment(Value shard, ViewAttr view) const;
  dtrt::Segment storage(Value shard, ViewAttr view) const;
  dtrt::Instruction &add(Operation *op, dtrt::Opcode opcode, int64_t wave = -1);
  void addSegments(dtrt::Instruction &to, ValueRange shards,
                   ArrayAttr views) const;
  void setSlot(dtrt::Instruction &of, Value slot) const;
  void readCopy(CopyLocalOp op);
  void readRelay(RelayOp op);
  void readGroup(GroupOp op);
  dtrt::GroupCollective call(GroupOp op) const;
  dtrt::Message message(Value buffer, ViewAttr view, int64_t peer) const;
  uint64_t bytesOf(const dtrt::Segment &segment) const;

  ProgramReading &out;
  const TransitionInfo &info;
  const std::vector<std::vector<uint32_t>> &memberSets;
  llvm::DenseMap<Attribute, uint32_t> families;                   // by name
  llvm::DenseMap<std::pair<Attribute, unsigned>, uint32_t> views; // with a side
  llvm::DenseMap<Value, Place> shards;
};

uint64_t Reader::statesIn(uint32_t family, ArrayAttr names) const {
  StatesAttr states = ParamOp(info.params[family]).getStates();
  size_t count = states.getEntries().size();
  if (!names)
    return count == 64 ? ~uint64_t(0) : (uint64_t(1) << count) - 1;
  uint64_t mask = 0;
  for (auto name : names.getAsRange<StringAttr>())
    mask |= uint64_t(1) << states.indexOf(name);
  return mask;
}

/// The number of the shard's tensor; one that no plan has where neither side
/// has such a tensor.
uint32_t Reader::viewOf(ShardOp op) const {
  if (!op.getTensorAttr())
    return dtrt::kNoView;
  auto known = views.find({op.getTensorAttr(), unsigned(op.getSide())});
  return known == views.end() ? uint32_t(info.tensors.size()) : known->second;
}

void Reader::readShard(ShardOp op) {
  Place place;
  place.family = families.lookup(op.getParamAttr().getAttr());
  place.states = statesIn(place.family, op.getStatesAttr());
  place.side = op.getSide();
  auto &records =
      place.side == Side::Source ? out.program.source : out.program.destination;
  place.shard = uint32_t(records.size());
  dtrt::ShardRecord &record = records.emplace_back();
  record.family = place.family;
  record.states = place.states;
  Shard shard = op.getShard().toGeometry();
  record.flat = shard.range.has_value();
  record.range = shard.range.value_or(Interval());
  record.dims = std::move(shard.dims);
  record.view = viewOf(op);
  if (TensorAttr own = op.getTensorAttr())
    record.order = own.toGeometry().order;
  shards[op.getBuffer()] = place;
}

dtrt::Segment Reader::segment(Value shard, ViewAttr view) const {
  Place place = shards.lookup(shard);
  dtrt::Segment segment;
  segment.family = place.family;
  segment.states = view.getStates() ? statesIn(place.family, view.getStates())
                                    : place.states;
  segment.side = place.side;
  segment.shard = place.shard;
  segment.offset = view.getOffset().vec();
  segment.size = view.getSize().vec();
  return segment;
}

/// Further inner dims are offset 0, size 1; a scalar has none.
dtrt::Segment Reader::storage(Value shard, ViewAttr view) const {
  dtrt::Segment segment = this->segment(shard, view);
  size_t rank = ParamOp(info.params[segment.family]).rank();
  segment.offset.resize(rank, 0);
  segment.size.resize(rank, 1);
  return segment;
}

dtrt::Instruction &Reader::add(Operation *op, dtrt::Opcode opcode,
                               int64_t wave) {
  out.ops.push_back(op);
  dtrt::Instruction &instruction = out.program.instructions.emplace_back();
  instruction.op = opcode;
  instruction.wave = int32_t(wave);
  return instruction;
}

void Reader::addSegments(dtrt::Instruction &to, ValueRange shards,
                         ArrayAttr views) const {
  bool isStorage =
      to.op == dtrt::Opcode::Create || to.op == dtrt::Opcode::Release;
  for (auto [shard, view] : llvm::zip(shards, views.getAsRange<ViewAttr>()))
    to.segments.push_back(isStorage ? storage(shard, view)
                                    : segment(shard, view));
}

void Reader::setSlot(dtrt::Instruction &of, Value slot) const {
  auto op = slot.getDefiningOp<SlotOp>();
  of.slot = uint64_t(op.getOffset());
  of.bytes = uint64_t(op.getBuffer().getType().getBytes());
}

void Reader::readCopy(CopyLocalOp op) {
  dtrt::Instruction &copy = add(op, dtrt::Opcode::Copy, op.getWave());
  auto from = op.getSourceViews().getAsRange<ViewAttr>();
  auto to = op.getDestinationViews().getAsRange<ViewAttr>();
  for (auto [source, sourceView, destination, destinationView] :
       llvm::zip(op.getSources(), from, op.getDestinations(), to)) {
    copy.segments.push_back(segment(source, sourceView));
    copy.segments.push_back(segment(destination, destinationView));
  }
}

/// Of all elements, in the dtypes that travel.
uint64_t Reader::bytesOf(const dtrt::Segment &segment) const {
  StatesAttr states = ParamOp(info.params[segment.family]).getStates();
  uint64_t elements = 1;
  for (int64_t size : segment.size)
    elements *= uint64_t(size);
  return elements * uint64_t(states.wireBytes(segment.states));
}

dtrt::Message Reader::message(Value buffer, ViewAttr view, int64_t peer) const {
  dtrt::Message out;
  out.peer = uint32_t(peer);
  if (auto slot = buffer.getDefiningOp<SlotOp>()) {
    out.slot = uint64_t(slot.getOffset());
    out.bytes = uint64_t(slot.getBuffer().getType().getBytes());
    return out;
  }
  out.direct = true;
  out.segment = segment(buffer, view);
  out.bytes = bytesOf(out.segment);
  return out;
}

void Reader::readRelay(RelayOp op) {
  dtrt::Instruction &relay = add(op, dtrt::Opcode::Relay, op.getWave());
  setSlot(relay, op.getSlot());
  auto names = op.getParams().getAsRange<FlatSymbolRefAttr>();
  auto views = op.getViews().getAsRange<ViewAttr>();
  for (auto [name, view] : llvm::zip(names, views)) {
    dtrt::Segment &segment = relay.segments.emplace_back();
    segment.family = families.lookup(name.getAttr());
    segment.states = statesIn(segment.family, view.getStates());
    segment.shard = dtrt::kNoShard;
    segment.offset = view.getOffset().vec();
    segment.size = view.getSize().vec();
  }
}

dtrt::GroupCollective Reader::call(GroupOp op) const {
  CallAttr call = op.getCallAttr();
  auto set = llvm::lower_bound(memberSets, membersOf(call));
  auto startOf = [](Value blocks) {
    auto slot = blocks ? blocks.getDefiningOp<SlotOp>() : SlotOp();
    return slot ? uint64_t(slot.getOffset()) : uint64_t(0);
  };
  return {*callKindOf(call.getKind()),
          uint32_t(set - memberSets.begin()),
          uint32_t(std::max<int64_t>(call.getRoot(), 0)),
          uint64_t(call.getBlockBytes()),
          startOf(op.getGiven()),
          startOf(op.getGot())};
}

void Reader::readGroup(GroupOp op) {
  dtrt::Instruction &group = add(op, dtrt::Opcode::Group, op.getWave());
  if (op.getCallAttr())
    group.collective = call(op);
  for (Operation &each : op.getBody().front()) {
    auto send = dyn_cast<SendOp>(each);
    auto receive = dyn_cast<RecvOp>(each);
    group.messages.push_back(
        send ? message(send.getBuffer(), send.getViewAttr(), send.getPeer())
             : message(receive.getBuffer(), receive.getViewAttr(),
                       receive.getPeer()));
    group.messages.back().receive = !send;
  }
}

void Reader::read(Operation &op) {
  llvm::TypeSwitch<Operation *>(&op)
      .Case([&](ShardOp shard) { readShard(shard); })
      .Case([&](CopyLocalOp copy) { readCopy(copy); })
      .Case([&](GroupOp group) { readGroup(group); })
      .Case([&](RelayOp relay) { readRelay(relay); })
      .Case([&](PackOp pack) {
        auto &to = add(pack, dtrt::Opcode::Pack, pack.getWave());
        addSegments(to, pack.getShards(), pack.getViews());
        setSlot(to, pack.getSlot());
      })
      .Case([&](UnpackOp unpack) {
        auto &to = add(unpack, dtrt::Opcode::Unpack, unpack.getWave());
        addSegments(to, unpack.getShards(), unpack.getViews());
        setSlot(to, unpack.getSlot());
      })
      .Case([&](ZeroFillOp zero) {
        addSegments(add(zero, dtrt::Opcode::Zero), zero.getShards(),
                    zero.getViews());
      })
      .Case([&](CreateShardOp create) {
        addSegments(add(create, dtrt::Opcode::Create), create.getShards(),
                    create.getViews());
      })
      .Case([&](ReleaseShardOp release) {
        addSegments(add(release, dtrt::Opcode::Release), release.getShards(),
                    release.getViews());
      });
}

} // namespace

SmallVector<ProgramOp> programsOf(ModuleOp module, const TransitionInfo &info) {
  SmallVector<ProgramOp> out;
  for (auto op : module.getOps<ProgramOp>())
    if (op.getTransitionAttr().getAttr() == info.op().getSymNameAttr())
      out.push_back(op);
  return out;
}

std::vector<std::vector<uint32_t>> memberSetsOf(ArrayRef<ProgramOp> programs) {
  std::set<std::vector<uint32_t>> sets;
  for (ProgramOp program : programs)
    for (auto group : program.getBody().getOps<GroupOp>())
      if (CallAttr call = group.getCallAttr())
        sets.insert(membersOf(call));
  return {sets.begin(), sets.end()};
}

ProgramReading::ProgramReading(
    ProgramOp op, const TransitionInfo &info,
    const std::vector<std::vector<uint32_t>> &memberSets) {
  program.device = uint32_t(op.getDevice());
  program.sourceRank = op.getSourceRank();
  program.destinationRank = op.getDestinationRank();
  program.stagingBytes = uint64_t(op.getStaging());
  Reader reader(*this, info, memberSets);
  for (Operation &each : op.getBody().front())
    reader.read(each);
}

} // namespace dt
