//===- Forwards.cpp - What is sent on as soon as it has come --------------===//

#include "dtrt/format/Forwards.h"

#include <algorithm>

namespace dtrt {

namespace {

/// Looks at segments that a program may take, by what it has of all kinds:
/// thousands of times what those of the compiler take.
constexpr uint64_t kLooksPerItem = 4096, kLooksAtLeast = 1 << 24;

uint64_t mostLooks(const RankProgram &program) {
  uint64_t items = 0;
  for (const Instruction &instruction : program.instructions)
    items += 1 + instruction.segments.size() + instruction.messages.size();
  return kLooksAtLeast + kLooksPerItem * items;
}

/// Goes through a program in its order.
class ForwardFinder {
public:
  explicit ForwardFinder(uint64_t looks) : looks(looks) {}

  bool spent() const { return looks == 0; }
  /// Invariant: `brought` has what came between the group before and here, and
  /// `packed` where packs since then put what they read of it.
  void add(const Instruction &instruction, std::vector<bool> &found) {
    switch (instruction.op) {
    case Opcode::Unpack:
      for (const Segment &segment : instruction.segments)
        brought.add(segment);
      return;
    case Opcode::Pack:
      if (readsBrought(instruction.segments))
        packed.push_back(&instruction);
      return;
    case Opcode::Group:
      return addGroup(instruction.messages, found);
    default:
      return;
    }
  }

private:
  bool readsBrought(const std::vector<Segment> &segments) {
    return std::any_of(
        segments.begin(), segments.end(),
        [&](const Segment &segment) { return brought.meet(segment, looks); });
  }
  bool isForward(const Message &message) {
    if (message.receive)
      return false;
    if (message.direct)
      return brought.meet(message.segment, looks);
    return std::any_of(packed.begin(), packed.end(),
                       [&](const Instruction *pack) {
                         return pack->slot < message.slot + message.bytes &&
                                message.slot < pack->slot + pack->bytes;
                       });
  }
  void addGroup(const std::vector<Message> &messages,
                std::vector<bool> &found) {
    for (const Message &message : messages)
      found.push_back(isForward(message));
    brought.clear();
    packed.clear();
    for (const Message &message : messages)
      if (message.receive && message.direct)
        brought.add(message.segment);
  }

  WrittenSegments brought;
  std::vector<const Instruction *> packed;
  uint64_t looks;
};

} // namespace

bool readsWritten(const Segment &read, const Segment &written) {
  bool meets = read.side == Side::Destination && read.shard == written.shard &&
               (read.states & written.states) != 0;
  for (size_t d = 0; meets && d < read.offset.size(); ++d)
    meets = read.offset[d] < written.offset[d] + written.size[d] &&
            written.offset[d] < read.offset[d] + read.size[d];
  return meets;
}

bool WrittenSegments::meet(const Segment &read, uint64_t &looks) const {
  auto shard = byShard.find(read.shard);
  if (read.side != Side::Destination || shard == byShard.end())
    return false;
  for (const Segment *written : shard->second) {
    if (looks == 0 || --looks == 0)
      return true;
    if (readsWritten(read, *written))
      return true;
  }
  return false;
}

Result<std::vector<std::vector<bool>>>
findForwards(const RankProgram &program) {
  const uint64_t looks = mostLooks(program);
  ForwardFinder finder(looks);
  std::vector<std::vector<bool>> found(program.instructions.size());
  for (size_t i = 0; i < found.size(); ++i) {
    finder.add(program.instructions[i], found[i]);
    if (finder.spent())
      return makeError("takes more than ", looks,
                       " steps to find what is forwarded");
  }
  return found;
}

} // namespace dtrt
