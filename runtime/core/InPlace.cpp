//===- InPlace.cpp - Buffers that a program leaves as they are ------------===//

#include "InPlace.h"

#include "dtrt/format/ShardView.h"
#include "dtrt/format/StayingStates.h"

#include <map>
#include <tuple>

namespace dtrt {

namespace {

class Search {
public:
  Search(const LocalStorage &storage, const std::vector<SharedBuffer> &buffers)
      : storage(storage), buffers(buffers), moved(buffers.size()) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      const SharedBuffer &own = buffers[i];
      numbers[{own.destination, own.state, own.member}] = i;
      moved[i] = !isAlike(own);
    }
  }

  std::vector<bool> run() {
    for (const Instruction &instruction : storage.program().instructions)
      look(instruction);
    return std::move(moved);
  }

private:
  bool isAlike(const SharedBuffer &buffer) const {
    const ShardRecord &from = storage.shards(Side::Source)[buffer.source];
    const ShardRecord &to =
        storage.shards(Side::Destination)[buffer.destination];
    const Family &family = storage.common().families[to.family];
    return haveAlikeMembers(family, from, to, buffer.state) &&
           memberIndex(family, from, buffer.sourceMember) ==
               memberIndex(family, to, buffer.member);
  }

  void look(const Instruction &instruction) {
    const std::vector<Segment> &segments = instruction.segments;
    if (instruction.op == Opcode::Copy)
      for (size_t i = 0; i + 1 < segments.size(); i += 2)
        addWrite(segments[i + 1], &segments[i]);
    if (instruction.op == Opcode::Zero || instruction.op == Opcode::Unpack)
      for (const Segment &segment : segments)
        addWrite(segment, nullptr);
    for (const Message &message : instruction.messages)
      if (message.receive && message.direct)
        addWrite(message.segment, nullptr);
  }

  /// All buffers under `to` are moved, but for those copied from their own
  /// place.
  void addWrite(const Segment &to, const Segment *from) {
    const ShardRecord &shard = storage.shards(Side::Destination)[to.shard];
    const Family &family = storage.common().families[to.family];
    bool samePlace = from && isSamePlace(*from, to);
    for (unsigned state : statesOf(to.states))
      for (int64_t member : membersOf(family, shard, to)) {
        auto found = numbers.find({to.shard, state, member});
        if (found != numbers.end() &&
            !(samePlace && from->shard == buffers[found->second].source))
          moved[found->second] = true;
      }
  }

  const LocalStorage &storage;
  const std::vector<SharedBuffer> &buffers;
  std::vector<bool> moved;
  std::map<std::tuple<uint32_t, unsigned, int64_t>, size_t> numbers;
};

} // namespace

std::vector<bool> findMoved(const LocalStorage &storage,
                            const std::vector<SharedBuffer> &buffers) {
  if (buffers.empty())
    return {};
  return Search(storage, buffers).run();
}

} // namespace dtrt
