//===- StorageLifetimes.cpp - When storage comes and goes -----------------===//

#include "StorageLifetimes.h"

#include "dtrt/format/ShardView.h"
#include "dtrt/format/Text.h"

#include <algorithm>
#include <numeric>
#include <tuple>

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

size_t StorageLifetimes::Events::find(int64_t member, size_t &next) const {
  if (next < members.size() && members[next].number == member)
    return next++;
  auto found = std::lower_bound(members.begin(), members.end(), member,
                                [](const Member &other, int64_t number) {
                                  return other.number < number;
                                });
  if (found == members.end() || found->number != member)
    return members.size();
  next = size_t(found - members.begin()) + 1;
  return next - 1;
}

void StorageLifetimes::Events::add(int64_t member, const Event &event) {
  added.push_back({member, event});
}

/// By counting, where members are not far apart.
void StorageLifetimes::Events::sortByMember() {
  constexpr size_t kFarApart = 8;
  auto isBefore = [](const Entry &a, const Entry &b) {
    return a.member < b.member;
  };
  if (std::is_sorted(added.begin(), added.end(), isBefore))
    return;
  auto [least, most] =
      std::minmax_element(added.begin(), added.end(), isBefore);
  const int64_t first = least->member;
  const auto span = uint64_t(most->member - first);
  if (span / kFarApart > added.size())
    return std::sort(added.begin(), added.end(), isBefore);
  std::vector<size_t> ends(span + 2, 0);
  for (const Entry &entry : added)
    ++ends[size_t(entry.member - first) + 1];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<Entry> sorted(added.size());
  for (const Entry &entry : added)
    sorted[ends[size_t(entry.member - first)]++] = entry;
  added.swap(sorted);
}

void StorageLifetimes::Events::sort() {
  sortByMember();
  events.reserve(added.size());
  for (size_t first = 0, last = 0; first < added.size(); first = last) {
    Member &own = members.emplace_back();
    own.number = added[first].member;
    for (; last < added.size() && added[last].member == own.number; ++last) {
      const Event &event = events.emplace_back(added[last].event);
      own.first = std::min(own.first, event.instruction);
      own.last = std::max(own.last, event.instruction);
    }
    own.end = events.size();
    std::sort(events.data() + first, events.data() + last,
              [](const Event &a, const Event &b) {
                return std::tie(a.range.lo, a.instruction) <
                       std::tie(b.range.lo, b.instruction);
              });
  }
  added = {};
}

//===----------------------------------------------------------------------===//

StorageLifetimes::StorageLifetimes(const PlanCommon &common,
                                   const RankProgram &program, Steps &steps)
    : common(common), program(program), steps(steps),
      together{StateGroups(program.destination), StateGroups(program.source)} {
  bool areAny = false;
  for (const Instruction &instruction : program.instructions)
    if (isLifetime(instruction))
      for (const Segment &segment : instruction.segments) {
        together[segment.side == Side::Source].add(segment);
        areAny = true;
      }
  if (!areAny) // as in every plan of mode rollback
    return;
  events[0].resize(program.destination.size());
  events[1].resize(program.source.size());
  for (uint32_t i = 0; i < program.instructions.size(); ++i) {
    if (!isLifetime(program.instructions[i]))
      continue;
    for (const Segment &segment : program.instructions[i].segments) {
      const Family &family = common.families[segment.family];
      Event event = {storageRange(family, segment), i};
      for (unsigned state :
           statesOf(togetherOn(segment.side)
                        .firstOf(segment.shard, segment.states))) {
        Events &list = eventsOf(segment.side, segment.shard, state);
        forEachMember(family, segment, [&](int64_t member) {
          list.add(member, event);
          return !steps.take();
        });
      }
    }
  }
  for (std::vector<OfShard> &side : events)
    for (OfShard &own : side)
      for (auto &[state, list] : own)
        list.sort();
}

