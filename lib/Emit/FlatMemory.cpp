//===- FlatMemory.cpp - Programs that free as they go ---------------------===//

#include "dt/Emit/FlatMemory.h"

#include "dt/Geometry/Painted.h"
#include "dtrt/ShardView.h"

#include <algorithm>
#include <tuple>

using namespace dt;
using dtrt::Instruction;
using dtrt::Opcode;
using dtrt::Range;
using dtrt::Segment;
using dtrt::Side;

namespace {

/// States of one shard that have elements of one width: their pages hold the
/// same elements.
struct StateGroup {
  uint64_t states = 0;
  int64_t width = 0;
};

/// An instruction touches elements of one member's buffers.
struct Touch {
  Side side;
  uint32_t shard;
  uint32_t group; // of the shard's states
  int64_t member; // position in the shard
  uint32_t instruction;
  Interval elements; // whole pages
};

/// Storage that comes before, or goes after, an instruction.
struct Event {
  uint32_t instruction;
  Side side;
  uint32_t shard;
  uint32_t group;
  Interval elements;
  int64_t member;

  auto key() const {
    return std::make_tuple(instruction, side, shard, group, elements.lo,
                           elements.hi, member);
  }
};

class Flattener {
public:
  Flattener(const std::vector<dtrt::Family> &families, int64_t pageBytes,
            dtrt::RankProgram &program)
      : families(families), pageBytes(pageBytes), program(program) {}
  uint64_t run();

private:
  const std::vector<dtrt::ShardRecord> &shardsOf(Side side) const {
    return side == Side::Source ? program.source : program.destination;
  }
  void orderLocalWork();
  void groupStates(Side side);
  void touchAll();
  void touch(const Segment &segment, uint32_t instruction);
  void touchUnread();
  void findEvents();
  void findEvents(const Touch *first, const Touch *last);
  void emitEvents(Opcode op, const Event *first, const Event *last);
  Segment segmentOf(const Event &event) const;
  void emit(Instruction instruction);

