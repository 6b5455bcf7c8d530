//===- Overlap.cpp - Work for the time on the wire ------------------------===//

#include "dtrt/core/Overlap.h"

#include <algorithm>

namespace dtrt {

namespace {

/// Whether the staging bytes of a pack or unpack are bytes of the other, which
/// may be a group.
bool sharesStaging(const Instruction &staged, const Instruction &other) {
  auto shares = [&](uint64_t slot, uint64_t bytes) {
    return staged.slot < slot + bytes && slot < staged.slot + staged.bytes;
  };
  if (isStaged(other))
    return shares(other.slot, other.bytes);
  return std::any_of(other.messages.begin(), other.messages.end(),
                     [&](const Message &message) {
                       return !message.direct &&
                              shares(message.slot, message.bytes);
                     });
}

/// Whether an unpack may change places with a later instruction of the program.
/// What creates members, or releases a source's, has nothing to do with it.
bool mayFollow(const Instruction &unpack, const Instruction &later) {
  switch (later.op) {
  case Opcode::Unpack:
  case Opcode::Create:
  case Opcode::Release:
    return true;
  case Opcode::Pack:
  case Opcode::Group:
    return !readsDestination(later) && !sharesStaging(unpack, later);
  default:
    return false;
  }
}

/// Whether a pack of the source may change places with an earlier instruction.
/// Release does not concern it: it reads nothing that is released before it.
bool mayPrecede(const Instruction &pack, const Instruction &earlier) {
  return !sharesStaging(pack, earlier);
}

/// Looks at what stands between a pack or unpack and its group. Where none are
/// left nothing more runs beside a group.
class OverlapFinder {
public:
  explicit OverlapFinder(const RankProgram &program)
      : instructions(program.instructions), found(instructions.size()),
        looks(mostLooks(instructions.size())) {}

  std::vector<std::vector<size_t>> run() {
    for (size_t i = 0; i < instructions.size(); ++i)
      if (instructions[i].op == Opcode::Group) {
        addUnpacks(i);
        addPacks(i);
      }
    return std::move(found);
  }

private:
  bool look() { return looks > 0 && looks-- > 0; }
  bool isGroup(size_t i) const { return instructions[i].op == Opcode::Group; }

  /// Those that may follow all that stands between them and the group.
  void addUnpacks(size_t group) {
    std::vector<size_t> late;
    for (size_t i = group; i-- > 0 && !isGroup(i);) {
      const Instruction &unpack = instructions[i];
      if (unpack.op != Opcode::Unpack)
        continue;
      bool free = true;
      for (size_t k = i + 1; k <= group && free; ++k)
        free = look() && mayFollow(unpack, instructions[k]);
      if (free)
        late.push_back(i);
    }
    found[group].assign(late.rbegin(), late.rend());
  }

  void addPacks(size_t group) {
    for (size_t i = group + 1; i < instructions.size() && !isGroup(i); ++i) {
      const Instruction &pack = instructions[i];
      bool free = pack.op == Opcode::Pack && !readsDestination(pack);
      for (size_t k = group; k < i && free; ++k)
        free = look() && mayPrecede(pack, instructions[k]);
      if (free)
        found[group].push_back(i);
    }
  }

  const std::vector<Instruction> &instructions;
  std::vector<std::vector<size_t>> found;
  uint64_t looks;
};

} // namespace

bool readsDestination(const Instruction &instruction) {
  auto isThere = [](const Segment &segment) {
    return segment.side == Side::Destination;
  };
  if (instruction.op == Opcode::Pack)
    return std::any_of(instruction.segments.begin(), instruction.segments.end(),
                       isThere);
  return std::any_of(instruction.messages.begin(), instruction.messages.end(),
                     [&](const Message &message) {
                       return message.direct && !message.receive &&
                              isThere(message.segment);
                     });
}

std::vector<std::vector<size_t>> overlapsOf(const RankProgram &program) {
  return OverlapFinder(program).run();
}

} // namespace dtrt
