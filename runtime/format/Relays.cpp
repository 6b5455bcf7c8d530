//===- Relays.cpp - Messages that a device passes on as they are ----------===//

#include "dtrt/format/Relays.h"

#include <unordered_map>

namespace dtrt {

namespace {

/// A message, by place.
struct MessagePlace {
  size_t group = 0, message = 0;
};

} // namespace

std::vector<std::vector<bool>> findRelays(const RankProgram &program) {
  std::vector<std::vector<bool>> found(program.instructions.size());
  std::unordered_map<uint64_t, MessagePlace> came;        // last, by slot
  std::unordered_map<uint64_t, const Instruction *> next; // relays, by slot
  for (size_t i = 0; i < found.size(); ++i) {
    const Instruction &instruction = program.instructions[i];
    found[i].resize(instruction.messages.size());
    if (instruction.op == Opcode::Pack)
      next.erase(instruction.slot);
    if (instruction.op == Opcode::Relay) {
      next[instruction.slot] = &instruction;
      if (auto at = came.find(instruction.slot); at != came.end())
        found[at->second.group][at->second.message] = true;
    }
    for (size_t m = 0; m < instruction.messages.size(); ++m) {
      const Message &message = instruction.messages[m];
      auto relay = next.find(message.slot);
      found[i][m] = !message.receive && !message.direct &&
                    relay != next.end() &&
                    relay->second->bytes == message.bytes;
    }
    for (size_t m = 0; m < instruction.messages.size(); ++m)
      if (const Message &message = instruction.messages[m];
          message.receive && !message.direct) {
        came[message.slot] = {i, m};
        next.erase(message.slot);
      }
  }
  return found;
}

} // namespace dtrt
