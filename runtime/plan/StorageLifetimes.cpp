//===- StorageLifetimes.cpp - When storage comes and goes -----------------===//

#include "StorageLifetimes.h"

#include "BoxSet.h"

#include "dtrt/ShardView.h"

#include <algorithm>

namespace dtrt {

namespace {

bool isLifetime(const Instruction &instruction) {
  return instruction.op == Opcode::Create || instruction.op == Opcode::Release;
}

std::vector<int64_t> memberOf(const Family &family, const Segment &segment) {
  return {segment.offset.begin(), segment.offset.begin() + family.numLeading()};
}

} // namespace

StorageLifetimes::StorageLifetimes(const PlanCommon &common,
                                   const RankProgram &program)
    : common(common), program(program) {
  for (uint32_t i = 0; i < program.instructions.size(); ++i) {
    if (!isLifetime(program.instructions[i]))
      continue;
    for (const Segment &segment : program.instructions[i].segments) {
      const Family &family = common.families[segment.family];
      Event event = {storageRange(family, segment), i, &segment};
      for (unsigned state : statesOf(segment.states)) {
        Events &list = events[{segment.side, segment.shard, state}];
        if (segmentMembers(family, segment) == 1)
          list.ofMember[memberOf(family, segment)].push_back(event);
        else
          list.ofMany.push_back(event);
      }
    }
  }
  for (auto &[key, list] : events)
    for (auto &[member, ranges] : list.ofMember)
      std::sort(ranges.begin(), ranges.end(),
                [](const Event &a, const Event &b) {
                  return std::tie(a.range.lo, a.instruction) <
                         std::tie(b.range.lo, b.instruction);
                });
}

bool StorageLifetimes::sharesMembers(const Segment &a, const Segment &b) const {
  unsigned leading = common.families[a.family].numLeading();
  for (unsigned dim = 0; dim < leading; ++dim)
    if (a.offset[dim] >= b.offset[dim] + b.size[dim] ||
        b.offset[dim] >= a.offset[dim] + a.size[dim])
      return false;
  return true;
}

/// Calls fn(instruction) for what comes or goes of the storage that the box
/// spans, until fn says true.
template <typename Fn>
void StorageLifetimes::forEachEvent(const Segment &box, Fn fn) const {
  const Family &family = common.families[box.family];
  const auto &shards =
      box.side == Side::Source ? program.source : program.destination;
  Range hull = storageHull(family, shards[box.shard], box);
  auto visit = [&](const std::vector<Event> &ranges) {
    // Ranges that no other overlaps end in the order in which they start.
    auto at = std::partition_point(
        ranges.begin(), ranges.end(),
        [&](const Event &event) { return event.range.hi <= hull.lo; });
    for (; at != ranges.end() && at->range.lo < hull.hi; ++at)
      if (fn(at->instruction))
        return true;
    return false;
  };
  for (unsigned state : statesOf(box.states)) {
    uint32_t shard = box.shard;
    if (box.side == Side::Source && !family.states[state].inSource) {
      shard = storageOwner(family, shards, shard, state).value_or(shard);
      state = unsigned(family.states[state].madeFrom);
    }
    auto found = events.find({box.side, shard, state});
    if (found == events.end())
      continue;
    const Events &list = found->second;
    if (segmentMembers(family, box) == 1) {
      auto own = list.ofMember.find(memberOf(family, box));
      if (own != list.ofMember.end() && visit(own->second))
        return;
    } else {
      for (const auto &[member, ranges] : list.ofMember)
        if (sharesMembers(*ranges.front().segment, box) && visit(ranges))
          return;
    }
    for (const Event &event : list.ofMany)
      if (event.range.lo < hull.hi && hull.lo < event.range.hi &&
          sharesMembers(*event.segment, box) && fn(event.instruction))
        return;
  }
}

std::optional<uint32_t>
StorageLifetimes::releasedBefore(const Segment &box,
                                 uint32_t instruction) const {
  std::optional<uint32_t> found;
  forEachEvent(box, [&](uint32_t event) {
    if (event < instruction)
      found = event;
    return found.has_value();
  });
  return found;
}

std::optional<uint32_t>
StorageLifetimes::createdAfter(const Segment &box, uint32_t instruction) const {
  std::optional<uint32_t> found;
  forEachEvent(box, [&](uint32_t event) {
    if (event > instruction)
      found = event;
    return found.has_value();
  });
  return found;
}

Status StorageLifetimes::checkOnce() const {
  for (const auto &[key, list] : events) {
    auto [side, shard, state] = key;
    const auto &shards =
        side == Side::Source ? program.source : program.destination;
    const Family &family = common.families[shards[shard].family];
    BoxSet boxes;
    auto add = [&](const Event &event) {
      size_t dims = std::min(family.numLeading() + 1, family.rank());
      const auto &offset = event.segment->offset, &size = event.segment->size;
      boxes.add({offset.begin(), offset.begin() + dims},
                {size.begin(), size.begin() + dims}, event.instruction);
    };
    for (const auto &[member, ranges] : list.ofMember)
      std::for_each(ranges.begin(), ranges.end(), add);
    std::for_each(list.ofMany.begin(), list.ofMany.end(), add);
    auto pair = boxes.findOverlap();
    if (!pair)
      continue;
    const int64_t *at = boxes.offset(pair->second);
    std::vector<int64_t> member(at, at + family.numLeading());
    return makeError("tensor '", tensorOf(family, member), "' state '",
                     family.states[state].name, "' is ",
                     side == Side::Source ? "released" : "created",
                     " twice, by ", "instructions ",
                     boxes.instruction(pair->first), " and ",
                     boxes.instruction(pair->second));
  }
  return {};
}

} // namespace dtrt