/// A shard has few groups of states.
StorageLifetimes::Events &StorageLifetimes::eventsOf(Side side, uint32_t shard,
                                                     unsigned state) {
  OfShard &own = events[side == Side::Source][shard];
  auto at = std::find_if(own.begin(), own.end(), [&](const auto &other) {
    return other.first >= state;
  });
  if (at == own.end() || at->first != state)
    at = own.emplace(at, state, Events());
  return at->second;
}

/// Calls fn(instruction) for what comes or goes of the storage that the box
/// spans, of members that isOf(), until fn says true.
template <typename Of, typename Fn>
void StorageLifetimes::forEachEvent(const Segment &box, Of isOf, Fn fn) const {
  const std::vector<OfShard> &ofSide = events[box.side == Side::Source];
  if (ofSide.empty() || ofSide[box.shard].empty())
    return;
  const Family &family = common.families[box.family];
  const auto &shards =
      box.side == Side::Source ? program.source : program.destination;
  std::optional<Interval> hull; // where a member has to be looked at
  auto visit = [&](Events::Run ranges) {
    if (!hull)
      hull = storageHull(family, shards[box.shard], box);
    // Ranges that no other overlaps end in the order in which they start.
    const Event *at = std::partition_point(
        ranges.first, ranges.second,
        [&](const Event &event) { return event.range.hi <= hull->lo; });
    for (; at != ranges.second && at->range.lo < hull->hi; ++at)
      if (!steps.take() || fn(at->instruction))
        return true;
    return false;
  };
  uint64_t states = resolveDerived(family, box.states, box.side);
  uint64_t firsts = togetherOn(box.side).firstOf(box.shard, states);
  for (const auto &ofState : ofSide[box.shard]) {
    if (!(firsts >> ofState.first & 1))
      continue;
    const Events &list = ofState.second;
    size_t next = 0;
    if (forEachMember(family, box, [&](int64_t member) {
          size_t at = list.find(member, next);
          return !steps.take() ||
                 (at < list.members.size() && isOf(list.members[at]) &&
                  visit(list.of(at)));
        }))
      return;
  }
}

std::optional<uint32_t>
StorageLifetimes::releasedBefore(const Segment &box,
                                 uint32_t instruction) const {
  std::optional<uint32_t> found;
  forEachEvent(
      box, [&](const Member &member) { return member.first < instruction; },
      [&](uint32_t event) {
        if (event < instruction)
          found = event;
        return found.has_value();
      });
  return found;
}

std::optional<uint32_t>
StorageLifetimes::createdAfter(const Segment &box, uint32_t instruction) const {
  std::optional<uint32_t> found;
  forEachEvent(
      box, [&](const Member &member) { return member.last > instruction; },
      [&](uint32_t event) {
        if (event > instruction)
          found = event;
        return found.has_value();
      });
  return found;
}

Status StorageLifetimes::checkOnce() const {
  for (Side side : {Side::Source, Side::Destination}) {
    const std::vector<OfShard> &ofSide = events[side == Side::Source];
    for (uint32_t shard = 0; shard < ofSide.size(); ++shard)
      for (const auto &[state, list] : ofSide[shard])
        DTRT_RETURN_IF_ERROR(checkOnce(side, shard, state, list));
  }
  return {};
}

Status StorageLifetimes::checkOnce(Side side, uint32_t shard, unsigned state,
                                   const Events &list) const {
  const auto &shards =
      side == Side::Source ? program.source : program.destination;
  const Family &family = common.families[shards[shard].family];
  for (size_t i = 0; i < list.members.size(); ++i) {
    auto [first, end] = list.of(i);
    for (const Event *at = first; at + 1 < end; ++at)
      if (at[1].range.lo < at->range.hi)
        return makeError(
            "tensor '",
            tensorOf(family, indexOf(family, list.members[i].number)),
            "' state '", shortened(family.states[state].name), "' is ",
            side == Side::Source ? "released" : "created",
            " twice, by instructions ", at->instruction, " and ",
            at[1].instruction);
  }
  return {};
}

} // namespace dtrt
