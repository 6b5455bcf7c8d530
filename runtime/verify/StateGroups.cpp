//===- StateGroups.cpp - States that are always named together ------------===//

#include "StateGroups.h"

namespace dtrt {

StateGroups::StateGroups(const std::vector<ShardRecord> &shards) {
  for (const ShardRecord &shard : shards) {
    all.push_back(shard.states);
    groups.push_back({shard.states});
  }
}

void StateGroups::add(const Segment &segment) {
  std::vector<uint64_t> &own = groups[segment.shard];
  for (size_t i = 0, count = own.size(); i < count; ++i) {
    uint64_t named = own[i] & segment.states, others = own[i] & ~segment.states;
    if (named == 0 || others == 0)
      continue;
    own[i] = named;
    own.push_back(others);
  }
}

uint64_t StateGroups::firstOf(uint32_t shard, uint64_t states) const {
  uint64_t first = states & ~all[shard];
  for (uint64_t group : groups[shard])
    if (group & states)
      first |= group & (~group + 1);
  return first;
}

uint64_t StateGroups::groupOf(uint32_t shard, unsigned state) const {
  for (uint64_t group : groups[shard])
    if (group >> state & 1)
      return group;
  return uint64_t(1) << state;
}

} // namespace dtrt
