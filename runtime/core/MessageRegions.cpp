//===- MessageRegions.cpp - Which tensors a message carries ---------------===//

#include "dtrt/core/MessageRegions.h"

#include "dtrt/format/ShardView.h"

#include <map>

namespace dtrt {

namespace {

/// The next index inside a box, row-major; false after the last.
bool advance(std::vector<int64_t> &index, const Segment &box) {
  for (size_t dim = index.size(); dim-- > 0;) {
    if (++index[dim] < box.offset[dim] + box.size[dim])
      return true;
    index[dim] = box.offset[dim];
  }
  return false;
}

void addRegion(MessageRegion region, std::vector<MessageRegion> &list) {
  if (region.bytes == 0)
    return;
  if (!list.empty() && list.back().family == region.family &&
      list.back().state == region.state && list.back().member == region.member)
    list.back().bytes += region.bytes;
  else
    list.push_back(std::move(region));
}

/// In the order of the packed form: states, in each of them members.
void addSegment(const Family &family, const Segment &segment,
                std::vector<MessageRegion> &list) {
  if (segmentBytes(family, segment) == 0)
    return;
  int64_t elements = segmentElements(family, segment);
  for (unsigned state : statesOf(segment.states)) {
    auto bytes =
        uint64_t(elements * byteWidth(wireDType(family.states[state])));
    std::vector<int64_t> member(segment.offset.begin(),
                                segment.offset.begin() + family.numLeading());
    do
      addRegion({segment.family, state, member, bytes}, list);
    while (advance(member, segment));
  }
}

/// Follows what is in staging through one program.
class RegionFinder {
public:
  RegionFinder(const PlanCommon &common, const RankProgram &program)
      : common(common), program(program), found(program.instructions.size()) {}

  Result<std::vector<std::vector<MessageRegions>>> run() {
    for (size_t i = 0; i < found.size(); ++i) {
      const Instruction &instruction = program.instructions[i];
      if (instruction.op == Opcode::Unpack || instruction.op == Opcode::Relay)
        stepUnpack(instruction);
      if (instruction.op == Opcode::Pack || instruction.op == Opcode::Relay)
        stepPack(instruction);
      else if (instruction.op == Opcode::Group)
        DTRT_RETURN_IF_ERROR(stepGroup(i));
    }
    DTRT_RETURN_IF_ERROR(finish());
    return std::move(found);
  }

private:
  /// Segments by the staging byte or the byte of a message that they start at.
  using Places = std::map<uint64_t, const Segment *>;
  struct Arrival {
    size_t instruction = 0;
    size_t message = 0;
    uint64_t slot = 0;
    uint64_t end = 0;
    Places segments;
  };

  uint64_t bytesOf(const Segment &segment) const {
    return segmentBytes(common.families[segment.family], segment);
  }

  void stepPack(const Instruction &pack) {
    uint64_t at = pack.slot;
    packed.erase(packed.lower_bound(at), packed.lower_bound(at + pack.bytes));
    for (const Segment &segment : pack.segments) {
      packed[at] = &segment;
      at += bytesOf(segment);
    }
  }

  /// The last message that came to these bytes is the one that is meant.
  void stepUnpack(const Instruction &unpack) {
    uint64_t at = unpack.slot;
    for (const Segment &segment : unpack.segments) {
      auto arrival = latest.upper_bound(at);
      if (arrival != latest.begin()) {
        Arrival &message = arrivals[std::prev(arrival)->second];
        if (at < message.end)
          message.segments[at - message.slot] = &segment;
      }
      at += bytesOf(segment);
    }
  }

  Status stepGroup(size_t group) {
    const std::vector<Message> &messages = program.instructions[group].messages;
    found[group].resize(messages.size());
    for (size_t m = 0; m < messages.size(); ++m) {
      const Message &message = messages[m];
      found[group][m].common = &common;
      if (message.direct)
        addSegment(common.families[message.segment.family], message.segment,
                   found[group][m].list);
      else if (!message.receive)
        DTRT_RETURN_IF_ERROR(fill(packed, message.slot, group, m));
    }
    for (size_t m = 0; m < messages.size(); ++m)
      if (messages[m].receive && !messages[m].direct)
        receive(group, m);
    return {};
  }

  void receive(size_t group, size_t m) {
    const Message &message = program.instructions[group].messages[m];
    uint64_t end = message.slot + message.bytes;
    packed.erase(packed.lower_bound(message.slot), packed.lower_bound(end));
    latest.erase(latest.lower_bound(message.slot), latest.lower_bound(end));
    latest[message.slot] = arrivals.size();
    arrivals.push_back({group, m, message.slot, end, {}});
  }

  /// The segments that follow each other from `start` on to the end.
  Status fill(const Places &places, uint64_t start, size_t group, size_t m) {
    const Message &message = program.instructions[group].messages[m];
    uint64_t at = start, end = start + message.bytes;
    while (at < end) {
      auto place = places.find(at);
      uint64_t bytes = place == places.end() ? 0 : bytesOf(*place->second);
      if (bytes == 0 || bytes > end - at)
        return makeError("digests: instruction ", group, ", ",
                         message.receive ? "received from" : "sent to",
                         " device ", message.peer, ": byte ", at - start,
                         " of the message starts no segment that is ",
                         message.receive ? "unpacked from it"
                                         : "packed for it");
      addSegment(common.families[place->second->family], *place->second,
                 found[group][m].list);
      at += bytes;
    }
    return {};
  }

  Status finish() {
    for (const Arrival &arrival : arrivals)
      DTRT_RETURN_IF_ERROR(
          fill(arrival.segments, 0, arrival.instruction, arrival.message));
    return {};
  }

  const PlanCommon &common;
  const RankProgram &program;
  std::vector<std::vector<MessageRegions>> found;
  Places packed;                     // the last that was packed there
  std::map<uint64_t, size_t> latest; // arrivals by slot
  std::vector<Arrival> arrivals;
};

} // namespace

std::string MessageRegions::name(size_t region) const {
  const Family &family = common->families[list[region].family];
  return "tensor '" + family.tensorName(list[region].member) + "', state '" +
         family.states[list[region].state].name + "'";
}

Result<std::vector<std::vector<MessageRegions>>>
regionsOf(const PlanCommon &common, const RankProgram &program) {
  return RegionFinder(common, program).run();
}

} // namespace dtrt
