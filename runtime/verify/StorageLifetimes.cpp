//===- StorageLifetimes.cpp - When storage comes and goes -----------------===//

#include "StorageLifetimes.h"

#include "dtrt/format/ShardView.h"
#include "dtrt/format/Text.h"

#include <algorithm>

namespace dtrt {

namespace {

bool isLifetime(const Instruction &instruction) {
  return instruction.op == Opcode::Create || instruction.op == Opcode::Release;
}

/// Calls fn(index) for every tuple of the leading dims, until fn says true.
template <typename Fn>
bool forEachMember(const Segment &segment, unsigned numLeading, Fn fn) {
  std::vector<int64_t> index(segment.offset.begin(),
                             segment.offset.begin() + numLeading);
  while (true) {
    if (fn(index))
      return true;
    unsigned dim = numLeading;
    while (dim > 0 && ++index[dim - 1] ==
                          segment.offset[dim - 1] + segment.size[dim - 1]) {
      --dim;
      index[dim] = segment.offset[dim];
    }
    if (dim == 0)
      return false;
  }
}

} // namespace

StorageLifetimes::StorageLifetimes(const PlanCommon &common,
                                   const RankProgram &program, Steps &steps)
    : common(common), program(program), steps(steps) {
  for (uint32_t i = 0; i < program.instructions.size(); ++i) {
    if (!isLifetime(program.instructions[i]))
      continue;
    for (const Segment &segment : program.instructions[i].segments) {
      const Family &family = common.families[segment.family];
      Event event = {storageRange(family, segment), i};
      for (unsigned state : statesOf(segment.states)) {
        Events &list = events[{segment.side, segment.shard, state}];
        forEachMember(segment, family.numLeading(), [&](const auto &member) {
          list[member].push_back(event);
          return !steps.take();
        });
      }
    }
  }
  for (auto &[key, list] : events)
    for (auto &[member, ranges] : list)
      std::sort(ranges.begin(), ranges.end(),
                [](const Event &a, const Event &b) {
                  return std::tie(a.range.lo, a.instruction) <
                         std::tie(b.range.lo, b.instruction);
                });
}

/// Calls fn(instruction) for what comes or goes of the storage that the box
/// spans, until fn says true.
template <typename Fn>
void StorageLifetimes::forEachEvent(const Segment &box, Fn fn) const {
  const Family &family = common.families[box.family];
  const auto &shards =
      box.side == Side::Source ? program.source : program.destination;
  Interval hull = storageHull(family, shards[box.shard], box);
  auto visit = [&](const std::vector<Event> &ranges) {
    // Ranges that no other overlaps end in the order in which they start.
    auto at = std::partition_point(
        ranges.begin(), ranges.end(),
        [&](const Event &event) { return event.range.hi <= hull.lo; });
    for (; at != ranges.end() && at->range.lo < hull.hi; ++at)
      if (!steps.take() || fn(at->instruction))
        return true;
    return false;
  };
  for (unsigned state :
       statesOf(resolveDerived(family, box.states, box.side))) {
    auto list = events.find({box.side, box.shard, state});
    if (list == events.end())
      continue;
    if (forEachMember(box, family.numLeading(), [&](const auto &member) {
          auto own = list->second.find(member);
          return !steps.take() ||
                 (own != list->second.end() && visit(own->second));
        }))
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
    for (const auto &[member, ranges] : list)
      for (size_t i = 1; i < ranges.size(); ++i)
        if (ranges[i].range.lo < ranges[i - 1].range.hi)
          return makeError("tensor '", tensorOf(family, member), "' state '",
                           shortened(family.states[state].name), "' is ",
                           side == Side::Source ? "released" : "created",
                           " twice, by instructions ",
                           ranges[i - 1].instruction, " and ",
                           ranges[i].instruction);
  }
  return {};
}

} // namespace dtrt
