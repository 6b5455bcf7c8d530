//===- Traffic.cpp - A program's messages, with both of their ends --------===//

#include "dtrt/transport/Traffic.h"

#include <map>
#include <set>
#include <tuple>

namespace dtrt {

namespace {

using Wave = int32_t;
/// A pair of devices has one message each way in a wave, at most.
struct Key {
  Wave wave = 0;
  uint32_t peer = 0;
  bool receive = false;
  bool operator<(const Key &other) const {
    return std::tie(wave, peer, receive) <
           std::tie(other.wave, other.peer, other.receive);
  }
};
struct End {
  MessagePlace place;
  uint64_t bytes = 0;
};
using Ends = std::map<Key, End>;

MessagePlace placeOf(const Message &message) {
  return {message.direct, message.direct ? 0 : message.slot};
}

class Finder {
public:
  Finder(const PlanReader &plan, const RankProgram &program)
      : plan(plan), program(program) {}

  Result<Traffic> run() {
    Traffic traffic;
    traffic.arenaBytes = program.stagingBytes;
    for (const Instruction &instruction : program.instructions) {
      if (instruction.op != Opcode::Group)
        continue;
      if (instruction.collective)
        traffic.calls[traffic.groups.size()] = *instruction.collective;
      traffic.groups.emplace_back();
      for (const Message &message : instruction.messages) {
        auto ends = match(instruction.wave, message);
        DTRT_RETURN_IF_ERROR(ends);
        traffic.groups.back().push_back(*ends);
      }
    }
    return traffic;
  }

private:
  Result<MessageEnds> match(Wave wave, const Message &message) {
    DTRT_RETURN_IF_ERROR(load(message.peer));
    auto found = ends.find({wave, message.peer, !message.receive});
    const char *way = message.receive ? "from" : "to";
    if (found == ends.end())
      return makeError("wave ", wave, ": the message ", way, " device ",
                       message.peer, " has no other end");
    const End &other = found->second;
    if (other.bytes != message.bytes)
      return makeError("wave ", wave, ": the message ", way, " device ",
                       message.peer, " has ", message.bytes, " bytes, ",
                       other.bytes, " at its other end");
    return MessageEnds{message.receive, message.peer, message.bytes,
                       placeOf(message), other.place};
  }

  /// What a peer's program has with this device.
  Status load(uint32_t peer) {
    if (!peers.insert(peer).second)
      return {};
    auto decoded = plan.program(peer);
    DTRT_RETURN_IF_ERROR(decoded);
    for (const Instruction &instruction : decoded->instructions)
      for (const Message &message : instruction.messages)
        if (message.peer == program.device)
          ends[{instruction.wave, peer, message.receive}] = {placeOf(message),
                                                             message.bytes};
    return {};
  }

  const PlanReader &plan;
  const RankProgram &program;
  std::set<uint32_t> peers;
  Ends ends;
};

} // namespace

bool Traffic::staged() const {
  for (const auto &group : groups)
    for (const MessageEnds &message : group)
      if (message.own.direct)
        return false;
  return true;
}

Result<Traffic> trafficOf(const PlanReader &plan, const RankProgram &program) {
  return Finder(plan, program).run();
}

} // namespace dtrt
