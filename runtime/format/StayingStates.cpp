//===- StayingStates.cpp - Storage that is the same before and after ------===//

#include "dtrt/format/StayingStates.h"

#include "dtrt/format/ShardView.h"

#include <map>

namespace dtrt {

namespace {

/// What shards have in common that are alike.
std::vector<int64_t> regionOf(const ShardRecord &shard) {
  std::vector<int64_t> out = {int64_t(shard.family), int64_t(shard.flat)};
  if (shard.flat)
    out.insert(out.end(), {shard.range.lo, shard.range.hi});
  for (const auto &intervals : shard.dims) {
    out.push_back(int64_t(intervals.size()));
    for (const Range &interval : intervals)
      out.insert(out.end(), {interval.lo, interval.hi});
  }
  return out;
}

/// A source and a destination shard that are alike, and the states that stay.
struct Pair {
  uint32_t source = 0, destination = 0;
  uint64_t states = 0;
};

class Search {
public:
  Search(const PlanCommon &common, const RankProgram &program)
      : common(common), program(program), ofSource(program.source.size()),
        ofDestination(program.destination.size()) {
    pairAll();
  }

  std::vector<StayingState> run() {
    for (const Instruction &instruction : program.instructions)
      look(instruction);
    std::vector<StayingState> out;
    for (const Pair &pair : pairs)
      for (unsigned state : statesOf(pair.states))
        out.push_back({pair.source, pair.destination, state});
    return out;
  }

private:
  /// As if all that is alike stayed.
  void pairAll() {
    std::map<std::vector<int64_t>, std::vector<uint32_t>> sources;
    for (uint32_t i = 0; i < program.source.size(); ++i)
      sources[regionOf(program.source[i])].push_back(i);
    for (uint32_t to = 0; to < program.destination.size(); ++to) {
      auto found = sources.find(regionOf(program.destination[to]));
      if (found == sources.end())
        continue;
      for (uint32_t from : found->second)
        if (uint64_t states = alikeStates(from, to)) {
          ofSource[from].push_back(pairs.size());
          ofDestination[to].push_back(pairs.size());
          pairs.push_back({from, to, states});
        }
    }
  }

  uint64_t alikeStates(uint32_t source, uint32_t destination) const {
    const ShardRecord &from = program.source[source];
    const ShardRecord &to = program.destination[destination];
    const Family &family = common.families[to.family];
    if (common.summary.granularity == Granularity::Tensor &&
        !family.storage.empty())
      return 0;
    uint64_t alike = 0;
    for (unsigned state : statesOf(from.states & to.states))
      if (areAlike(family, from, to, state))
        alike |= uint64_t(1) << state;
    return alike;
  }

  void look(const Instruction &instruction) {
    const std::vector<Segment> &segments = instruction.segments;
    if (instruction.op == Opcode::Copy)
      for (size_t i = 0; i + 1 < segments.size(); i += 2)
        write(segments[i + 1], &segments[i]);
    if (instruction.op == Opcode::Create || instruction.op == Opcode::Zero ||
        instruction.op == Opcode::Unpack)
      for (const Segment &segment : segments)
        write(segment, nullptr);
    if (instruction.op == Opcode::Release)
      for (const Segment &segment : segments)
        for (size_t pair : ofSource[segment.shard])
          pairs[pair].states &= ~segment.states;
    for (const Message &message : instruction.messages)
      if (message.receive && message.direct)
        write(message.segment, nullptr);
  }

  /// Nothing of the states stays, but for what is copied from its own place.
  void write(const Segment &to, const Segment *from) {
    bool stays = from && isSamePlace(*from, to);
    for (size_t pair : ofDestination[to.shard])
      if (!stays || from->shard != pairs[pair].source)
        pairs[pair].states &= ~to.states;
  }

  const PlanCommon &common;
  const RankProgram &program;
  std::vector<Pair> pairs;
  std::vector<std::vector<size_t>> ofSource, ofDestination; // pairs, by shard
};

} // namespace

bool areAlike(const Family &family, const ShardRecord &source,
              const ShardRecord &destination, unsigned state) {
  const StateInfo &info = family.states[state];
  return source.family == destination.family &&
         source.dims == destination.dims && source.flat == destination.flat &&
         (!source.flat || source.range == destination.range) && info.inSource &&
         info.inDestination && info.sourceDType == info.destinationDType;
}

bool isSamePlace(const Segment &from, const Segment &to) {
  return from.side == Side::Source && to.side == Side::Destination &&
         from.states == to.states && from.offset == to.offset &&
         from.size == to.size;
}

std::vector<StayingState> stayingStates(const PlanCommon &common,
                                        const RankProgram &program) {
  if (common.summary.mode != MemoryMode::Flat)
    return {};
  return Search(common, program).run();
}

uint64_t stayingBytes(const PlanCommon &common, const RankProgram &program) {
  uint64_t bytes = 0;
  for (const StayingState &own : stayingStates(common, program)) {
    const ShardRecord &shard = program.destination[own.destination];
    bytes += shardBytes(common.families[shard.family],
                        {shard.family, uint64_t(1) << own.state, shard.dims,
                         shard.flat, shard.range},
                        Side::Destination);
  }
  return bytes;
}

} // namespace dtrt
