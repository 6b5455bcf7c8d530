//===- SlotLifetimes.cpp - Slots in use while groups overlap --------------===//
//
// The time of a program in half steps: 2 g while its group g runs, 2 g + 1
// between that one and the next. A pack may come while the group before its own
// runs, an unpack while the group after its own does; but what was brought to
// the destination is unpacked before it is read there, so a pack or a send that
// reads it keeps both at their places.
//
//===----------------------------------------------------------------------===//

#include "SlotLifetimes.h"

#include "dtrt/format/Collectives.h"
#include "dtrt/format/Forwards.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

namespace dtrt {

namespace {

/// Staging bytes with the time during which they may be in use.
struct Use {
  uint64_t begin = 0, end = 0;
  int64_t first = 0, last = 0; // half steps
  size_t instruction = 0;      // the pack, or the group that receives
  std::vector<size_t> unpacks; // instructions; a pack has none
};

/// The newest use of every staging byte, by start.
class Uses {
public:
  explicit Uses(Steps &steps) : steps(steps) {}
  std::vector<Use> all;

  void add(Use use) {
    auto next = newest.erase(newest.lower_bound(use.begin),
                             newest.lower_bound(use.end));
    newest.insert_or_assign(next, use.begin, all.size());
    all.push_back(std::move(use));
  }
  /// Calls fn(use) for those that touch the bytes.
  template <typename Fn> void extend(uint64_t begin, uint64_t end, Fn fn) {
    auto at = newest.upper_bound(begin);
    if (at != newest.begin())
      --at;
    for (; at != newest.end() && at->first < end && steps.take(); ++at)
      if (Use &use = all[at->second]; use.end > begin)
        fn(use);
  }

private:
  Steps &steps;
  std::map<uint64_t, size_t> newest;
};

/// Staging [first, second) of the blocks that a device gets by a collective.
std::optional<std::pair<uint64_t, uint64_t>>
blocksGotIn(const PlanCommon &common, uint32_t device,
            const Instruction &group) {
  if (!group.collective)
    return std::nullopt;
  const GroupCollective &call = *group.collective;
  uint64_t got = bytesGot(common, call, device);
  if (got == 0)
    return std::nullopt;
  return std::make_pair(call.getSlot, call.getSlot + got);
}

void sortByFirst(std::vector<Use> &uses) {
  auto isBefore = [](const Use &a, const Use &b) { return a.first < b.first; };
  if (!std::is_sorted(uses.begin(), uses.end(), isBefore))
    std::stable_sort(uses.begin(), uses.end(), isBefore);
}

/// Uses that are as long as they may be whatever is forwarded.
std::vector<Use> usesOf(const PlanCommon &common, const RankProgram &program,
                        Steps &steps) {
  Uses uses(steps);
  int64_t group = 0; // number of the next one
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction &instruction = program.instructions[i];
    uint64_t slot = instruction.slot, end = slot + instruction.bytes;
    if (instruction.op == Opcode::Pack)
      uses.add({slot, end, 2 * group - 2, 2 * group - 2, i, {}});
    if (instruction.op == Opcode::Unpack)
      uses.extend(slot, end, [&](Use &use) {
        use.last = std::max(use.last, 2 * group);
        use.unpacks.push_back(i);
      });
    if (instruction.op == Opcode::Relay)
      uses.extend(slot, end,
                  [&](Use &use) { use.last = std::max(use.last, 2 * group); });
    if (instruction.op != Opcode::Group)
      continue;
    for (const Message &message : instruction.messages)
      if (!message.direct && !message.receive)
        uses.extend(message.slot, message.slot + message.bytes, [&](Use &use) {
          use.last = std::max(use.last, 2 * group);
        });
    // A collective's blocks are one use, whatever is in them.
    if (auto blocks = blocksGotIn(common, program.device, instruction))
      uses.add(
          {blocks->first, blocks->second, 2 * group, 2 * group + 2, i, {}});
    for (const Message &message : instruction.messages)
      if (!instruction.collective && !message.direct && message.receive)
        uses.add({message.slot,
                  message.slot + message.bytes,
                  2 * group,
                  2 * group + 2,
                  i,
                  {}});
    ++group;
  }
  return std::move(uses.all);
}

Status reused(const Use &older, const Use &newer) {
  return makeError("instruction ", newer.instruction, " uses staging bytes [",
                   newer.begin, ", ", newer.end, ") while [", older.begin, ", ",
                   older.end, ") of instruction ", older.instruction,
                   " is still in flight");
}

/// Sweeps over the groups: two uses that meet, or none. Invariant: `active`
/// holds disjoint uses.
std::optional<Status> sweep(const std::vector<Use> &uses) {
  std::multimap<int64_t, uint64_t> ends; // last half step, start
  std::map<uint64_t, const Use *> active;
  for (const Use &use : uses) {
    while (!ends.empty() && ends.begin()->first < use.first) {
      active.erase(ends.begin()->second);
      ends.erase(ends.begin());
    }
    auto next = active.lower_bound(use.begin);
    if (next != active.end() && next->first < use.end)
      return reused(*next->second, use);
    if (next != active.begin() && std::prev(next)->second->end > use.begin)
      return reused(*std::prev(next)->second, use);
    active[use.begin] = &use;
    ends.emplace(use.last, use.begin);
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Forwards
//===----------------------------------------------------------------------===//

/// What keeps packs and unpacks at their places.
class Forwards {
public:
  Forwards(const RankProgram &program, Steps &steps)
      : instructions(program.instructions), steps(steps) {
    for (size_t i = 0; i < instructions.size(); ++i) {
      numbers.push_back(groups.size());
      if (instructions[i].op == Opcode::Group)
        groups.push_back(i);
    }
  }

  void shorten(Use &use) const {
    bool isPack = instructions[use.instruction].op == Opcode::Pack;
    if (isPack && isFed(use.instruction))
      ++use.first;
    if (isPack || use.unpacks.empty())
      return;
    use.last = 0;
    for (size_t unpack : use.unpacks)
      use.last =
          std::max(use.last, 2 * int64_t(numbers[unpack]) - isPassedOn(unpack));
  }

  /// Whether all of a receive is unpacked before a pack, which reads it.
  bool areOrdered(const Use &receive, const Use &pack) const {
    if (receive.unpacks.empty() ||
        instructions[pack.instruction].op != Opcode::Pack)
      return false;
    return std::all_of(
        receive.unpacks.begin(), receive.unpacks.end(), [&](size_t unpack) {
          return unpack < pack.instruction && reads(pack.instruction, unpack);
        });
  }

private:
  bool overlap(const Segment &read, const Segment &written) const {
    return steps.take() && readsWritten(read, written);
  }
  bool overlap(const Segment &read, const std::vector<Segment> &written) const {
    return std::any_of(written.begin(), written.end(),
                       [&](const Segment &w) { return overlap(read, w); });
  }
  /// Whether a pack reads what an unpack writes.
  bool reads(size_t pack, size_t unpack) const {
    const auto &segments = instructions[pack].segments;
    return std::any_of(segments.begin(), segments.end(), [&](const Segment &s) {
      return overlap(s, instructions[unpack].segments);
    });
  }
  /// Whether a direct end of a group touches one of the places.
  bool touches(size_t group, bool receives,
               const std::vector<Segment> &places) const {
    for (const Message &message : instructions[group].messages)
      if (message.direct && message.receive == receives)
        for (const Segment &place : places)
          if (receives ? overlap(place, message.segment)
                       : overlap(message.segment, place))
            return true;
    return false;
  }

  /// Whether a pack reads what the group before it brings.
  bool isFed(size_t pack) const {
    if (numbers[pack] == 0)
      return false;
    size_t before = groups[numbers[pack] - 1];
    if (touches(before, /*receives=*/true, instructions[pack].segments))
      return true;
    for (size_t i = before + 1; i < pack; ++i)
      if (instructions[i].op == Opcode::Unpack && reads(pack, i))
        return true;
    return false;
  }
  /// Whether the group after an unpack sends what it writes.
  bool isPassedOn(size_t unpack) const {
    if (numbers[unpack] == groups.size())
      return false;
    size_t after = groups[numbers[unpack]];
    if (touches(after, /*receives=*/false, instructions[unpack].segments))
      return true;
    for (size_t i = unpack + 1; i < after; ++i)
      if (instructions[i].op == Opcode::Pack && reads(i, unpack))
        return true;
    return false;
  }

  const std::vector<Instruction> &instructions;
  Steps &steps;
  std::vector<size_t> groups;  // instructions
  std::vector<size_t> numbers; // of the next group, by instruction
};

/// The same as `sweep`, with all that forwards tell: looks at pairs.
Status checkForwards(const RankProgram &program, std::vector<Use> uses,
                     Steps &steps) {
  Forwards forwards(program, steps);
  for (Use &use : uses)
    forwards.shorten(use);
  sortByFirst(uses);
  std::vector<const Use *> active;
  for (const Use &newer : uses) {
    active.erase(
        std::remove_if(active.begin(), active.end(),
                       [&](const Use *use) { return use->last < newer.first; }),
        active.end());
    for (const Use *older : active)
      if (steps.take() && older->begin < newer.end &&
          newer.begin < older->end && !forwards.areOrdered(*older, newer) &&
          !forwards.areOrdered(newer, *older))
        return reused(*older, newer);
    active.push_back(&newer);
  }
  return {};
}

} // namespace

Status checkSlotLifetimes(const PlanCommon &common, const RankProgram &program,
                          Steps &steps) {
  std::vector<Use> uses = usesOf(common, program, steps);
  sortByFirst(uses);
  // Slots of most programs do not meet whatever is forwarded.
  if (!sweep(uses))
    return {};
  return checkForwards(program, std::move(uses), steps);
}

} // namespace dtrt
