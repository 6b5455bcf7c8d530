//===- Programs.cpp - From a schedule to one program per device -----------===//

#include "dt/Emit/Programs.h"

#include <algorithm>
#include <set>

using namespace dt;

namespace {

std::vector<dtrt::Range> toRanges(const std::vector<Interval> &intervals) {
  std::vector<dtrt::Range> out;
  for (Interval interval : intervals)
    out.push_back({interval.lo, interval.hi});
  return out;
}

dtrt::Instruction instruction(dtrt::Opcode op, int32_t wave) {
  dtrt::Instruction out;
  out.op = op;
  out.wave = wave;
  return out;
}

} // namespace

ProgramBuilder::ProgramBuilder(const ScheduledTransition &transition,
                               const Worlds &worlds)
    : transition(transition), worlds(worlds) {
  for (uint32_t flow = 0; flow < transition.flows.size(); ++flow) {
    source.add(flow, transition.sourceHoldings[flow]);
    destination.add(flow, transition.destinationHoldings[flow]);
  }
  for (uint32_t i = 0; i < transition.messages.size(); ++i) {
    messagesOf[transition.messages[i].source].push_back(i);
    messagesOf[transition.messages[i].destination].push_back(i);
  }
  for (uint32_t i = 0; i < transition.locals.size(); ++i)
    localsOf[transition.locals[i].device].push_back(i);
  for (uint32_t i = 0; i < transition.derived.size(); ++i)
    derivedOf[transition.derived[i].device].push_back(i);
  for (uint32_t i = 0; i < transition.zeros.size(); ++i)
    zerosOf[transition.zeros[i].device].push_back(i);
  std::set<int64_t> devices;
  for (const auto &ranks : {worlds.sourceRank, worlds.destinationRank})
    for (auto [device, rank] : ranks)
      devices.insert(device);
  allDevices.assign(devices.begin(), devices.end());
}

dtrt::Segment ProgramBuilder::segment(uint32_t flow, int64_t device,
                                      dtrt::Side side, const Box &box) const {
  const ShardIndex &index = side == dtrt::Side::Source ? source : destination;
  dtrt::Segment out;
  out.family = transition.planFlows[flow].family;
  out.states = transition.planFlows[flow].states;
  out.side = side;
  // A box that no shard holds keeps an index that the verifier refuses.
  out.shard = index.findNumber(flow, device, box).value_or(UINT32_MAX);
  out.offset.resize(box.rank());
  out.size.resize(box.rank());
  for (unsigned d = 0; d < box.rank(); ++d) {
    out.offset[d] = box[d].lo;
    out.size[d] = box[d].size();
  }
  return out;
}

dtrt::Segment ProgramBuilder::segment(const Move &move, int64_t device,
                                      bool reading) const {
  // A forward is read from where its own receive put it.
  bool fromSource =
      reading && source.findNumber(move.flow, device, move.box).has_value();
  return segment(move.flow, device,
                 fromSource ? dtrt::Side::Source : dtrt::Side::Destination,
                 move.box);
}

void ProgramBuilder::addShards(const ShardIndex &index, int64_t device,
                               std::vector<dtrt::ShardRecord> &out) const {
  for (const ShardIndex::Entry &entry : index.shardsOf(device)) {
    dtrt::ShardRecord record;
    record.family = transition.planFlows[entry.flow].family;
    record.states = transition.planFlows[entry.flow].states;
    for (const auto &intervals : entry.shard->dims)
      record.dims.push_back(toRanges(intervals));
    record.flat = entry.shard->range.has_value();
    if (record.flat)
      record.range = {entry.shard->range->lo, entry.shard->range->hi};
    out.push_back(std::move(record));
  }
}

/// Copies that are done before `wave` and were not done before `last`.
void ProgramBuilder::addCopies(int64_t device, int64_t last, int64_t wave,
                               dtrt::RankProgram &program) const {
  auto it = localsOf.find(device);
  if (it == localsOf.end())
    return;
  dtrt::Instruction copy = instruction(dtrt::Opcode::Copy, -1);
  // They stand in the order of their waves.
  auto first = std::partition_point(
      it->second.begin(), it->second.end(),
      [&](uint32_t i) { return transition.locals[i].before <= last; });
  for (; first != it->second.end(); ++first) {
    const LocalMove &local = transition.locals[*first];
    if (local.before > wave)
      break;
    copy.segments.push_back(
        segment(local.flow, device, dtrt::Side::Source, local.box));
    copy.segments.push_back(
        segment(local.flow, device, dtrt::Side::Destination, local.box));
  }
  if (!copy.segments.empty())
    program.instructions.push_back(std::move(copy));
}

