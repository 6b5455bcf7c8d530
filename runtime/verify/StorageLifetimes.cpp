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

/// Calls fn(number) for every member that the segment names, which counts them
/// row-major among the family's, until fn says true.
template <typename Fn>
bool forEachMember(const Family &family, const Segment &segment, Fn fn,
                   unsigned dim = 0, int64_t before = 0) {
  if (dim == family.numLeading())
    return fn(before);
  int64_t first = before * family.leading[dim].count + segment.offset[dim];
  for (int64_t i = 0; i < segment.size[dim]; ++i)
    if (forEachMember(family, segment, fn, dim + 1, first + i))
      return true;
  return false;
}

/// The index, per leading dim, of a member.
std::vector<int64_t> indexOf(const Family &family, int64_t member) {
  std::vector<int64_t> index(family.numLeading());
  for (size_t dim = index.size(); dim-- > 0;) {
    index[dim] = member % family.leading[dim].count;
    member /= family.leading[dim].count;
  }
  return index;
}

} // namespace

//===----------------------------------------------------------------------===//
// Events of a shard
//===----------------------------------------------------------------------===//

StorageLifetimes::Events::Run StorageLifetimes::Events::of(size_t at) const {
  return {events.data() + (at > 0 ? ends[at - 1] : 0),
          events.data() + ends[at]};
}

StorageLifetimes::Events::Run
StorageLifetimes::Events::find(int64_t member, size_t &next) const {
  if (next < numMembers() && members[next] == member)
    return of(next++);
  auto found = std::lower_bound(members.begin(), members.end(), member);
  if (found == members.end() || *found != member)
    return {nullptr, nullptr};
  next = size_t(found - members.begin()) + 1;
  return of(next - 1);
}

void StorageLifetimes::Events::add(int64_t member, const Event &event) {
  added.push_back({member, event});
}

void StorageLifetimes::Events::sort() {
  std::sort(added.begin(), added.end(), [](const Entry &a, const Entry &b) {
    return std::tie(a.member, a.event.range.lo, a.event.instruction) <
           std::tie(b.member, b.event.range.lo, b.event.instruction);
  });
  events.reserve(added.size());
  for (const Entry &entry : added) {
    if (members.empty() || members.back() != entry.member) {
      members.push_back(entry.member);
      ends.push_back(0);
    }
    events.push_back(entry.event);
    ends.back() = events.size();
  }
  added = {};
}

//===----------------------------------------------------------------------===//

StorageLifetimes::StorageLifetimes(const PlanCommon &common,
                                   const RankProgram &program, Steps &steps)
    : common(common), program(program), steps(steps),
      together{StateGroups(program.destination), StateGroups(program.source)} {
  for (const Instruction &instruction : program.instructions)
    if (isLifetime(instruction))
      for (const Segment &segment : instruction.segments)
        together[segment.side == Side::Source].add(segment);
  for (uint32_t i = 0; i < program.instructions.size(); ++i) {
    if (!isLifetime(program.instructions[i]))
      continue;
    for (const Segment &segment : program.instructions[i].segments) {
      const Family &family = common.families[segment.family];
      Event event = {storageRange(family, segment), i};
      for (unsigned state :
           statesOf(togetherOn(segment.side)
                        .firstOf(segment.shard, segment.states))) {
        Events &list = events[{segment.side, segment.shard, state}];
        forEachMember(family, segment, [&](int64_t member) {
          list.add(member, event);
          return !steps.take();
        });
      }
    }
  }
  for (auto &[key, list] : events)
    list.sort();
}

/// Calls fn(instruction) for what comes or goes of the storage that the box
/// spans, until fn says true.
template <typename Fn>
void StorageLifetimes::forEachEvent(const Segment &box, Fn fn) const {
  if (events.empty()) // as in every plan of mode rollback
    return;
  const Family &family = common.families[box.family];
  const auto &shards =
      box.side == Side::Source ? program.source : program.destination;
  Interval hull = storageHull(family, shards[box.shard], box);
  auto visit = [&](Events::Run ranges) {
    // Ranges that no other overlaps end in the order in which they start.
    const Event *at = std::partition_point(
        ranges.first, ranges.second,
        [&](const Event &event) { return event.range.hi <= hull.lo; });
    for (; at != ranges.second && at->range.lo < hull.hi; ++at)
      if (!steps.take() || fn(at->instruction))
        return true;
    return false;
  };
  uint64_t states = resolveDerived(family, box.states, box.side);
  for (unsigned state :
       statesOf(togetherOn(box.side).firstOf(box.shard, states))) {
    auto list = events.find({box.side, box.shard, state});
    if (list == events.end())
      continue;
    size_t next = 0;
    if (forEachMember(family, box, [&](int64_t member) {
          return !steps.take() || visit(list->second.find(member, next));
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
    for (size_t i = 0; i < list.numMembers(); ++i) {
      auto [first, end] = list.of(i);
      for (const Event *at = first; at + 1 < end; ++at)
        if (at[1].range.lo < at->range.hi)
          return makeError(
              "tensor '", tensorOf(family, indexOf(family, list.members[i])),
              "' state '", shortened(family.states[state].name), "' is ",
              side == Side::Source ? "released" : "created",
              " twice, by instructions ", at->instruction, " and ",
              at[1].instruction);
    }
  }
  return {};
}

} // namespace dtrt
