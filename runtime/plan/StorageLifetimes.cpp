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

/// Segments of at most so many members are looked up member by member, and at
/// most so many members in all: a damaged plan may name any number.
constexpr int64_t kFewMembers = 256;
constexpr int64_t kMostMembers = 1 << 24;

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
                                   const RankProgram &program)
    : common(common), program(program) {
  int64_t members = 0;
  for (uint32_t i = 0; i < program.instructions.size(); ++i) {
    if (!isLifetime(program.instructions[i]))
      continue;
    for (const Segment &segment : program.instructions[i].segments) {
      const Family &family = common.families[segment.family];
      Event event = {storageRange(family, segment), i, &segment};
      for (unsigned state : statesOf(segment.states)) {
        Events &list = events[{segment.side, segment.shard, state}];
        list.all.push_back(event);
        int64_t count = segmentMembers(family, segment);
        if (count > kFewMembers || (members += count) > kMostMembers)
          list.ofMany.push_back(event);
        else
          forEachMember(segment, family.numLeading(), [&](const auto &member) {
            list.ofMember[member].push_back(event);
            return false;
          });
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

static bool holds(const Segment &segment, const std::vector<int64_t> &member) {
  for (size_t dim = 0; dim < member.size(); ++dim)
    if (member[dim] < segment.offset[dim] ||
        member[dim] >= segment.offset[dim] + segment.size[dim])
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
  for (unsigned state : statesOf(storingStates(family, box.states, box.side))) {
    auto lists = events.find({box.side, box.shard, state});
    if (lists == events.end())
      continue;
    const Events &list = lists->second;
    bool found = false;
    if (segmentMembers(family, box) <= kFewMembers)
      found = forEachMember(box, family.numLeading(), [&](const auto &member) {
        auto own = list.ofMember.find(member);
        return own != list.ofMember.end() && visit(own->second);
      });
    else
      for (const auto &[member, ranges] : list.ofMember)
        found = found || (holds(box, member) && visit(ranges));
    if (found)
      return;
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
    std::for_each(list.all.begin(), list.all.end(), add);
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