  const std::vector<dtrt::Family> &families;
  int64_t pageBytes;
  dtrt::RankProgram &program;
  std::vector<std::vector<StateGroup>> groups[2]; // by side and shard
  std::vector<Touch> touches;
  std::vector<Event> creates, releases; // by instruction
  std::vector<Instruction> out;
  uint64_t live = 0, peak = 0;
};

/// Every copied box is an instruction of its own, padding is zeroed last. The
/// first instruction stands for the start of the program.
void Flattener::orderLocalWork() {
  std::vector<Instruction> ordered(1), zeros;
  for (Instruction &instruction : program.instructions) {
    if (instruction.op == Opcode::Zero) {
      zeros.push_back(std::move(instruction));
      continue;
    }
    if (instruction.op != Opcode::Copy) {
      ordered.push_back(std::move(instruction));
      continue;
    }
    for (size_t i = 0; i < instruction.segments.size(); i += 2) {
      ordered.emplace_back();
      ordered.back().segments = {std::move(instruction.segments[i]),
                                 std::move(instruction.segments[i + 1])};
    }
  }
  for (Instruction &zero : zeros)
    ordered.push_back(std::move(zero));
  program.instructions = std::move(ordered);
}

void Flattener::groupStates(Side side) {
  for (const dtrt::ShardRecord &shard : shardsOf(side)) {
    const dtrt::Family &family = families[shard.family];
    std::vector<StateGroup> &list = groups[size_t(side)].emplace_back();
    for (unsigned state :
         dtrt::statesOf(storedStates(family, shard.states, side))) {
      int64_t width = byteWidth(dtypeOf(family, state, side));
      auto same =
          std::find_if(list.begin(), list.end(), [&](const StateGroup &group) {
            return group.width == width;
          });
      if (same == list.end())
        same = list.insert(list.end(), {0, width});
      same->states |= uint64_t(1) << state;
    }
  }
}

/// Destination storage that is read was written before.
void Flattener::touch(const Segment &segment, uint32_t instruction) {
  uint32_t shard = segment.shard;
  const dtrt::ShardRecord &record = shardsOf(segment.side)[shard];
  const dtrt::Family &family = families[segment.family];
  uint64_t states = storingStates(family, segment.states, segment.side);
  Range hull = storageHull(family, record, segment);
  int64_t elements = elementsPerMember(family, record);
  const std::vector<StateGroup> &list = groups[size_t(segment.side)][shard];
  for (uint32_t group = 0; group < list.size(); ++group) {
    if (!(list[group].states & states))
      continue;
    int64_t page = std::max<int64_t>(1, pageBytes / list[group].width);
    Interval whole = wholePages({hull.lo, hull.hi}, page, elements);
    for (int64_t member : membersOf(family, record, segment))
      touches.push_back(
          {segment.side, shard, group, member, instruction, whole});
  }
}

void Flattener::touchAll() {
  for (uint32_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction &instruction = program.instructions[i];
    for (const Segment &segment : instruction.segments)
      touch(segment, i);
    for (const dtrt::Message &message : instruction.messages)
      if (message.direct)
        touch(message.segment, i);
  }
}

/// Source storage that nobody reads goes at the start.
void Flattener::touchUnread() {
  for (uint32_t shard = 0; shard < program.source.size(); ++shard) {
    const dtrt::ShardRecord &record = program.source[shard];
    const dtrt::Family &family = families[record.family];
    int64_t elements = elementsPerMember(family, record);
    for (uint32_t group = 0;
         elements > 0 && group < groups[size_t(Side::Source)][shard].size();
         ++group)
      for (int64_t member = 0; member < numMembers(family, record); ++member)
        touches.push_back(
            {Side::Source, shard, group, member, 0, {0, elements}});
  }
}

/// Of the touches of one member's buffers, the first that creates and the last
/// that releases each page.
void Flattener::findEvents(const Touch *first, const Touch *last) {
  Painted painted;
  bool source = first->side == Side::Source;
  auto note = [&](const Touch &touch) {
    painted.add(touch.elements, [&](Interval part) {
      (source ? releases : creates)
          .push_back({touch.instruction, touch.side, touch.shard, touch.group,
                      part, touch.member});
    });
  };
  if (source)
    for (const Touch *touch = last; touch-- != first;)
      note(*touch);
  else
    std::for_each(first, last, note);
}

void Flattener::findEvents() {
  auto buffer = [](const Touch &touch) {
    return std::make_tuple(touch.side, touch.shard, touch.group, touch.member);
  };
  std::sort(touches.begin(), touches.end(),
            [&](const Touch &a, const Touch &b) {
              return std::make_tuple(buffer(a), a.instruction, a.elements.lo,
                                     a.elements.hi) <
                     std::make_tuple(buffer(b), b.instruction, b.elements.lo,
                                     b.elements.hi);
            });
  for (size_t first = 0, last = 0; first < touches.size(); first = last) {
    while (last < touches.size() &&
           buffer(touches[last]) == buffer(touches[first]))
      ++last;
    findEvents(&touches[first], touches.data() + last);
  }
  for (std::vector<Event> *events : {&creates, &releases})
    std::sort(events->begin(), events->end(),
              [](const Event &a, const Event &b) { return a.key() < b.key(); });
}

Segment Flattener::segmentOf(const Event &event) const {
  const dtrt::ShardRecord &shard = shardsOf(event.side)[event.shard];
  const dtrt::Family &family = families[shard.family];
  Segment out;
  out.family = shard.family;
  out.states = groups[size_t(event.side)][event.shard][event.group].states;
  out.side = event.side;
  out.shard = event.shard;
  out.offset = memberIndex(family, shard, event.member);
  out.size.assign(out.offset.size(), 1);
  out.offset.resize(family.rank());
  out.size.resize(family.rank());
  return storageSegment(family, out, {event.elements.lo, event.elements.hi});
}

/// Members whose last index counts up become one segment.
void Flattener::emitEvents(Opcode op, const Event *first, const Event *last) {
  Instruction instruction;
  instruction.op = op;
  for (const Event *event = first; event != last; ++event) {
    Segment next = segmentOf(*event);
    const dtrt::Family &family = families[next.family];
    if (!instruction.segments.empty() && family.numLeading() > 0) {
      Segment &before = instruction.segments.back();
      unsigned dim = family.numLeading() - 1;
      Segment follows = next;
      follows.offset[dim] = before.offset[dim];
      follows.size[dim] = before.size[dim];
      const auto &intervals = shardsOf(event->side)[event->shard].dims[dim];
      bool together =
          std::any_of(intervals.begin(), intervals.end(), [&](Range interval) {
            return interval.lo <= before.offset[dim] &&
                   next.offset[dim] < interval.hi;
          });
      if (together && next.family == before.family &&
          next.side == before.side && next.shard == before.shard &&
          next.states == before.states && follows.offset == before.offset &&
          follows.size == before.size &&
          next.offset[dim] == before.offset[dim] + before.size[dim]) {
        ++before.size[dim];
        continue;
      }
    }
    instruction.segments.push_back(std::move(next));
  }
  if (!instruction.segments.empty())
    emit(std::move(instruction));
}

/// Appends to the last instruction when that is the same kind of local work.
void Flattener::emit(Instruction instruction) {
  for (const Segment &segment : instruction.segments) {
    if (instruction.op == Opcode::Create)
      live += storageBytes(families[segment.family], segment);
    if (instruction.op == Opcode::Release)
      live -= storageBytes(families[segment.family], segment);
  }
  peak = std::max(peak, live);
  bool local = instruction.op == Opcode::Create ||
               instruction.op == Opcode::Release ||
               instruction.op == Opcode::Copy || instruction.op == Opcode::Zero;
  // What is made from another state is read where other copies wrote it.
  bool together =
      local && !out.empty() && out.back().op == instruction.op &&
      (instruction.op != Opcode::Copy ||
       out.back().segments.front().side == instruction.segments.front().side);
  if (!together) {
    out.push_back(std::move(instruction));
    return;
  }
  for (Segment &segment : instruction.segments)
    out.back().segments.push_back(std::move(segment));
}

uint64_t Flattener::run() {
  orderLocalWork();
  groupStates(Side::Source);
  groupStates(Side::Destination);
  touchAll();
  touchUnread();
  findEvents();
  for (const dtrt::ShardRecord &shard : program.source)
    live += shardBytes(families[shard.family], shard, Side::Source);
  peak = live;
  const Event *create = creates.data(), *release = releases.data();
  for (uint32_t i = 0; i < program.instructions.size(); ++i) {
    auto until = [i](const Event *from, const std::vector<Event> &all) {
      while (from != all.data() + all.size() && from->instruction == i)
        ++from;
      return from;
    };
    const Event *created = until(create, creates);
    emitEvents(Opcode::Create, create, created);
    create = created;
    if (i > 0)
      emit(std::move(program.instructions[i]));
    const Event *released = until(release, releases);
    emitEvents(Opcode::Release, release, released);
    release = released;
  }
  program.instructions = std::move(out);
  return peak + program.stagingBytes;
}

} // namespace

uint64_t dt::makeFlat(const std::vector<dtrt::Family> &families,
                      int64_t pageBytes, dtrt::RankProgram &program) {
  return Flattener(families, pageBytes, program).run();
}
