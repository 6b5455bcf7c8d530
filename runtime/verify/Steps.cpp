//===- Steps.cpp - Work that a hostile plan could make endless ------------===//

#include "Steps.h"

namespace dtrt {

namespace {
constexpr uint64_t kPerItem = 4096, kAtLeast = 1 << 24;
} // namespace

uint64_t Steps::itemsOf(const RankProgram &program) {
  uint64_t items = 0;
  for (const auto *shards : {&program.source, &program.destination})
    for (const ShardRecord &shard : *shards)
      for (const auto &intervals : shard.dims)
        items += intervals.size();
  for (const Instruction &instruction : program.instructions)
    items += 1 + instruction.segments.size() + instruction.messages.size();
  return items;
}

Steps Steps::forProgram(const RankProgram &program) {
  return Steps(kAtLeast + kPerItem * itemsOf(program));
}

} // namespace dtrt
