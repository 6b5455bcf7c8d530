//===- MadeStates.cpp - Source shards of states that are made -------------===//

#include "dt/Emit/MadeStates.h"

#include <algorithm>

using namespace dt;
using dtrt::Instruction;
using dtrt::Segment;
using dtrt::ShardRecord;

namespace {

/// What the states of a shard are made from, if the source lacks them.
uint64_t madeFrom(const dtrt::Family &family, const ShardRecord &shard) {
  uint64_t from = 0;
  for (size_t i = 0; i < family.states.size(); ++i)
    if (shard.states >> i & 1 && !family.states[i].inSource)
      from |= uint64_t(1) << family.states[i].madeFrom;
  return from;
}

bool sameRegion(const ShardRecord &a, const ShardRecord &b) {
  return a.family == b.family && a.dims == b.dims && a.flat == b.flat &&
         a.range == b.range;
}

void renumber(const std::vector<uint32_t> &numbers, Segment &segment) {
  // A box that no shard holds keeps an index that the verifier refuses.
  if (segment.side == dtrt::Side::Source && segment.shard < numbers.size())
    segment.shard = numbers[segment.shard];
}

} // namespace

void dt::joinMadeStates(const std::vector<dtrt::Family> &families,
                        dtrt::RankProgram &program) {
  std::vector<ShardRecord> own;
  std::vector<uint32_t> numbers(program.source.size());
  std::vector<std::pair<uint32_t, uint64_t>> made; // shard, made from
  for (uint32_t i = 0; i < program.source.size(); ++i) {
    const ShardRecord &shard = program.source[i];
    if (uint64_t from = madeFrom(families[shard.family], shard)) {
      made.push_back({i, from});
      continue;
    }
    numbers[i] = own.size();
    own.push_back(shard);
  }
  if (made.empty())
    return;
  for (auto [index, from] : made) {
    const ShardRecord &shard = program.source[index];
    auto found = std::find_if(
        own.begin(), own.end(), [&, from = from](const ShardRecord &other) {
          return sameRegion(other, shard) && (other.states & from) == from;
        });
    numbers[index] = found - own.begin();
    if (found == own.end())
      own.push_back(shard); // refused by the plan reader
    else
      found->states |= shard.states;
  }
  program.source = std::move(own);
  for (Instruction &instruction : program.instructions) {
    for (Segment &segment : instruction.segments)
      renumber(numbers, segment);
    for (dtrt::Message &message : instruction.messages)
      if (message.direct)
        renumber(numbers, message.segment);
  }
}
