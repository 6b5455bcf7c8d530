//===- Programs.cpp - From the transport level to one program -------------===//

#include "dt/Emit/Programs.h"

#include "dt/Geometry/Prefetch.h"
#include "dt/Proof/Certificate.h"
#include "dtrt/format/ShardView.h"

#include <algorithm>
#include <numeric>
#include <set>

using namespace dt;

namespace {

using Kind = PlanStep::Kind;

bool isSameRegion(const dtrt::ShardRecord &a, const dtrt::ShardRecord &b) {
  return a.family == b.family && a.dims == b.dims && a.flat == b.flat &&
         a.range == b.range && a.view == b.view;
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

/// Into the blocks, which start there, of its pair of members.
void placeInBlocks(const PlanCollective &collective, int64_t given, int64_t got,
                   PlanMessage &message) {
  auto placeOf = [&](int64_t device) {
    return std::lower_bound(collective.members.begin(),
                            collective.members.end(), device) -
           collective.members.begin();
  };
  auto to = uint64_t(placeOf(message.destination));
  auto from = uint64_t(placeOf(message.source));
  message.sendSlot = given + int64_t(dtrt::blockFor(collective.kind, to)) *
                                 collective.blockBytes;
  message.receiveSlot = got + int64_t(dtrt::blockFrom(collective.kind, from)) *
                                  collective.blockBytes;
}

/// Where one wave's slots of one direction are, by their message. Messages in
/// that order are found in one step.
class SlotOffsets {
public:
  SlotOffsets(const TransportPlan &plan, const PlanStep &step, bool receive) {
    slots.reserve((step.lastSlot - step.firstSlot) / 2 + 1);
    for (size_t i = step.firstSlot; i < step.lastSlot; ++i) {
      const PlanSlot &slot = plan.slots[i];
      if (slot.receive == receive)
        slots.push_back({receive ? Ends(slot.peer, slot.device)
                                 : Ends(slot.device, slot.peer),
                         slot.offset});
    }
    std::sort(slots.begin(), slots.end());
  }

  /// kInPlace where it has none.
  int64_t of(int64_t source, int64_t destination) {
    Ends ends(source, destination);
    if (next == slots.size() || slots[next].first != ends)
      next = size_t(std::lower_bound(slots.begin(), slots.end(),
                                     std::make_pair(ends, INT64_MIN)) -
                    slots.begin());
    bool isFound = next < slots.size() && slots[next].first == ends;
    return isFound ? slots[next++].second : kInPlace;
  }

private:
  using Ends = std::pair<int64_t, int64_t>; // source, destination
  std::vector<std::pair<Ends, int64_t>> slots;
  size_t next = 0;
};

void readSlots(const TransportPlan &plan, const PlanStep &step,
               PlanMessage *first, PlanMessage *last) {
  SlotOffsets sends(plan, step, /*receive=*/false);
  SlotOffsets receives(plan, step, /*receive=*/true);
  for (PlanMessage *message = first; message != last; ++message) {
    int64_t source = message->source, destination = message->destination;
    if (message->collective >= 0) {
      placeInBlocks(plan.collectives[size_t(message->collective)],
                    sends.of(source, source),
                    receives.of(destination, destination), *message);
      continue;
    }
    message->sendSlot = sends.of(source, destination);
    message->receiveSlot = receives.of(source, destination);
  }
}

bool isOfOneMessage(const PlanPiece &a, const PlanPiece &b) {
  return a.from == b.from && a.to == b.to;
}

size_t countMessages(const TransportPlan &plan, const PlanStep &step) {
  size_t count = step.first < step.last;
  for (size_t i = step.first + 1; i < step.last; ++i)
    count += !isOfOneMessage(plan.pieces[i - 1], plan.pieces[i]);
  return count;
}

void readMessages(const TransportPlan &plan, const PlanStep &step,
                  PlanMessage *out) {
  PlanMessage *next = out;
  for (size_t i = step.first; i < step.last; ++i) {
    const PlanPiece &piece = plan.pieces[i];
    if (i == step.first || !isOfOneMessage(plan.pieces[i - 1], piece))
      *next++ = {step.wave,
                 piece.from,
                 piece.to,
                 i,
                 i,
                 0,
                 kInPlace,
                 kInPlace,
                 piece.relay,
                 piece.collective == kNoCollective ? -1
                                                   : int32_t(piece.collective)};
    next[-1].last = i + 1;
    next[-1].bytes += piece.bytes;
  }
  if (step.firstSlot < step.lastSlot)
    readSlots(plan, step, out, next);
}

} // namespace

std::vector<PlanMessage> dt::messagesOf(const TransportPlan &plan,
                                        const ParallelFor &parallel) {
  std::vector<size_t> starts(plan.steps.size() + 1); // by step
  parallel(plan.steps.size(), [&](size_t s) {
    const PlanStep &step = plan.steps[s];
    if (step.kind == Kind::Wave)
      starts[s + 1] = countMessages(plan, step);
  });
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  std::vector<PlanMessage> out(starts.back());
  parallel(plan.steps.size(), [&](size_t s) {
    if (plan.steps[s].kind == Kind::Wave)
      readMessages(plan, plan.steps[s], out.data() + starts[s]);
  });
  return out;
}

std::vector<std::vector<uint32_t>> dt::memberSetsOf(const TransportPlan &plan) {
  std::set<std::vector<uint32_t>> sets;
  for (const PlanCollective &collective : plan.collectives)
    sets.emplace(collective.members.begin(), collective.members.end());
  return {sets.begin(), sets.end()};
}

//===----------------------------------------------------------------------===//
// Who does what
//===----------------------------------------------------------------------===//

ProgramBuilder::ProgramBuilder(const TransportPlan &plan, const Worlds &worlds,
                               const ParallelFor &parallel)
    : plan(plan), worlds(worlds), allMessages(messagesOf(plan, parallel)),
      memberSets(memberSetsOf(plan)) {
  parallel(3, [&](size_t part) {
    if (part == 0)
      indexWork();
    else if (part == 1)
      source = indexShards(plan.flows, /*source=*/true);
    else
      destination = indexShards(plan.flows, /*source=*/false);
  });
  indexCalls();
  std::set<int64_t> devices;
  for (const auto &ranks : {worlds.sourceRank, worlds.destinationRank})
    for (auto [device, rank] : ranks)
      devices.insert(device);
  allDevices.assign(devices.begin(), devices.end());
}

void ProgramBuilder::indexCalls() {
  if (plan.collectives.empty())
    return;
  for (const PlanSlot &slot : plan.slots)
    if (slot.isBlocks())
      blocks[{slot.wave, slot.device, slot.receive}] = slot.offset;
}

dtrt::GroupCollective ProgramBuilder::callOf(uint32_t collective,
                                             int64_t device) const {
  const PlanCollective &from = plan.collectives[collective];
  std::vector<uint32_t> members(from.members.begin(), from.members.end());
  auto set = std::lower_bound(memberSets.begin(), memberSets.end(), members);
  auto startOf = [&](bool receive) {
    auto at = blocks.find({from.wave, device, receive});
    return at == blocks.end() ? uint64_t(0) : uint64_t(at->second);
  };
  return {from.kind,
          uint32_t(set - memberSets.begin()),
          uint32_t(std::max<int64_t>(from.root, 0)),
          uint64_t(from.blockBytes),
          startOf(/*receive=*/false),
          startOf(/*receive=*/true)};
}

void ProgramBuilder::indexWork() {
  uint32_t message = 0, collective = 0;
  for (uint32_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep &step = plan.steps[i];
    if (step.kind == Kind::Wave) {
      for (; collective < plan.collectives.size() &&
             plan.collectives[collective].wave == step.wave;
           ++collective)
        for (int64_t member : plan.collectives[collective].members)
          workOf[member].push_back({i, Work::kCall | collective});
      for (; message < allMessages.size() &&
             allMessages[message].first < step.last;
           ++message) {
        workOf[allMessages[message].source].push_back({i, message});
        workOf[allMessages[message].destination].push_back({i, message});
      }
      continue;
    }
    bool isStorage = step.kind == Kind::Create || step.kind == Kind::Release;
    for (size_t item = step.first; item < step.last; ++item)
      workOf[isStorage ? plan.storage[item].device : plan.pieces[item].to]
          .push_back({i, uint32_t(item)});
  }
}

/// A state that only the destination has is read where another one lies: the
/// same bytes, which are one shard. Its record's place among those before it,
/// or UINT32_MAX.
uint32_t ProgramBuilder::readingShard(const Shards &shards,
                                      const PlanFlow &flow,
                                      const dtrt::ShardRecord &record) const {
  for (uint32_t i = 0; i < shards.records.size(); ++i)
    if (isSameRegion(shards.records[i], record) &&
        (shards.records[i].states & flow.readStates) == flow.readStates)
      return i;
  return UINT32_MAX;
}

ProgramBuilder::Shards ProgramBuilder::shardsOf(const ShardIndex &index,
                                                int64_t device) const {
  Shards out;
  std::vector<std::pair<uint32_t, dtrt::ShardRecord>> made;
  const std::vector<ShardIndex::Entry> &entries = index.shardsOf(device);
  out.numbers.resize(entries.size());
  for (uint32_t i = 0; i < entries.size(); ++i) {
    const ShardIndex::Entry &entry = entries[i];
    const PlanFlow &flow = plan.flows[entry.flow];
    dtrt::ShardRecord record;
    record.family = flow.family;
    record.states = flow.states;
    record.dims = entry.shard->dims;
    record.flat = entry.shard->range.has_value();
    record.range = entry.shard->range.value_or(Interval());
    record.view = entry.shard->view.value_or(dtrt::kNoView);
    record.order = entry.shard->order;
    if (&index == &source && flow.sourceBuffers.empty()) {
      made.emplace_back(i, std::move(record));
      continue;
    }
    out.numbers[i] = uint32_t(out.records.size());
    out.records.push_back(std::move(record));
  }
  for (auto &[i, record] : made) {
    const PlanFlow &flow = plan.flows[entries[i].flow];
    out.numbers[i] = readingShard(out, flow, record);
    if (out.numbers[i] != UINT32_MAX)
      out.records[out.numbers[i]].states |= record.states;
  }
  return out;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

class ProgramBuilder::Writer {
public:
  Writer(const ProgramBuilder &builder, int64_t device,
         dtrt::RankProgram &program)
      : builder(builder), plan(builder.plan), device(device), program(program),
        source(builder.shardsOf(builder.source, device)),
        destination(builder.shardsOf(builder.destination, device)) {
    program.source = source.records;
    program.destination = destination.records;
  }

  /// What the device does in a step, [first, last); `group`: the number of its
  /// next wave, or -1.
  void add(const PlanStep &step, const Work *first, const Work *last,
           int32_t group);

private:
  dtrt::Segment segment(uint32_t flow, dtrt::Side side, const Box &box,
                        uint32_t number = kUnplaced) const;
  dtrt::Segment segment(const PlanPiece &piece, bool reading) const;
  dtrt::Segment segment(const PlanStorage &row, dtrt::Side side) const;
  dtrt::Segment relayed(const PlanPiece &piece) const;
  std::vector<dtrt::Segment> &local(dtrt::Opcode op, dtrt::Side firstSide,
                                    int32_t wave = -1);
  void addPiece(Kind kind, const PlanPiece &piece, int32_t wave);
  void addStorage(Kind kind, const PlanStorage &row);
  void addWave(int32_t wave, const Work *first, const Work *last);
  void addMessage(const PlanMessage &message, dtrt::Instruction &group);

  const ProgramBuilder &builder;
  const TransportPlan &plan;
  int64_t device;
  dtrt::RankProgram &program;
  Shards source, destination;
  std::vector<dtrt::Instruction> unpacks; // of the wave that is added
  std::optional<uint64_t> packedSlot;     // of its last pack
};

/// `number`: of the shard that holds the box, where it is known.
dtrt::Segment ProgramBuilder::Writer::segment(uint32_t flow, dtrt::Side side,
                                              const Box &box,
                                              uint32_t number) const {
  bool isSource = side == dtrt::Side::Source;
  const ShardIndex &index = isSource ? builder.source : builder.destination;
  const Shards &shards = isSource ? source : destination;
  dtrt::Segment out;
  out.family = plan.flows[flow].family;
  out.states = plan.flows[flow].states;
  out.side = side;
  // A box that no shard holds keeps an index that the verifier refuses.
  if (number == kUnplaced)
    number = index.findNumber(flow, device, box).value_or(kUnplaced);
  out.shard = number != kUnplaced ? shards.numbers[number] : UINT32_MAX;
  out.offset.resize(box.rank());
  out.size.resize(box.rank());
  for (unsigned d = 0; d < box.rank(); ++d) {
    out.offset[d] = box[d].lo;
    out.size[d] = box[d].size();
  }
  return out;
}

/// A forward is read from where its own receive put it.
dtrt::Segment ProgramBuilder::Writer::segment(const PlanPiece &piece,
                                              bool reading) const {
  if (reading && piece.atSource)
    return segment(piece.flow, dtrt::Side::Source, piece.box, piece.fromShard);
  return segment(piece.flow, dtrt::Side::Destination, piece.box,
                 reading ? kUnplaced : piece.toShard);
}

/// Of no shard: it comes and goes on.
dtrt::Segment ProgramBuilder::Writer::relayed(const PlanPiece &piece) const {
  dtrt::Segment out;
  out.family = plan.flows[piece.flow].family;
  out.states = plan.flows[piece.flow].states;
  out.shard = dtrt::kNoShard;
  for (unsigned d = 0; d < piece.box.rank(); ++d) {
    out.offset.push_back(piece.box[d].lo);
    out.size.push_back(piece.box[d].size());
  }
  return out;
}

dtrt::Segment ProgramBuilder::Writer::segment(const PlanStorage &row,
                                              dtrt::Side side) const {
  bool isSource = side == dtrt::Side::Source;
  const ShardIndex &index = isSource ? builder.source : builder.destination;
  const Shards &shards = isSource ? source : destination;
  unsigned leading = row.box.rank() - 1;
  dtrt::Segment out;
  out.family = plan.flows[row.flow].family;
  out.states = row.states;
  out.side = side;
  out.shard = shards.numbers[index.numbersOf(row.flow, device)[row.shard]];
  // Further inner dims are offset 0, size 1; a scalar has none.
  size_t rank = plan.flows[row.flow].shape.size();
  out.offset.resize(rank, 0);
  out.size.resize(rank, 1);
  for (unsigned d = 0; d <= leading && d < rank; ++d) {
    out.offset[d] = row.box[d].lo;
    out.size[d] = row.box[d].size();
  }
  return out;
}

/// Segments of the last instruction when that is the same kind of local work,
/// else of a new one. What is made from another state is read where other
/// copies wrote it, so copies of different sides are apart.
std::vector<dtrt::Segment> &ProgramBuilder::Writer::local(dtrt::Opcode op,
                                                          dtrt::Side firstSide,
                                                          int32_t wave) {
  if (program.instructions.empty() || program.instructions.back().op != op ||
      program.instructions.back().wave != wave ||
      program.instructions.back().segments.front().side != firstSide) {
    program.instructions.emplace_back();
    program.instructions.back().op = op;
    program.instructions.back().wave = wave;
  }
  return program.instructions.back().segments;
}

void ProgramBuilder::Writer::addPiece(Kind kind, const PlanPiece &piece,
                                      int32_t wave) {
  if (kind == Kind::Zero) {
    auto flow = uint32_t(piece.flow - plan.flows.size());
    local(dtrt::Opcode::Zero, dtrt::Side::Destination)
        .push_back(segment(flow, dtrt::Side::Destination, piece.box));
    return;
  }
  dtrt::Segment from, to = segment(piece, /*reading=*/false);
  if (kind == Kind::Derive) {
    from = segment(piece.fedBy, dtrt::Side::Destination, piece.box);
    // Of the states that travel with it, the one that is read.
    from.states = plan.flows[piece.flow].derivedFromStates;
  } else {
    from = segment(piece, /*reading=*/true);
  }
  auto &segments = local(dtrt::Opcode::Copy, from.side, wave);
  segments.push_back(std::move(from));
  segments.push_back(std::move(to));
}

void ProgramBuilder::Writer::addStorage(Kind kind, const PlanStorage &row) {
  bool creates = kind == Kind::Create;
  dtrt::Side side = creates ? dtrt::Side::Destination : dtrt::Side::Source;
  local(creates ? dtrt::Opcode::Create : dtrt::Opcode::Release, side)
      .push_back(segment(row, side));
}

void ProgramBuilder::Writer::addMessage(const PlanMessage &message,
                                        dtrt::Instruction &group) {
  dtrt::Message out;
  out.receive = message.destination == device;
  out.peer = uint32_t(out.receive ? message.source : message.destination);
  out.bytes = uint64_t(message.bytes);
  int64_t slot = out.receive ? message.receiveSlot : message.sendSlot;
  out.direct = slot == kInPlace;
  if (out.direct) {
    out.segment = segment(plan.pieces[message.first], !out.receive);
    group.messages.push_back(std::move(out));
    return;
  }
  out.slot = uint64_t(slot);
  // What goes to all others alike is packed once.
  bool isPacked =
      !out.receive && message.collective >= 0 && packedSlot == out.slot;
  if (isPacked) {
    group.messages.push_back(std::move(out));
    return;
  }
  if (out.receive && message.relay == RelayHop::In) {
    group.messages.push_back(std::move(out)); // stays in its slot
    return;
  }
  bool isRelay = !out.receive && message.relay == RelayHop::Out;
  dtrt::Instruction &staged =
      (out.receive ? unpacks : program.instructions).emplace_back();
  if (!out.receive)
    packedSlot = out.slot;
  staged.op = isRelay       ? dtrt::Opcode::Relay
              : out.receive ? dtrt::Opcode::Unpack
                            : dtrt::Opcode::Pack;
  staged.wave = message.wave;
  staged.slot = out.slot;
  staged.bytes = out.bytes;
  staged.segments.reserve(message.last - message.first);
  for (size_t i = message.first; i < message.last; ++i)
    staged.segments.push_back(isRelay ? relayed(plan.pieces[i])
                                      : segment(plan.pieces[i], !out.receive));
  group.messages.push_back(std::move(out));
}

/// Packs, which are written at once, one group, unpacks.
void ProgramBuilder::Writer::addWave(int32_t wave, const Work *first,
                                     const Work *last) {
  dtrt::Instruction group;
  group.op = dtrt::Opcode::Group;
  group.wave = wave;
  packedSlot.reset();
  for (; first != last; ++first)
    if (first->item & Work::kCall)
      group.collective = builder.callOf(first->item & ~Work::kCall, device);
    else
      addMessage(builder.allMessages[first->item], group);
  program.instructions.push_back(std::move(group));
  for (dtrt::Instruction &unpack : unpacks)
    program.instructions.push_back(std::move(unpack));
  unpacks.clear();
}

void ProgramBuilder::Writer::add(const PlanStep &step, const Work *first,
                                 const Work *last, int32_t group) {
  switch (step.kind) {
  case Kind::Wave:
    return addWave(step.wave, first, last);
  case Kind::Create:
  case Kind::Release:
    for (; first != last; ++first)
      addStorage(step.kind, plan.storage[first->item]);
    return;
  case Kind::Copy:
  case Kind::Derive:
  case Kind::Zero:
    // Beside a wave that it has no part in, a device copies at once.
    for (; first != last; ++first)
      addPiece(step.kind, plan.pieces[first->item],
               step.wave == group ? group : -1);
    return;
  }
}

/// The arena holds the blocks of collectives, whatever is in them.
void ProgramBuilder::addBlocks(dtrt::RankProgram &program) const {
  for (const dtrt::Instruction &instruction : program.instructions) {
    const auto &call = instruction.collective;
    if (!call)
      continue;
    size_t members = memberSets[call->members].size();
    bool isRoot = call->root == program.device;
    uint64_t given =
        call->blockBytes * dtrt::blocksGiven(call->kind, members, isRoot);
    uint64_t got =
        call->blockBytes * dtrt::blocksGot(call->kind, members, isRoot);
    if (given > 0)
      program.stagingBytes =
          std::max(program.stagingBytes, call->giveSlot + given);
    if (got > 0)
      program.stagingBytes =
          std::max(program.stagingBytes, call->getSlot + got);
  }
}

/// A device's messages, and their pieces, lie far apart.
void ProgramBuilder::prefetchWork(const Work *at, const Work *end) const {
  auto isMessage = [&](const Work &work) {
    return plan.steps[work.step].kind == Kind::Wave &&
           !(work.item & Work::kCall);
  };
  if (size_t(end - at) <= 2 * kPrefetched)
    return;
  if (const Work &later = at[2 * kPrefetched]; isMessage(later))
    prefetch(allMessages[later.item]);
  const Work &soon = at[kPrefetched];
  if (isMessage(soon))
    prefetch(plan.pieces[allMessages[soon.item].first]);
  else if (plan.steps[soon.step].kind == Kind::Copy)
    prefetch(plan.pieces[soon.item]);
}

dtrt::RankProgram ProgramBuilder::build(int64_t device) const {
  dtrt::RankProgram program;
  program.device = uint32_t(device);
  auto rankIn = [&](const std::map<int64_t, int64_t> &ranks) {
    auto it = ranks.find(device);
    return it == ranks.end() ? int64_t(-1) : it->second;
  };
  program.sourceRank = rankIn(worlds.sourceRank);
  program.destinationRank = rankIn(worlds.destinationRank);
  Writer writer(*this, device, program);
  auto own = workOf.find(device);
  if (own == workOf.end())
    return program;
  const Work *end = own->second.data() + own->second.size();
  // An item is an instruction at most; so is its group.
  program.instructions.reserve(2 * own->second.size());
  const Work *next = own->second.data(); // of a wave, from `first` on
  for (const Work *first = own->second.data(); first != end;) {
    const Work *last = first;
    for (; last != end && last->step == first->step; ++last)
      prefetchWork(last, end);
    next = std::max(next, first);
    while (next != end && plan.steps[next->step].kind != Kind::Wave)
      ++next;
    writer.add(plan.steps[first->step], first, last,
               next == end ? -1 : plan.steps[next->step].wave);
    first = last;
  }
  for (const dtrt::Instruction &instruction : program.instructions)
    for (const dtrt::Message &message : instruction.messages)
      if (!message.direct)
        program.stagingBytes =
            std::max(program.stagingBytes, message.slot + message.bytes);
  addBlocks(program);
  return program;
}