void ProgramBuilder::addZeros(int64_t device,
                              dtrt::RankProgram &program) const {
  dtrt::Instruction zero = instruction(dtrt::Opcode::Zero, -1);
  if (auto it = zerosOf.find(device); it != zerosOf.end())
    for (uint32_t i : it->second)
      zero.segments.push_back(segment(transition.zeros[i].flow, device,
                                      dtrt::Side::Destination,
                                      transition.zeros[i].box));
  if (!zero.segments.empty())
    program.instructions.push_back(std::move(zero));
}

/// All transfers are done: what other states gave is copied from them.
void ProgramBuilder::addDerived(int64_t device,
                                dtrt::RankProgram &program) const {
  auto it = derivedOf.find(device);
  if (it == derivedOf.end())
    return;
  dtrt::Instruction copy = instruction(dtrt::Opcode::Copy, -1);
  for (uint32_t i : it->second) {
    const LocalMove &piece = transition.derived[i];
    copy.segments.push_back(segment(*transition.deriveFrom[piece.flow], device,
                                    dtrt::Side::Destination, piece.box));
    // Of the states that travel with it, the one that is read.
    const dtrt::Segment to =
        segment(piece.flow, device, dtrt::Side::Destination, piece.box);
    copy.segments.back().states = transition.planFlows[piece.flow].madeFrom;
    copy.segments.push_back(to);
  }
  program.instructions.push_back(std::move(copy));
}

/// One wave of one device: packs, its group, unpacks.
void ProgramBuilder::addWave(int64_t device,
                             const std::vector<uint32_t> &messages,
                             dtrt::RankProgram &program) const {
  int32_t wave = transition.messages[messages.front()].wave;
  dtrt::Instruction group = instruction(dtrt::Opcode::Group, wave);
  std::vector<dtrt::Instruction> packs, unpacks;
  for (uint32_t i : messages) {
    const Message &message = transition.messages[i];
    dtrt::Message out;
    out.receive = message.destination == device;
    out.peer = out.receive ? message.source : message.destination;
    out.bytes = message.bytes;
    int64_t slot = out.receive ? message.receiveSlot : message.sendSlot;
    out.direct = slot == kDirect;
    if (out.direct) {
      out.segment = segment(transition.scheduled[message.first].move, device,
                            !out.receive);
      group.messages.push_back(std::move(out));
      continue;
    }
    out.slot = slot;
    dtrt::Instruction staged = instruction(
        out.receive ? dtrt::Opcode::Unpack : dtrt::Opcode::Pack, wave);
    staged.slot = slot;
    staged.bytes = message.bytes;
    staged.segments.reserve(message.last - message.first);
    for (size_t m = message.first; m < message.last; ++m)
      staged.segments.push_back(
          segment(transition.scheduled[m].move, device, !out.receive));
    (out.receive ? unpacks : packs).push_back(std::move(staged));
    group.messages.push_back(std::move(out));
  }
  auto append = [&](std::vector<dtrt::Instruction> &list) {
    for (dtrt::Instruction &entry : list)
      program.instructions.push_back(std::move(entry));
  };
  append(packs);
  program.instructions.push_back(std::move(group));
  append(unpacks);
}

dtrt::RankProgram ProgramBuilder::build(int64_t device) const {
  dtrt::RankProgram program;
  program.device = device;
  auto rankIn = [&](const std::map<int64_t, int64_t> &ranks) {
    auto it = ranks.find(device);
    return it == ranks.end() ? int64_t(-1) : it->second;
  };
  program.sourceRank = rankIn(worlds.sourceRank);
  program.destinationRank = rankIn(worlds.destinationRank);
  addShards(source, device, program.source);
  addShards(destination, device, program.destination);
  addCopies(device, /*last=*/-1, /*wave=*/0, program);
  addZeros(device, program);
  int64_t lastWave = 0;
  if (auto it = messagesOf.find(device); it != messagesOf.end()) {
    const std::vector<uint32_t> &all = it->second;
    for (size_t first = 0; first < all.size();) {
      int32_t wave = transition.messages[all[first]].wave;
      size_t last = first;
      while (last < all.size() && transition.messages[all[last]].wave == wave)
        ++last;
      addCopies(device, lastWave, wave, program);
      lastWave = wave;
      addWave(device, {all.begin() + first, all.begin() + last}, program);
      first = last;
    }
  }
  addCopies(device, lastWave, INT64_MAX, program);
  addDerived(device, program);
  if (auto it = transition.arenaBytes.find(device);
      it != transition.arenaBytes.end())
    program.stagingBytes = it->second;
  return program;
}
