//===- SlotLifetimes.cpp - Slots in use while groups overlap --------------===//

#include "SlotLifetimes.h"

#include <algorithm>
#include <map>

namespace dtrt {

namespace {

/// Staging bytes with the groups during which they are in use.
struct Use {
  uint64_t begin = 0, end = 0;
  int64_t first = 0, last = 0; // groups, by number
  size_t instruction = 0;      // the pack, or the group that receives
};

/// The newest use of every staging byte, by start.
class Uses {
public:
  explicit Uses(Steps &steps) : steps(steps) {}
  std::vector<Use> all;

  void add(const Use &use) {
    size_t number = all.size();
    all.push_back(use);
    newest.erase(newest.lower_bound(use.begin), newest.lower_bound(use.end));
    newest[use.begin] = number;
  }
  /// Uses that touch the bytes go on to `group` at least.
  void extend(uint64_t begin, uint64_t end, int64_t group) {
    auto at = newest.upper_bound(begin);
    if (at != newest.begin())
      --at;
    for (; at != newest.end() && at->first < end && steps.take(); ++at)
      if (Use &use = all[at->second]; use.end > begin)
        use.last = std::max(use.last, group);
  }

private:
  Steps &steps;
  std::map<uint64_t, size_t> newest;
};

std::vector<Use> usesOf(const RankProgram &program, Steps &steps) {
  Uses uses(steps);
  int64_t group = 0; // number of the next one
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction &instruction = program.instructions[i];
    uint64_t slot = instruction.slot, end = slot + instruction.bytes;
    if (instruction.op == Opcode::Pack)
      uses.add({slot, end, group - 1, group - 1, i});
    if (instruction.op == Opcode::Unpack)
      uses.extend(slot, end, group);
    if (instruction.op != Opcode::Group)
      continue;
    for (const Message &message : instruction.messages)
      if (!message.direct && !message.receive)
        uses.extend(message.slot, message.slot + message.bytes, group);
    for (const Message &message : instruction.messages)
      if (!message.direct && message.receive)
        uses.add(
            {message.slot, message.slot + message.bytes, group, group + 1, i});
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

} // namespace

/// Sweeps over the groups. Invariant: `active` holds disjoint uses.
Status checkSlotLifetimes(const RankProgram &program, Steps &steps) {
  std::vector<Use> uses = usesOf(program, steps);
  std::stable_sort(uses.begin(), uses.end(), [](const Use &a, const Use &b) {
    return a.first < b.first;
  });
  std::multimap<int64_t, uint64_t> ends; // last group, start
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
  return {};
}

} // namespace dtrt
