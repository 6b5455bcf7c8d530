//===- StorageLifetimes.cpp - When storage comes and goes -----------------===//

#include "StorageLifetimes.h"

#include "dtrt/format/ShardView.h"
#include "dtrt/format/Text.h"

#include <algorithm>
#include <numeric>

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

//===----------------------------------------------------------------------===//
// Events of a shard
//===----------------------------------------------------------------------===//

std::vector<int64_t> StorageLifetimes::Events::member(size_t at) const {
  auto first = members.begin() + ptrdiff_t(at * rank);
  return {first, first + ptrdiff_t(rank)};
}

StorageLifetimes::Events::Run StorageLifetimes::Events::of(size_t at) const {
  return {events.data() + (at > 0 ? ends[at - 1] : 0),
          events.data() + ends[at]};
}

StorageLifetimes::Events::Run
StorageLifetimes::Events::find(const std::vector<int64_t> &member,
                               size_t &next) const {
  if (next < numMembers() &&
      std::equal(member.begin(), member.end(), members.data() + next * rank))
    return of(next++);
  size_t lo = 0, hi = numMembers();
  while (lo < hi) {
    size_t middle = lo + (hi - lo) / 2;
    const int64_t *there = members.data() + middle * rank;
    if (std::lexicographical_compare(there, there + rank, member.begin(),
                                     member.end()))
      lo = middle + 1;
    else
      hi = middle;
  }
  if (lo == numMembers() ||
      !std::equal(member.begin(), member.end(), members.data() + lo * rank))
    return {nullptr, nullptr};
  next = lo + 1;
  return of(lo);
}

void StorageLifetimes::Events::add(const std::vector<int64_t> &member,
                                   const Event &event) {
  rank = member.size();
  members.insert(members.end(), member.begin(), member.end());
  events.push_back(event);
}

void StorageLifetimes::Events::sort() {
  std::vector<size_t> order(events.size());
  std::iota(order.begin(), order.end(), size_t(0));
  auto start = [&](size_t at) { return members.data() + at * rank; };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    auto [one, other] =
        std::mismatch(start(a), start(a) + rank, start(b), start(b) + rank);
    if (one != start(a) + rank)
      return *one < *other;
    return std::tie(events[a].range.lo, events[a].instruction) <
           std::tie(events[b].range.lo, events[b].instruction);
  });
  std::vector<int64_t> theirs;
  std::vector<Event> sorted;
  for (size_t at : order) {
    if (sorted.empty() || !std::equal(start(at), start(at) + rank,
                                      theirs.end() - ptrdiff_t(rank))) {
      theirs.insert(theirs.end(), start(at), start(at) + rank);
      ends.push_back(0);
    }
    sorted.push_back(events[at]);
    ends.back() = sorted.size();
  }
  members = std::move(theirs);
  events = std::move(sorted);
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
        forEachMember(segment, family.numLeading(), [&](const auto &member) {
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
    if (forEachMember(box, family.numLeading(), [&](const auto &member) {
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
          return makeError("tensor '", tensorOf(family, list.member(i)),
                           "' state '", shortened(family.states[state].name),
                           "' is ",
                           side == Side::Source ? "released" : "created",
                           " twice, by instructions ", at->instruction, " and ",
                           at[1].instruction);
    }
  }
  return {};
}

} // namespace dtrt
