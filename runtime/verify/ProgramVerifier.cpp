//===- ProgramVerifier.cpp - Is one device's program right? ---------------===//

#include "ProgramVerifier.h"

#include "ByteSums.h"
#include "SharedStorages.h"
#include "SlotLifetimes.h"
#include "dtrt/cost/KernelPlans.h"
#include "dtrt/format/Collectives.h"
#include "dtrt/format/Forwards.h"
#include "dtrt/format/LocalWork.h"
#include "dtrt/format/ShardView.h"
#include "dtrt/format/StayingStates.h"
#include "dtrt/format/Text.h"
#include "dtrt/verify/GpuParts.h"

#include <algorithm>
#include <utility>

namespace dtrt {

namespace {

/// An arena may be this much larger than what is used of it, for alignment.
constexpr uint64_t kArenaSlack = 4096;

/// How many of the first `count` elements of the shard's local tensor, from
/// its inner dim at `place` on, lie inside the family's shape.
int64_t realPrefix(const Family &family, const ShardRecord &shard,
                   const DimVector &extents, unsigned place, int64_t count) {
  if (place == family.shape.size())
    return count;
  unsigned dim = family.numLeading() + shard.order[place];
  int64_t below = 1, realBelow = 1;
  for (unsigned p = place + 1; p < family.shape.size(); ++p) {
    unsigned d = family.numLeading() + shard.order[p];
    int64_t shape = family.shape[d - family.numLeading()], real = 0;
    for (const Interval &interval : shard.dims[d])
      real += Interval{interval.lo, std::min(interval.hi, shape)}.size();
    below *= extents[d];
    realBelow *= real;
  }
  if (below == 0)
    return 0;
  int64_t whole = count / below, rest = count % below, result = 0;
  int64_t shape = family.shape[dim - family.numLeading()];
  for (const Interval &interval : shard.dims[dim]) {
    int64_t taken = std::min(whole, interval.size());
    result +=
        Interval{interval.lo, std::min(interval.lo + taken, shape)}.size() *
        realBelow;
    whole -= taken;
    if (taken < interval.size()) {
      if (interval.lo + taken < shape)
        result += realPrefix(family, shard, extents, place + 1, rest);
      break;
    }
  }
  return result;
}

/// Elements of the shard that are no padding, all members together.
int64_t realElements(const Family &family, const ShardRecord &shard) {
  DimVector extents = localShape(shard);
  int64_t all = 1;
  for (unsigned dim = family.numLeading(); dim < family.rank(); ++dim)
    all *= extents[dim];
  Interval stored = shard.flat ? shard.range : Interval{0, all};
  int64_t perMember = realPrefix(family, shard, extents, 0, stored.hi) -
                      realPrefix(family, shard, extents, 0, stored.lo);
  return perMember * numMembers(family, shard);
}

int64_t boxVolume(const Segment &segment) {
  int64_t volume = 1;
  for (int64_t size : segment.size)
    volume *= size;
  return volume;
}

/// The states of each destination shard that are written together.
StateGroups writtenTogether(const RankProgram &program) {
  StateGroups out(program.destination);
  for (const Instruction &instruction : program.instructions) {
    bool isCopy = instruction.op == Opcode::Copy;
    if (isCopy || instruction.op == Opcode::Zero ||
        instruction.op == Opcode::Unpack)
      for (size_t i = isCopy; i < instruction.segments.size(); i += 1 + isCopy)
        out.add(instruction.segments[i]);
    for (const Message &message : instruction.messages)
      if (message.receive && message.direct)
        out.add(message.segment);
  }
  return out;
}

/// Whether the box lies wholly in the padding.
bool isPadding(const Family &family, const DimVector &offset) {
  for (unsigned dim = family.numLeading(); dim < family.rank(); ++dim)
    if (offset[dim] >= family.shape[dim - family.numLeading()])
      return true;
  return false;
}

} // namespace

void sortEnds(std::vector<UnpairedEnd> &ends) {
  std::sort(ends.begin(), ends.end(),
            [](const UnpairedEnd &a, const UnpairedEnd &b) {
              return pairKey(a) < pairKey(b);
            });
}

void ProgramTotals::add(ProgramTotals &&other) {
  sends.insert(sends.end(), other.sends.begin(), other.sends.end());
  receives.insert(receives.end(), other.receives.begin(), other.receives.end());
  passedOn.add(std::move(other.passedOn));
  carried.insert(carried.end(), other.carried.begin(), other.carried.end());
  shards.add(std::move(other.shards));
  addNumbers(other);
}

void ProgramTotals::addNumbers(const ProgramTotals &other) {
  copies.insert(copies.end(), other.copies.begin(), other.copies.end());
  collectives.insert(collectives.end(), other.collectives.begin(),
                     other.collectives.end());
  for (auto sum :
       {&ProgramTotals::bytesDestination, &ProgramTotals::bytesLocal,
        &ProgramTotals::bytesInPlace, &ProgramTotals::bytesRelayed,
        &ProgramTotals::bytesWire, &ProgramTotals::bytesInterNode,
        &ProgramTotals::sourceRanks, &ProgramTotals::destinationRanks})
    addBytes(this->*sum, other.*sum);
  for (auto most : {&ProgramTotals::stagingPeak, &ProgramTotals::devicePeak,
                    &ProgramTotals::sourceMax, &ProgramTotals::destinationMax,
                    &ProgramTotals::mostAbove})
    this->*most = std::max(this->*most, other.*most);
  features |= other.features;
}

ProgramVerifier::ProgramVerifier(const PlanCommon &common,
                                 const RankProgram &program,
                                 ProgramTotals &totals)
    : common(common), program(program), totals(totals),
      staying(stayingMasks(common, program)), steps(Steps::forProgram(program)),
      lifetimes(common, program, steps), together(writtenTogether(program)),
      carried(program.device) {}

Status ProgramVerifier::verify() {
  auto found = findForwards(program);
  if (!found.ok())
    return makeError("device ", program.device, ": ", found.status().message());
  forwards = std::move(*found);
  for (current = 0; current < program.instructions.size(); ++current) {
    const Instruction &instruction = program.instructions[current];
    Status status = step(instruction);
    if (steps.spent())
      status = steps.status();
    if (!status.ok())
      return makeError("device ", program.device, ", instruction ", current,
                       " (", opcodeName(program.instructions[current].op),
                       "): ", status.message());
  }
  Status status = finish();
  if (steps.spent())
    status = steps.status();
  if (!status.ok())
    return makeError("device ", program.device, ": ", status.message());
  for (const TimedCopy &copy : localWork(common, program))
    totals.copies.push_back(copy);
  carried.items = Steps::itemsOf(program);
  if (carried.isWhole())
    totals.carried.push_back(std::make_shared<Carried>(std::move(carried)));
  totals.shards.add(program);
  totals.sourceRanks += program.sourceRank >= 0;
  totals.destinationRanks += program.destinationRank >= 0;
  return {};
}

Status ProgramVerifier::step(const Instruction &instruction) {
  switch (instruction.op) {
  case Opcode::Copy:
    if (!isCopiedBeside(instruction))
      return stepCopy(instruction, current);
    beside.push_back(current);
    return {};
  case Opcode::Zero:
    for (const Segment &segment : instruction.segments)
      DTRT_RETURN_IF_ERROR(write(segment, /*zero=*/true));
    return {};
  case Opcode::Create:
  case Opcode::Release:
    return {}; // `lifetimes` has seen them all
  case Opcode::Pack:
    return stepPack(instruction);
  case Opcode::Unpack:
    return stepUnpack(instruction);
  case Opcode::Relay:
    return stepRelay(instruction);
  case Opcode::Group:
    DTRT_RETURN_IF_ERROR(stepGroup(instruction));
    return stepBeside();
  }
  return makeError("unknown opcode");
}

//===----------------------------------------------------------------------===//
// Shards
//===----------------------------------------------------------------------===//

Status ProgramVerifier::readUntil(const Segment &segment,
                                  uint32_t instruction) {
  const Family &family = familyOf(segment);
  if (segment.side == Side::Source) {
    if (auto by = lifetimes.releasedBefore(segment, instruction))
      return makeError("reads tensor '", tensorOf(family, segment.offset),
                       "' of source shard ", segment.shard,
                       " after its release by instruction ", *by);
    return {};
  }
  for (unsigned first :
       statesOf(together.firstOf(segment.shard, segment.states))) {
    if (written(segment.shard, first)
            .covers(segment.offset, segment.size, steps))
      continue;
    uint64_t missing = segment.states & together.groupOf(segment.shard, first);
    return makeError("reads tensor '", tensorOf(family, segment.offset),
                     "' state '",
                     shortened(family.states[statesOf(missing).front()].name),
                     "' from the destination before it is written there");
  }
  return {};
}

Status ProgramVerifier::write(const Segment &segment, bool zero) {
  const Family &family = familyOf(segment);
  if (auto by = lifetimes.createdAfter(segment, current))
    return makeError("writes tensor '", tensorOf(family, segment.offset),
                     "' of destination shard ", segment.shard,
                     " before it is created by instruction ", *by);
  if (zero && !isPadding(family, segment.offset))
    return makeError("zeroes a part of tensor '",
                     tensorOf(family, segment.offset), "' that is not padding");
  for (unsigned state :
       statesOf(together.firstOf(segment.shard, segment.states))) {
    written(segment.shard, state).add(segment.offset, segment.size, current);
    int64_t &data = dataVolume[segment.shard * 64 + state];
    // A wrong plan may write the same region any number of times.
    if (!zero && __builtin_add_overflow(data, boxVolume(segment), &data))
      data = INT64_MAX;
  }
  return {};
}

/// `ended`: when it has surely been done, its own place or that of its group.
Status ProgramVerifier::stepCopy(const Instruction &instruction,
                                 uint32_t ended) {
  for (size_t i = 0; i + 1 < instruction.segments.size(); i += 2) {
    const Segment &from = instruction.segments[i];
    const Segment &to = instruction.segments[i + 1];
    DTRT_RETURN_IF_ERROR(readUntil(from, ended));
    DTRT_RETURN_IF_ERROR(write(to, /*zero=*/false));
    uint64_t moved = storedBytes(familyOf(to), movedPart(to, staying));
    addBytes(totals.bytesLocal, moved);
    addBytes(totals.bytesInPlace, storedBytes(familyOf(to), to) - moved);
  }
  return {};
}

/// Copies beside a group that has been looked at: they begin at their place, so
/// what they write is there by then, and what the group sends they have not
/// written yet.
Status ProgramVerifier::stepBeside() {
  const uint32_t group = current;
  for (uint32_t copy : std::exchange(beside, {})) {
    current = copy;
    DTRT_RETURN_IF_ERROR(stepCopy(program.instructions[copy], group));
  }
  current = group;
  return {};
}

//===----------------------------------------------------------------------===//
// Staging
//===----------------------------------------------------------------------===//

/// Makes room for new bytes; what is there must have served its purpose.
Status ProgramVerifier::clearStaging(uint64_t slot, uint64_t bytes) {
  stagingUsed = std::max(stagingUsed, slot + bytes);
  auto at = staging.upper_bound(slot);
  if (at != staging.begin() && std::prev(at)->second.end > slot)
    --at;
  while (at != staging.end() && at->first < slot + bytes) {
    const Staged &old = at->second;
    if (!old.used)
      return makeError("overwrites staging bytes [", at->first, ", ", old.end,
                       ") that instruction ", old.instruction,
                       old.relayed  ? " relays, before they are sent"
                       : old.packed ? " packed, before they are sent"
                                    : " received, before they are unpacked");
    at = staging.erase(at);
  }
  return {};
}

Status ProgramVerifier::stepPack(const Instruction &instruction) {
  DTRT_RETURN_IF_ERROR(clearStaging(instruction.slot, instruction.bytes));
  uint64_t at = instruction.slot;
  for (const Segment &segment : instruction.segments) {
    DTRT_RETURN_IF_ERROR(read(segment));
    uint64_t end = at + segmentBytes(familyOf(segment), segment);
    staging[at] = {end, &segment, 0, current};
    at = end;
  }
  return {};
}

/// Adds a segment to those of a message; false where one is there already.
/// Mostly it comes behind all others.
bool ProgramVerifier::place(const Segment &segment, uint64_t at,
                            Arrival &arrival) {
  size_t before = arrival.segments.size();
  arrival.segments.emplace_hint(arrival.segments.end(), at, &segment);
  return arrival.segments.size() > before;
}

Status ProgramVerifier::unpackSegment(uint64_t slot, uint64_t bytes,
                                      const Segment &segment) {
  auto at = staging.upper_bound(slot);
  if (at == staging.begin() || (--at)->second.end < slot + bytes)
    return makeError("unpacks staging bytes [", slot, ", ", slot + bytes,
                     ") that no message brought");
  Staged &staged = at->second;
  if (staged.packed)
    return makeError("unpacks staging bytes [", slot, ", ", slot + bytes,
                     ") that instruction ", staged.instruction, " packed");
  Arrival &arrival = arrivals[staged.receive];
  if (!place(segment, slot - arrival.slot, arrival))
    return makeError("unpacks staging bytes [", slot, ", ", slot + bytes,
                     ") twice");
  arrival.unpacked += bytes;
  staged.used = arrival.unpacked == arrival.end.bytes;
  return write(segment, /*zero=*/false);
}

Status ProgramVerifier::stepUnpack(const Instruction &instruction) {
  uint64_t at = instruction.slot;
  for (const Segment &segment : instruction.segments) {
    uint64_t bytes = segmentBytes(familyOf(segment), segment);
    DTRT_RETURN_IF_ERROR(unpackSegment(at, bytes, segment));
    at += bytes;
  }
  return {};
}

/// What came in one message, as it is, is what a later one sends.
Status ProgramVerifier::stepRelay(const Instruction &instruction) {
  uint64_t slot = instruction.slot, end = slot + instruction.bytes;
  auto at = staging.find(slot);
  if (at == staging.end() || at->second.packed || at->second.end != end)
    return makeError("relays staging bytes [", slot, ", ", end,
                     ") that no message brought");
  Arrival &arrival = arrivals[at->second.receive];
  if (arrival.unpacked > 0)
    return makeError("relays staging bytes [", slot, ", ", end,
                     ") that are unpacked, too");
  staging.erase(at);
  for (const Segment &segment : instruction.segments) {
    uint64_t next = slot + segmentBytes(familyOf(segment), segment);
    if (next == slot)
      return makeError("relays a segment of tensor '",
                       tensorOf(familyOf(segment), segment.offset),
                       "' that has no bytes");
    place(segment, slot - arrival.slot, arrival);
    staging[slot] = {next, &segment, 0, current, false, /*relayed=*/true};
    slot = next;
  }
  arrival.unpacked = instruction.bytes;
  arrival.end.direct = true;
  addBytes(totals.bytesRelayed, instruction.bytes);
  return {};
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

Status ProgramVerifier::checkPairs(const Instruction &instruction) const {
  std::vector<std::pair<bool, uint32_t>> pairs;
  for (const Message &message : instruction.messages)
    pairs.emplace_back(message.receive, message.peer);
  std::sort(pairs.begin(), pairs.end());
  auto twice = std::adjacent_find(pairs.begin(), pairs.end());
  // A library takes a collective apart by itself.
  if (twice == pairs.end() && !instruction.collective &&
      pairs.size() > kMaxGroupMessages)
    return makeError("has ", pairs.size(), " messages, expected at most ",
                     kMaxGroupMessages, " so that it fits one kernel plan");
  if (twice == pairs.end())
    return {};
  return makeError(twice->first ? "receives from" : "sends to", " device ",
                   twice->second, " twice in one group");
}

/// Whether what goes to a device crosses the network: a library brings what a
/// collective gives to all into a node once, here to its first member there.
bool ProgramVerifier::entersNode(const Instruction &instruction,
                                 uint32_t peer) const {
  auto nodeOf = [&](uint32_t device) {
    return device / uint64_t(common.cluster.devicesPerNode);
  };
  if (nodeOf(program.device) == nodeOf(peer))
    return false;
  const auto &call = instruction.collective;
  if (!call || call->kind == CollectiveKind::AllToAll)
    return true;
  const std::vector<uint32_t> &members = common.memberSets[call->members];
  return peer ==
         *std::find_if(members.begin(), members.end(), [&](uint32_t member) {
           return nodeOf(member) == nodeOf(peer);
         });
}

/// The blocks that the device gets are written, whatever is in them.
Status ProgramVerifier::stepCollective(const Instruction &instruction) {
  const GroupCollective &call = *instruction.collective;
  uint64_t given = bytesGiven(common, call, program.device);
  uint64_t got = bytesGot(common, call, program.device);
  totals.collectives.push_back(
      {instruction.wave, program.device, current, call});
  if (given > 0)
    stagingUsed = std::max(stagingUsed, call.giveSlot + given);
  return got > 0 ? clearStaging(call.getSlot, got) : Status();
}

/// Whether it sends on what came. Then it is all of one message.
bool ProgramVerifier::isRelayed(const Message &message) const {
  auto staged = staging.find(message.slot);
  if (message.direct || staged == staging.end() || !staged->second.relayed)
    return false;
  const Instruction &relay = program.instructions[staged->second.instruction];
  return relay.slot == message.slot && relay.bytes == message.bytes;
}

/// The segments that exactly fill a staging range.
Result<Digest> ProgramVerifier::stagedContent(const Message &message) {
  const uint64_t slot = message.slot, bytes = message.bytes;
  uint64_t at = slot;
  const bool relays = isRelayed(message);
  while (at < slot + bytes) {
    auto staged = staging.find(at);
    if (staged == staging.end() || !staged->second.packed ||
        staged->second.relayed != relays || staged->second.end > slot + bytes)
      return makeError("sends staging bytes [", slot, ", ", slot + bytes,
                       ") of which byte ", at, " was not packed for it");
    if (!steps.take(statesOf(staged->second.packed->states).size()))
      return steps.status();
    content.add(*staged->second.packed);
    carried.add(*staged->second.packed, message.peer);
    if (!relays)
      totals.passedOn.addSent(*staged->second.packed);
    staged->second.used = true;
    at = staged->second.end;
  }
  return content.finish();
}

Status ProgramVerifier::send(const Instruction &instruction,
                             const Message &message) {
  UnpairedEnd end = {instruction.wave, program.device, message.peer,
                     current,          message.bytes,  {},
                     message.direct};
  end.forward = forwards[current][&message - instruction.messages.data()];
  if (message.direct) {
    DTRT_RETURN_IF_ERROR(read(message.segment));
    totals.passedOn.addSent(message.segment);
    carried.add(message.segment, message.peer);
    content.add(message.segment);
    end.content = content.finish();
  } else {
    auto staged = stagedContent(message);
    DTRT_RETURN_IF_ERROR(staged);
    end.content = *staged;
    end.direct = isRelayed(message);
  }
  end.collective = instruction.collective.has_value();
  totals.sends.push_back(end);
  addBytes(totals.bytesWire, message.bytes);
  if (entersNode(instruction, message.peer))
    addBytes(totals.bytesInterNode, message.bytes);
  return {};
}

Status ProgramVerifier::receive(const Instruction &instruction,
                                const Message &message) {
  UnpairedEnd end = {instruction.wave, message.peer, program.device, current,
                     message.bytes,    {},           message.direct};
  if (message.direct) {
    content.add(message.segment);
    end.content = content.finish();
    totals.receives.push_back(end);
    return write(message.segment, /*zero=*/false);
  }
  DTRT_RETURN_IF_ERROR(clearStaging(message.slot, message.bytes));
  staging[message.slot] = {message.slot + message.bytes, nullptr,
                           arrivals.size(), current};
  arrivals.push_back({end, message.slot, 0, {}});
  return {};
}

/// All messages of a group run at once: sends read what was there before, and
/// no receive may touch the bytes of a send.
Status ProgramVerifier::stepGroup(const Instruction &instruction) {
  DTRT_RETURN_IF_ERROR(checkPairs(instruction));
  if (instruction.collective)
    DTRT_RETURN_IF_ERROR(stepCollective(instruction));
  for (const Message &message : instruction.messages)
    if (!message.receive)
      DTRT_RETURN_IF_ERROR(send(instruction, message));
  std::vector<Interval> sent;
  for (const Message &message : instruction.messages)
    if (!message.receive && !message.direct)
      sent.push_back(
          {int64_t(message.slot), int64_t(message.slot + message.bytes)});
  for (const Message &message : instruction.messages) {
    if (!message.receive)
      continue;
    if (!message.direct)
      for (const Interval &range : sent)
        if (int64_t(message.slot) < range.hi &&
            range.lo < int64_t(message.slot + message.bytes))
          return makeError("receives into staging bytes [", message.slot, ", ",
                           message.slot + message.bytes, ") while [", range.lo,
                           ", ", range.hi, ") is being sent");
    DTRT_RETURN_IF_ERROR(receive(instruction, message));
  }
  return {};
}

//===----------------------------------------------------------------------===//
// The end of the program
//===----------------------------------------------------------------------===//

Status ProgramVerifier::finishStaging() {
  for (const auto &[start, staged] : staging)
    if (!staged.used)
      return makeError("staging bytes [", start, ", ", staged.end,
                       ") that instruction ", staged.instruction,
                       staged.relayed  ? " relays are never sent"
                       : staged.packed ? " packed are never sent"
                                       : " received are never unpacked");
  for (Arrival &arrival : arrivals) {
    uint64_t at = 0;
    for (const auto &[place, segment] : arrival.segments) {
      if (place != at)
        return makeError("the message that instruction ",
                         arrival.end.instruction,
                         " received is not unpacked once at byte ", at);
      content.add(*segment);
      at += segmentBytes(familyOf(*segment), *segment);
    }
    if (at != arrival.end.bytes)
      return makeError("instruction ", arrival.end.instruction, " received ",
                       arrival.end.bytes, " bytes from device ",
                       arrival.end.source, ", ", at, " are unpacked");
    arrival.end.content = content.finish();
    totals.receives.push_back(arrival.end);
  }
  return {};
}

Status ProgramVerifier::checkCoverage(uint32_t shard, unsigned state,
                                      int64_t real) {
  const ShardRecord &record = program.destination[shard];
  const Family &family = common.families[record.family];
  bool isFirst = together.firstOf(shard, uint64_t(1) << state) >> state & 1;
  if (isFirst)
    if (auto fault =
            findCoverFault(family, record, written(shard, state).list(), steps))
      return describeFault(shard, state, real, *fault);
  addBytes(totals.bytesDestination,
           uint64_t(real) *
               uint64_t(byteWidth(dtypeOf(family, state, Side::Destination))));
  return {};
}

Status ProgramVerifier::describeFault(uint32_t shard, unsigned state,
                                      int64_t real, const CoverFault &fault) {
  const ShardRecord &record = program.destination[shard];
  const Family &family = common.families[record.family];
  const BoxSet &boxes = written(shard, state);
  std::string what = "tensor '" + tensorOf(family, fault.element) +
                     "', state '" + shortened(family.states[state].name) +
                     "' of destination shard " + std::to_string(shard) + ": ";
  std::string element = "element [";
  for (unsigned dim = family.numLeading(); dim < family.rank(); ++dim)
    element += (dim > family.numLeading() ? ", " : "") +
               std::to_string(fault.element[dim]);
  element += "]";
  if (fault.times == 0) {
    int64_t all =
        numMembers(family, record) * elementsPerMember(family, record);
    int64_t data = dataVolume[shard * 64 + state];
    if (isPadding(family, fault.element))
      return makeError(what, boxes.volume() - data, " of ", all - real,
                       " padding elements are zeroed, ", element, " is not");
    return makeError(what, data, " of ", real, " elements are written, ",
                     element, " is not");
  }
  std::vector<uint32_t> writers;
  for (size_t box = 0; box < boxes.list().count() && writers.size() < 2; ++box)
    if (boxes.list().holds(box, fault.element.data()))
      writers.push_back(boxes.instruction(box));
  return makeError(what, "instructions ", writers.front(), " and ",
                   writers.back(), " write the same elements, ", element,
                   " for one");
}

static std::string textOf(const GpuParts &parts) {
  return " (of them " + std::to_string(parts.tables) + " of tables and " +
         std::to_string(parts.local + parts.network) + " of NCCL's buffers)";
}

Status ProgramVerifier::checkMemory() {
  const PlanSummary &summary = common.summary;
  if (program.stagingBytes < stagingUsed ||
      program.stagingBytes - stagingUsed >= kArenaSlack)
    return makeError("staging arena has ", program.stagingBytes,
                     " bytes, instructions use ", stagingUsed);
  // Frames of compressed links stand beside the arena.
  uint64_t frames = common.compression.bytesPerDevice(common.cluster);
  if (program.stagingBytes + frames > summary.stagingLimit)
    return makeError("needs ", program.stagingBytes + frames,
                     " bytes of staging, more than the limit of ",
                     summary.stagingLimit);
  uint64_t peak = peakBytes(common, program) + frames;
  GpuParts gpu;
  if (summary.overNccl) {
    auto parts = gpuPartsOf(common, program);
    DTRT_RETURN_IF_ERROR(parts);
    gpu = *parts;
  }
  if (summary.deviceLimit > 0 && peak + gpu.sum() > summary.deviceLimit)
    return makeError("needs ", peak + gpu.sum(), " bytes of memory",
                     summary.overNccl ? textOf(gpu) : "",
                     ", more than the limit of ", summary.deviceLimit);
  uint64_t source = 0, destination = 0;
  for (const ShardRecord &shard : program.source)
    source += shardBytes(common.families[shard.family], shard, Side::Source);
  for (const ShardRecord &shard : program.destination)
    destination +=
        shardBytes(common.families[shard.family], shard, Side::Destination);
  uint64_t larger = std::max(source, destination);
  uint64_t above = peak > larger ? peak - larger : 0;
  if (summary.mode == MemoryMode::Flat && above > summary.stagingLimit)
    return makeError("holds ", above, " bytes above the larger of source and ",
                     "destination, more than the limit of ",
                     summary.stagingLimit);
  totals.mostAbove = std::max(totals.mostAbove, above);
  totals.stagingPeak = std::max(totals.stagingPeak, program.stagingBytes);
  totals.devicePeak = std::max(totals.devicePeak, peak - frames + gpu.sum());
  totals.sourceMax = std::max(totals.sourceMax, source);
  totals.destinationMax = std::max(totals.destinationMax, destination);
  return {};
}

Status ProgramVerifier::finish() {
  DTRT_RETURN_IF_ERROR(lifetimes.checkOnce());
  DTRT_RETURN_IF_ERROR(checkSharedStorages(common, program));
  DTRT_RETURN_IF_ERROR(finishStaging());
  DTRT_RETURN_IF_ERROR(checkSlotLifetimes(common, program, steps));
  for (uint32_t shard = 0; shard < program.destination.size(); ++shard) {
    const ShardRecord &record = program.destination[shard];
    int64_t real = realElements(common.families[record.family], record);
    for (unsigned state : statesOf(record.states))
      DTRT_RETURN_IF_ERROR(checkCoverage(shard, state, real));
  }
  return checkMemory();
}

} // namespace dtrt
