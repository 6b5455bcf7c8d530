//===- CopyHistory.cpp - Who has a copy of what, and when -----------------===//

#include "CopyHistory.h"

#include "ShardBoxes.h"
#include "dtrt/format/ShardView.h"

#include <algorithm>
#include <map>

namespace dtrt {

namespace {

/// Numbers of 8 bytes that boxes and events may take: some for any plan, some
/// per item of a program, and never more than a machine can spare. Plans of the
/// compiler take ten to twenty per item.
constexpr uint64_t kRoomAtLeast = 1 << 21, kRoomPerItem = 64;
constexpr uint64_t kRoomAtMost = 1 << 27;

/// Looks at events, of all boxes that are cut; plans of the compiler take
/// twenty to thirty per item of their programs.
constexpr uint64_t kLooksAtLeast = 1 << 22, kLooksPerItem = 256;
constexpr uint64_t kLooksAtMost = 1 << 30;

uint64_t numbersPerBox(size_t rank) {
  return 2 * rank + sizeof(CopyEvent) / sizeof(int64_t);
}

/// The elements that a storage segment names, as a shard of their own.
ShardRecord storageAsShard(const Family &family, const ShardRecord &shard,
                           const Segment &segment) {
  ShardRecord named = shard;
  for (unsigned dim = 0; dim < family.numLeading(); ++dim)
    named.dims[dim] = {
        {segment.offset[dim], segment.offset[dim] + segment.size[dim]}};
  Interval range = storageRange(family, segment);
  int64_t first = shard.flat ? shard.range.lo : 0;
  named.flat = true;
  named.range = {first + range.lo, first + range.hi};
  return named;
}

/// Staging ranges, of which a new one takes the place of those it touches.
template <typename Value> class StagedRanges {
public:
  void set(uint64_t begin, uint64_t end, Value value) {
    auto first = ranges.upper_bound(begin);
    if (first != ranges.begin() && std::prev(first)->second.first > begin)
      --first;
    ranges.erase(first, ranges.lower_bound(end));
    ranges[begin] = {end, value};
  }
  /// The range that holds [begin, end); null: none.
  const Value *find(uint64_t begin, uint64_t end) const {
    auto at = ranges.upper_bound(begin);
    if (at == ranges.begin() || (--at)->second.first < end)
      return nullptr;
    return &at->second.second;
  }
  /// Calls fn(value) for those that touch [begin, end), while it says true.
  template <typename Fn> void visit(uint64_t begin, uint64_t end, Fn fn) const {
    auto at = ranges.upper_bound(begin);
    if (at != ranges.begin() && std::prev(at)->second.first > begin)
      --at;
    for (; at != ranges.end() && at->first < end; ++at)
      if (!fn(at->second.second))
        return;
  }

private:
  std::map<uint64_t, std::pair<uint64_t, Value>> ranges; // by begin
};

} // namespace

/// Reads one program in its order.
class CopyReader {
public:
  CopyReader(CopyHistory &history, const RankProgram &program, Steps &steps)
      : history(history), program(program), steps(steps) {}

  Status read() {
    for (uint32_t shard = 0; shard < program.source.size(); ++shard)
      DTRT_RETURN_IF_ERROR(hold(shard));
    for (const Instruction &instruction : program.instructions) {
      DTRT_RETURN_IF_ERROR(step(instruction));
      DTRT_RETURN_IF_ERROR(steps.status());
    }
    return {};
  }

private:
  using Kind = CopyEvent::Kind;
  struct EventName {
    uint32_t family = 0;
    size_t event = 0;
  };

  CopyEvent event(Kind kind, uint64_t states, uint32_t shard = 0) const {
    return {kind, program.device, shard, states, now, kForever};
  }
  const Family &familyOf(uint32_t family) const {
    return history.common.families[family];
  }

  Status addShard(const ShardRecord &shard, const CopyEvent &event) {
    const Family &family = familyOf(shard.family);
    FamilyHistory &own = history.histories[shard.family];
    size_t before = own.boxes.count();
    Steps boxes(history.boxesLeft(family.rank()) + 2);
    appendBoxes(family, shard, own.boxes, boxes);
    own.events.resize(own.boxes.count(), event);
    size_t added = own.boxes.count() - before;
    steps.take(added + 1);
    return history.charge(added, family.rank());
  }
  Status addBox(const Segment &segment, const CopyEvent &event) {
    FamilyHistory &own = history.histories[segment.family];
    own.boxes.add(segment.offset, segment.size);
    own.events.push_back(event);
    steps.take();
    return history.charge(1, segment.size.size());
  }

  /// What the source reads from another state has no bytes of its own.
  uint64_t stored(uint32_t family, uint64_t states) const {
    return storedStates(familyOf(family), states, Side::Source);
  }
  Status hold(uint32_t index) {
    const ShardRecord &shard = program.source[index];
    CopyEvent held =
        event(Kind::Held, stored(shard.family, shard.states), index);
    held.begin = kAtStart;
    return addShard(shard, held);
  }
  Status release(const Segment &segment) {
    uint64_t states = stored(segment.family, segment.states);
    if (states == 0)
      return {};
    history.noteRelease(now, program.device);
    return addShard(storageAsShard(familyOf(segment.family),
                                   program.source[segment.shard], segment),
                    event(Kind::Released, states, segment.shard));
  }

