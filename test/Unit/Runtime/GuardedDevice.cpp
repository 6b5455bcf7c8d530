//===- GuardedDevice.cpp - A device whose bytes have states ---------------===//

#include "GuardedDevice.h"

#include "dtrt/core/ArenaStorage.h"
#include "dtrt/core/CheckPattern.h"
#include "dtrt/format/Forwards.h"
#include "dtrt/format/LocalWork.h"

#include <algorithm>
#include <cstring>

namespace dtrt::test {

namespace {

constexpr int kPoison = 0xdb;

/// What an instruction reads, or writes, of shards.
std::vector<const Segment *> segmentsOf(const Instruction &instruction,
                                        bool writes) {
  std::vector<const Segment *> out;
  bool isCopy = instruction.op == Opcode::Copy;
  bool isPack = instruction.op == Opcode::Pack;
  if (instruction.op == Opcode::Relay)
    return out;
  for (size_t i = 0; i < instruction.segments.size(); ++i)
    if (writes == (isCopy ? i % 2 == 1 : !isPack))
      out.push_back(&instruction.segments[i]);
  for (const Message &message : instruction.messages)
    if (message.direct && message.receive == writes)
      out.push_back(&message.segment);
  return out;
}

/// Whether one reads what the other writes there.
bool reads(const Instruction &reader, const Instruction &writer) {
  for (const Segment *read : segmentsOf(reader, /*writes=*/false))
    for (const Segment *written : segmentsOf(writer, /*writes=*/true))
      if (readsWritten(*read, *written))
        return true;
  return false;
}

/// The instructions as they run: packs at random up to a group early, unpacks
/// up to a group late, unless one would read what the other has not written.
/// Copies of a wave are done when it is, at the latest.
std::vector<const Instruction *>
overlappedOrder(const std::vector<Instruction> &instructions,
                std::mt19937_64 &rng) {
  std::vector<const Instruction *> list;
  for (const Instruction &instruction : instructions)
    list.push_back(&instruction);
  for (size_t i = 1; i < list.size(); ++i) {
    if (list[i]->op != Opcode::Pack || rng() % 2)
      continue;
    for (size_t at = i; at > 0; --at) {
      Opcode before = list[at - 1]->op;
      if (before == Opcode::Create || before == Opcode::Release ||
          reads(*list[at], *list[at - 1]))
        break;
      std::swap(list[at], list[at - 1]);
      if (before == Opcode::Group)
        break;
    }
  }
  for (size_t i = list.size(); i-- > 0;) {
    if (!isCopiedBeside(*list[i]) || rng() % 2)
      continue;
    for (size_t at = i; at + 1 < list.size(); ++at) {
      if (reads(*list[at + 1], *list[at]))
        break; // a pack that is early
      std::swap(list[at], list[at + 1]);
      if (list[at]->op == Opcode::Group)
        break;
    }
  }
  for (size_t i = list.size(); i-- > 0;) {
    if (list[i]->op != Opcode::Unpack || rng() % 2)
      continue;
    for (size_t at = i; at + 1 < list.size(); ++at) {
      const Instruction &after = *list[at + 1];
      if (after.op != Opcode::Unpack && reads(after, *list[at]))
        break;
      std::swap(list[at], list[at + 1]);
      if (after.op == Opcode::Group)
        break;
    }
  }
  return list;
}

/// Calls visit(first byte, bytes) for each run of the box in a buffer.
template <typename Visit>
void forEachRun(const PreparedSegment &segment, const StatePart &part,
                std::byte *buffer, Visit visit) {
  int64_t width = byteWidth(part.type);
  size_t rank = segment.sizes.size();
  if (std::count(segment.sizes.begin(), segment.sizes.end(), 0) > 0)
    return;
  bool dense = rank > 0 && segment.strides.back() == 1;
  int64_t run = dense ? segment.sizes.back() : 1;
  std::vector<int64_t> at(rank);
  while (true) {
    int64_t element = 0;
    for (size_t d = 0; d < rank; ++d)
      element += at[d] * segment.strides[d];
    visit(buffer + part.offset + element * width, run * width);
    size_t d = dense ? rank - 1 : rank;
    while (d > 0 && ++at[d - 1] == segment.sizes[d - 1])
      at[--d] = 0;
    if (d == 0)
      return;
  }
}

} // namespace

template <typename... Parts>
Status GuardedDevice::corrupt(Parts &&...parts) const {
  std::string where = current ? opcodeName(current->op) : "end";
  return makeError("corrupt: device ", program.device, ", ", where, ": ",
                   std::forward<Parts>(parts)...);
}

Result<std::unique_ptr<GuardedDevice>>
GuardedDevice::create(const PlanCommon &common, RankProgram program,
                      std::mt19937_64 &rng) {
  std::unique_ptr<GuardedDevice> device(
      new GuardedDevice(common, std::move(program)));
  device->order = overlappedOrder(device->program.instructions, rng);
  DTRT_RETURN_IF_ERROR(device->allocate());
  return device;
}

Status GuardedDevice::allocate() {
  auto allocated = ArenaStorage::allocate(common, program);
  DTRT_RETURN_IF_ERROR(allocated);
  storage = std::move(*allocated);
  fillShards(*storage);
  for (const Instruction &instruction : program.instructions)
    if (instruction.op == Opcode::Create)
      for (const Segment &segment : instruction.segments)
        change(segment, /*isThere=*/false);
  staging.assign(program.stagingBytes, std::byte(kPoison));
  states.assign(program.stagingBytes, Idle);
  return {};
}

//===----------------------------------------------------------------------===//
// Shards
//===----------------------------------------------------------------------===//

/// Whether bytes of the box are not there: released, or not created yet.
bool GuardedDevice::isAbsent(const PreparedSegment &segment,
                             const StatePart &part, int64_t member,
                             std::byte *buffer) const {
  const ShardRecord &shard = storage->shards(segment.side)[segment.shard];
  unsigned state =
      statesOf(resolveDerived(common.families[shard.family],
                              uint64_t(1) << part.state, segment.side))
          .front();
  auto found = absent.find({segment.side, segment.shard, state, member});
  if (!buffer || found == absent.end())
    return !buffer;
  bool any = false;
  forEachRun(segment, part, buffer, [&](std::byte *first, int64_t bytes) {
    for (int64_t i = first - buffer; i < first - buffer + bytes; ++i)
      any |= found->second[size_t(i)];
  });
  return any;
}

Status GuardedDevice::read(const PreparedSegment &segment) {
  for (const StatePart &part : segment.parts)
    for (int64_t member : segment.members) {
      std::byte *buffer =
          storage->data(segment.side, segment.shard, part.state, member);
      if (isAbsent(segment, part, member, buffer))
        return corrupt("reads member ", member, " of shard ", segment.shard,
                       " after its release");
    }
  return {};
}

Status GuardedDevice::deliver(const PreparedSegment &segment) {
  for (const StatePart &part : segment.parts)
    for (int64_t member : segment.members) {
      std::byte *buffer =
          storage->data(segment.side, segment.shard, part.state, member);
      if (isAbsent(segment, part, member, buffer))
        return corrupt("writes member ", member, " of shard ", segment.shard,
                       " before it is created");
      std::vector<uint8_t> &counts =
          deliveries[{segment.shard, part.state, member}];
      counts.resize(
          storage->memberBytes(segment.side, segment.shard, part.state));
      bool twice = false;
      forEachRun(segment, part, buffer, [&](std::byte *first, int64_t bytes) {
        for (int64_t i = first - buffer; i < first - buffer + bytes; ++i)
          twice |= counts[i]++ > 0;
      });
      if (twice)
        return corrupt("delivers bytes of member ", member, " of shard ",
                       segment.shard, " a second time");
    }
  return {};
}

/// Storage comes, or goes: poisoned either way. A source stays, so that a late
/// read is seen and is no crash.
void GuardedDevice::change(const Segment &range, bool isThere) {
  const auto &shards = storage->shards(range.side);
  const Family &family = common.families[range.family];
  Interval elements = storageRange(family, range);
  for (unsigned state : statesOf(range.states))
    for (int64_t member : membersOf(family, shards[range.shard], range)) {
      int64_t width = byteWidth(dtypeOf(family, state, range.side));
      std::vector<bool> &flags =
          absent[{range.side, range.shard, state, member}];
      flags.resize(storage->memberBytes(range.side, range.shard, state));
      std::fill(flags.begin() + elements.lo * width,
                flags.begin() + elements.hi * width, !isThere);
      if (std::byte *buffer =
              storage->data(range.side, range.shard, state, member))
        memset(buffer + elements.lo * width, kPoison,
               size_t(elements.size() * width));
    }
}

Status GuardedDevice::copyLocal(const Instruction &instruction) {
  for (size_t i = 0; i + 1 < instruction.segments.size(); i += 2) {
    auto prepared = prepareCopy(common, program, instruction.segments[i],
                                program, instruction.segments[i + 1]);
    DTRT_RETURN_IF_ERROR(prepared);
    DTRT_RETURN_IF_ERROR(read(prepared->source));
    DTRT_RETURN_IF_ERROR(deliver(prepared->destination));
    DTRT_RETURN_IF_ERROR(copy(*prepared, *storage, *storage));
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Staging
//===----------------------------------------------------------------------===//

Status GuardedDevice::occupy(uint64_t slot, uint64_t bytes, State state) {
  if (slot + bytes > states.size())
    return corrupt("uses staging beyond the arena");
  for (uint64_t i = slot; i < slot + bytes; ++i)
    if (states[i] != Idle)
      return corrupt("overwrites staging byte ", i, ", which is ",
                     states[i] == Packed ? "packed and not sent"
                                         : "received and not unpacked");
  std::fill_n(states.begin() + int64_t(slot), bytes, state);
  std::fill_n(staging.begin() + int64_t(slot), bytes, std::byte(kPoison));
  return {};
}

Status GuardedDevice::expect(uint64_t slot, uint64_t bytes, State state) const {
  if (slot + bytes > states.size())
    return corrupt("uses staging beyond the arena");
  for (uint64_t i = slot; i < slot + bytes; ++i)
    if (states[i] != state)
      return corrupt("takes staging byte ", i, ", which nothing ",
                     state == Packed ? "packed" : "received");
  return {};
}

Status GuardedDevice::stage(const Instruction &instruction, bool isPack) {
  uint64_t at = instruction.slot;
  DTRT_RETURN_IF_ERROR(isPack ? occupy(at, instruction.bytes, Packed)
                              : expect(at, instruction.bytes, Received));
  for (const Segment &segment : instruction.segments) {
    auto prepared = prepareSegment(common, program, segment);
    DTRT_RETURN_IF_ERROR(prepared);
    DTRT_RETURN_IF_ERROR(isPack ? read(*prepared) : deliver(*prepared));
    DTRT_RETURN_IF_ERROR(
        isPack ? pack(*prepared, *storage, staging.data() + at)
               : unpack(*prepared, *storage, staging.data() + at));
    at += prepared->bytes;
  }
  if (!isPack)
    std::fill_n(states.begin() + int64_t(instruction.slot), instruction.bytes,
                Idle);
  return {};
}

/// What has come is to be sent, as it is.
Status GuardedDevice::relay(const Instruction &instruction) {
  DTRT_RETURN_IF_ERROR(expect(instruction.slot, instruction.bytes, Received));
  std::fill_n(states.begin() + int64_t(instruction.slot), instruction.bytes,
              Packed);
  return {};
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

Status GuardedDevice::post(const Instruction &group) {
  posted.clear();
  for (const Message &message : group.messages) {
    GuardedMessage out = {message.receive, message.peer, message.bytes,
                          message.slot,    nullptr,      nullptr};
    if (message.direct) {
      auto prepared = prepareSegment(common, program, message.segment);
      DTRT_RETURN_IF_ERROR(prepared);
      DTRT_RETURN_IF_ERROR(message.receive ? deliver(*prepared)
                                           : read(*prepared));
      auto data = contiguousData(*prepared, *storage);
      DTRT_RETURN_IF_ERROR(data);
      out.data = *data;
      out.direct = &message.segment;
    } else {
      DTRT_RETURN_IF_ERROR(message.receive
                               ? occupy(message.slot, message.bytes, Received)
                               : expect(message.slot, message.bytes, Packed));
      out.data = staging.data() + message.slot;
    }
    posted.push_back(out);
  }
  return {};
}

Status GuardedDevice::arrive(const GuardedMessage &from,
                             const GuardedMessage &to) {
  if (from.bytes != to.bytes)
    return corrupt("expects ", to.bytes, " bytes, found ", from.bytes);
  memcpy(to.data, from.data, to.bytes);
  return {};
}

Status GuardedDevice::endGroup() {
  for (const GuardedMessage &message : posted)
    if (!message.receive && !message.direct) {
      std::fill_n(states.begin() + int64_t(message.slot), message.bytes, Idle);
      memset(message.data, kPoison, message.bytes);
    }
  posted.clear();
  return {};
}

//===----------------------------------------------------------------------===//
// The program
//===----------------------------------------------------------------------===//

Status GuardedDevice::step(const Instruction &instruction) {
  switch (instruction.op) {
  case Opcode::Copy:
    return copyLocal(instruction);
  case Opcode::Zero:
    for (const Segment &segment : instruction.segments) {
      auto prepared = prepareSegment(common, program, segment);
      DTRT_RETURN_IF_ERROR(prepared);
      DTRT_RETURN_IF_ERROR(deliver(*prepared));
      DTRT_RETURN_IF_ERROR(fillPadding(*prepared, *storage));
    }
    return {};
  case Opcode::Create:
    for (const Segment &segment : instruction.segments) {
      DTRT_RETURN_IF_ERROR(storage->create(segment));
      change(segment, /*isThere=*/true);
    }
    return {};
  case Opcode::Release:
    for (const Segment &segment : instruction.segments)
      change(segment, /*isThere=*/false);
    return {};
  case Opcode::Pack:
    return stage(instruction, /*isPack=*/true);
  case Opcode::Unpack:
    return stage(instruction, /*isPack=*/false);
  case Opcode::Relay:
    return relay(instruction);
  case Opcode::Group:
    return post(instruction);
  }
  return makeError("unknown opcode");
}

Result<bool> GuardedDevice::runToGroup() {
  while (next < order.size()) {
    current = order[next++];
    DTRT_RETURN_IF_ERROR(step(*current));
    if (current->op == Opcode::Group && !posted.empty())
      return true;
  }
  current = nullptr;
  return false;
}

Status GuardedDevice::finish() const {
  if (next < order.size())
    return corrupt("has not ended");
  for (uint32_t s = 0; s < program.destination.size(); ++s) {
    for (unsigned state : statesOf(program.destination[s].states))
      for (int64_t m = 0; m < storage->members(Side::Destination, s); ++m) {
        uint64_t bytes = storage->memberBytes(Side::Destination, s, state);
        auto counts = deliveries.find({s, state, m});
        uint64_t arrived =
            counts == deliveries.end()
                ? 0
                : bytes - uint64_t(std::count(counts->second.begin(),
                                              counts->second.end(), 0));
        if (arrived != bytes)
          return corrupt(bytes - arrived, " bytes of member ", m, " of shard ",
                         s, " never arrive");
      }
    CheckReport report;
    checkDestination(*storage, s, report);
    if (report.mismatches > 0)
      return corrupt(report.mismatches, " wrong elements, ", report.first[0]);
  }
  return {};
}

} // namespace dtrt::test
