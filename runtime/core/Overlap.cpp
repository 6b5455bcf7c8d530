//===- Overlap.cpp - Work for the time on the wire ------------------------===//

#include "dtrt/core/Overlap.h"

#include "dtrt/format/Forwards.h"
#include "dtrt/format/LocalWork.h"

#include <algorithm>

namespace dtrt {

namespace {

/// Whether the staging bytes of a pack or unpack are bytes of the other, which
/// may be a group or a relay.
bool sharesStaging(const Instruction &staged, const Instruction &other) {
  auto shares = [&](uint64_t slot, uint64_t bytes) {
    return staged.slot < slot + bytes && slot < staged.slot + staged.bytes;
  };
  if (namesStaging(other.op))
    return shares(other.slot, other.bytes);
  return std::any_of(other.messages.begin(), other.messages.end(),
                     [&](const Message &message) {
                       return !message.direct &&
                              shares(message.slot, message.bytes);
                     });
}

/// What an instruction reads of the destination, if it may move.
template <typename Fn> bool anyRead(const Instruction &instruction, Fn fn) {
  if (instruction.op == Opcode::Pack)
    return std::any_of(instruction.segments.begin(), instruction.segments.end(),
                       fn);
  return std::any_of(instruction.messages.begin(), instruction.messages.end(),
                     [&](const Message &message) {
                       return message.direct && !message.receive &&
                              fn(message.segment);
                     });
}

/// Looks at what stands between a pack or unpack and its group. Where no looks
/// are left nothing more runs beside a group.
class OverlapFinder {
public:
  explicit OverlapFinder(const RankProgram &program)
      : instructions(program.instructions), found(instructions.size()),
        looks(mostLooks(instructions.size())) {}

  std::vector<std::vector<size_t>> run() {
    for (size_t i = 0; i < instructions.size(); ++i)
      if (isGroup(i)) {
        addUnpacks(i);
        addCopies(i);
        addPacks(i);
      }
    return std::move(found);
  }

private:
  bool look() { return looks > 0 && looks-- > 0; }
  bool isGroup(size_t i) const { return instructions[i].op == Opcode::Group; }
  bool reads(size_t i, const WrittenSegments &written) {
    return anyRead(instructions[i], [&](const Segment &segment) {
      return written.meet(segment, looks);
    });
  }

  /// Whether a group, or a pack between it and the one before, sends what has
  /// been brought to the destination.
  bool sendsDestination(size_t group) const {
    bool sends =
        group < instructions.size() && readsDestination(instructions[group]);
    while (!sends && group-- > 0 && !isGroup(group))
      sends = readsDestination(instructions[group]);
    return sends;
  }

  /// Whether an unpack may change places with a later instruction, which is no
  /// unpack. What creates members, or releases a source's, has nothing to do
  /// with it.
  bool mayFollow(size_t unpack, const WrittenSegments &written, size_t later) {
    switch (instructions[later].op) {
    case Opcode::Create:
    case Opcode::Release:
      return true;
    case Opcode::Pack:
    case Opcode::Relay:
    case Opcode::Group:
      return !sharesStaging(instructions[unpack], instructions[later]) &&
             !reads(later, written);
    case Opcode::Copy:
      return isCopiedBeside(instructions[later]); // reads the source
    default:
      return false;
    }
  }

  /// Those that may follow all that stands between them and the group.
  void addUnpacks(size_t group) {
    const bool forwards = sendsDestination(group);
    std::vector<size_t> late;
    for (size_t i = group; i-- > 0 && !isGroup(i);) {
      if (instructions[i].op != Opcode::Unpack)
        continue;
      WrittenSegments written;
      if (forwards)
        addWritten(instructions[i], written);
      bool free = true;
      for (size_t k = i + 1; k <= group && free; ++k)
        free = look() && (instructions[k].op == Opcode::Unpack ||
                          mayFollow(i, written, k));
      if (free)
        late.push_back(i);
    }
    found[group].assign(late.rbegin(), late.rend());
  }

  /// The plan says of which copies nothing is needed until the group has ended,
  /// and its verifier has looked.
  void addCopies(size_t group) {
    size_t first = group;
    while (first > 0 && !isGroup(first - 1))
      --first;
    for (size_t i = first; i < group; ++i)
      if (isCopiedBeside(instructions[i]))
        found[group].push_back(i);
  }

  /// Those that may precede all that stands between the group and them, what
  /// the group brings and what is copied beside it included. Unpacks of the
  /// group before run ahead of them.
  void addPacks(size_t group) {
    size_t next = group + 1;
    while (next < instructions.size() && !isGroup(next))
      ++next;
    const bool forwards = sendsDestination(next);
    WrittenSegments written;
    for (const Message &message : instructions[group].messages)
      if (forwards && message.receive && message.direct)
        written.add(message.segment);
    for (size_t i = group; forwards && i-- > 0 && !isGroup(i);)
      if (isCopiedBeside(instructions[i]))
        addWritten(instructions[i], written);
    for (size_t i = group + 1; i < next; ++i) {
      const Instruction &pack = instructions[i];
      if (pack.op != Opcode::Pack) {
        if (forwards)
          addWritten(pack, written);
        continue;
      }
      bool free = !reads(i, written);
      for (size_t k = group; k < i && free; ++k)
        free = look() && !sharesStaging(pack, instructions[k]);
      if (free)
        found[group].push_back(i);
    }
  }

  static void addWritten(const Instruction &instruction,
                         WrittenSegments &written) {
    bool isLocal =
        instruction.op == Opcode::Copy || instruction.op == Opcode::Zero;
    if (isLocal || instruction.op == Opcode::Unpack)
      for (const Segment &segment : instruction.segments)
        if (segment.side == Side::Destination)
          written.add(segment);
  }

  const std::vector<Instruction> &instructions;
  std::vector<std::vector<size_t>> found;
  uint64_t looks;
};

} // namespace

bool readsDestination(const Instruction &instruction) {
  return anyRead(instruction, [](const Segment &segment) {
    return segment.side == Side::Destination;
  });
}

std::vector<std::vector<size_t>> overlapsOf(const RankProgram &program) {
  return OverlapFinder(program).run();
}

} // namespace dtrt