  Status step(const Instruction &instruction) {
    switch (instruction.op) {
    case Opcode::Copy:
      for (size_t i = 1; i < instruction.segments.size(); i += 2)
        DTRT_RETURN_IF_ERROR(
            addBox(instruction.segments[i],
                   event(Kind::Brought, instruction.segments[i].states)));
      return {};
    case Opcode::Zero:
    case Opcode::Create:
      return {};
    case Opcode::Release:
      for (const Segment &segment : instruction.segments)
        DTRT_RETURN_IF_ERROR(release(segment));
      return {};
    case Opcode::Pack:
      return pack(instruction);
    case Opcode::Group:
      return group(instruction);
    case Opcode::Unpack:
      return unpack(instruction);
    case Opcode::Relay:
      return relay(instruction);
    }
    return {};
  }

  /// What was packed from the destination stays there too.
  Status pack(const Instruction &instruction) {
    uint64_t at = instruction.slot;
    for (const Segment &segment : instruction.segments) {
      uint64_t end = at + segmentBytes(familyOf(segment.family), segment);
      if (segment.side == Side::Source) {
        packed.set(
            at, end,
            {segment.family, history.histories[segment.family].events.size()});
        DTRT_RETURN_IF_ERROR(
            addBox(segment, event(Kind::Staged, segment.states)));
      }
      at = end;
    }
    return {};
  }

  /// What is sent is at the receiver then; what comes is here.
  Status group(const Instruction &instruction) {
    now = instruction.wave;
    history.waves.push_back(now);
    for (const Message &message : instruction.messages)
      if (!message.receive && !message.direct)
        packed.visit(message.slot, message.slot + message.bytes,
                     [&](const EventName &name) {
                       history.histories[name.family].events[name.event].end =
                           now;
                       return steps.take();
                     });
    for (const Message &message : instruction.messages) {
      if (!message.receive)
        continue;
      if (message.direct)
        DTRT_RETURN_IF_ERROR(addBox(
            message.segment, event(Kind::Brought, message.segment.states)));
      else
        arrived.set(message.slot, message.slot + message.bytes, now);
    }
    return {};
  }

  Status unpack(const Instruction &instruction) {
    uint64_t at = instruction.slot;
    for (const Segment &segment : instruction.segments) {
      uint64_t end = at + segmentBytes(familyOf(segment.family), segment);
      const Moment *since = arrived.find(at, end);
      if (!since)
        return makeError("device ", program.device, " unpacks bytes [", at,
                         ", ", end, ") that no message brought");
      CopyEvent brought = event(Kind::Brought, segment.states);
      brought.begin = *since;
      DTRT_RETURN_IF_ERROR(addBox(segment, brought));
      at = end;
    }
    return {};
  }

  /// What came to be sent on is here until then.
  Status relay(const Instruction &instruction) {
    uint64_t at = instruction.slot;
    for (const Segment &segment : instruction.segments) {
      uint64_t end = at + segmentBytes(familyOf(segment.family), segment);
      const Moment *since = arrived.find(at, end);
      if (!since)
        return makeError("device ", program.device, " relays bytes [", at, ", ",
                         end, ") that no message brought");
      packed.set(
          at, end,
          {segment.family, history.histories[segment.family].events.size()});
      CopyEvent staged = event(Kind::Staged, segment.states);
      staged.begin = *since;
      DTRT_RETURN_IF_ERROR(addBox(segment, staged));
      at = end;
    }
    return {};
  }

  CopyHistory &history;
  const RankProgram &program;
  Steps &steps;
  Moment now = kBeforeWaves;
  StagedRanges<EventName> packed; // from the source
  StagedRanges<Moment> arrived;
};

Status CopyHistory::add(const RankProgram &program, Steps &steps) {
  items += Steps::itemsOf(program);
  room = std::min(kRoomAtLeast + kRoomPerItem * items, kRoomAtMost);
  return CopyReader(*this, program, steps).read();
}

Steps CopyHistory::cuttingSteps() const {
  return Steps(std::min(kLooksAtLeast + kLooksPerItem * items, kLooksAtMost));
}

std::vector<Moment> CopyHistory::waveMoments() const {
  std::vector<Moment> sorted = waves;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return sorted;
}

void CopyHistory::noteRelease(Moment moment, uint32_t device) {
  if (!firstRelease ||
      std::pair(moment, device) < std::pair(*firstRelease, releasingDevice)) {
    firstRelease = moment;
    releasingDevice = device;
  }
}

uint64_t CopyHistory::boxesLeft(size_t rank) const {
  return (room - std::min(room, used)) / numbersPerBox(rank);
}

Status CopyHistory::charge(uint64_t boxes, size_t rank) {
  used += boxes * numbersPerBox(rank);
  if (used <= room)
    return {};
  return makeError("takes more than ", room, " numbers to tell");
}

} // namespace dtrt
