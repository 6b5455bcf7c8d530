//===- MemberLifetimes.cpp - When members come and go ---------------------===//

#include "MemberLifetimes.h"

#include "BoxSet.h"

#include "dtrt/ShardView.h"

namespace dtrt {

namespace {

/// Whether a lifetime segment names a member and state that `segment` touches.
/// Inner dims of a lifetime segment span the whole member, so comparing all
/// dims compares the leading ones.
bool touches(const Segment &lifetime, const Segment &segment) {
  if (!(lifetime.states & segment.states))
    return false;
  for (size_t dim = 0; dim < segment.offset.size(); ++dim)
    if (segment.offset[dim] >= lifetime.offset[dim] + lifetime.size[dim] ||
        lifetime.offset[dim] >= segment.offset[dim] + segment.size[dim])
      return false;
  return true;
}

bool isLifetime(const Instruction &instruction) {
  return instruction.op == Opcode::Create || instruction.op == Opcode::Release;
}

} // namespace

MemberLifetimes::MemberLifetimes(const RankProgram &program) {
  for (uint32_t i = 0; i < program.instructions.size(); ++i)
    if (isLifetime(program.instructions[i]))
      for (const Segment &segment : program.instructions[i].segments)
        events[{segment.side, segment.shard}].push_back({&segment, i});
}

const std::vector<MemberLifetimes::Event> *
MemberLifetimes::eventsOf(const Segment &segment) const {
  auto found = events.find({segment.side, segment.shard});
  return found == events.end() ? nullptr : &found->second;
}

std::optional<uint32_t>
MemberLifetimes::releasedBefore(const Segment &segment,
                                uint32_t instruction) const {
  if (const auto *list = eventsOf(segment))
    for (const Event &event : *list) {
      if (event.instruction >= instruction)
        break; // events are in program order
      if (touches(*event.segment, segment))
        return event.instruction;
    }
  return std::nullopt;
}

std::optional<uint32_t>
MemberLifetimes::createdAfter(const Segment &segment,
                              uint32_t instruction) const {
  if (const auto *list = eventsOf(segment))
    for (size_t i = list->size(); i-- > 0;) {
      const Event &event = (*list)[i];
      if (event.instruction <= instruction)
        break;
      if (touches(*event.segment, segment))
        return event.instruction;
    }
  return std::nullopt;
}

Status MemberLifetimes::checkOnce(const PlanCommon &common) const {
  for (const auto &[key, list] : events) {
    std::map<unsigned, BoxSet> byState;
    for (const Event &event : list)
      for (unsigned state : statesOf(event.segment->states)) {
        // An empty inner dim would hide that members overlap.
        std::vector<int64_t> size = event.segment->size;
        for (int64_t &extent : size)
          extent = extent > 0 ? extent : 1;
        byState[state].add(event.segment->offset, size, event.instruction);
      }
    for (const auto &[state, boxes] : byState) {
      auto pair = boxes.findOverlap();
      if (!pair)
        continue;
      const Family &family = common.families[list.front().segment->family];
      const int64_t *at = boxes.offset(pair->second);
      return makeError("tensor '", tensorOf(family, {at, at + family.rank()}),
                       "' state '", family.states[state].name, "' is ",
                       key.first == Side::Source ? "released" : "created",
                       " twice, by ", "instructions ",
                       boxes.instruction(pair->first), " and ",
                       boxes.instruction(pair->second));
    }
  }
  return {};
}

} // namespace dtrt
