//===- StayingStates.cpp - Storage that is the same before and after ------===//

#include "dtrt/format/StayingStates.h"

#include "dtrt/format/ShardView.h"

#include <algorithm>
#include <map>

namespace dtrt {

namespace {

/// What shards have in common that are alike.
std::vector<int64_t> keyOf(const ShardRecord &shard) {
  std::vector<int64_t> out = {int64_t(shard.family), int64_t(shard.flat),
                              int64_t(shard.view)};
  if (shard.flat)
    out.insert(out.end(), {shard.range.lo, shard.range.hi});
  for (const auto &intervals : shard.dims) {
    out.push_back(int64_t(intervals.size()));
    for (const Interval &interval : intervals)
      out.insert(out.end(), {interval.lo, interval.hi});
  }
  return out;
}

/// A source and a destination shard that are alike, and the states that stay.
struct Pair {
  uint32_t source = 0, destination = 0;
  uint64_t states = 0;
  uint64_t copied = 0; // of them, those that copies name
};

class Search {
public:
  Search(const PlanCommon &common, const RankProgram &program)
      : common(common), program(program), ofSource(program.source.size()),
        ofDestination(program.destination.size()) {
    pairAll();
  }

  std::vector<StayingState> run() {
    if (pairs.empty())
      return {};
    for (const Instruction &instruction : program.instructions)
      look(instruction);
    std::vector<StayingState> out;
    for (const Pair &pair : pairs)
      for (unsigned state : statesOf(pair.states & pair.copied))
        out.push_back({pair.source, pair.destination, state});
    return out;
  }

private:
  /// Shards of a side that are alike.
  struct Group {
    std::vector<uint32_t> shards;
    uint64_t once = 0, twice = 0; // states that one has, that several have

    void add(uint32_t number, uint64_t states) {
      shards.push_back(number);
      twice |= once & states;
      once |= states;
    }
    uint64_t single() const { return once & ~twice; }
  };
  struct Alike {
    Group source, destination;
  };

  bool canStay(const Family &family) const {
    return common.summary.granularity != Granularity::Tensor ||
           family.storage.empty();
  }
  void note(const ShardRecord &shard, uint32_t number, Side side,
            std::map<std::vector<int64_t>, Alike> &alike) const {
    if (!canStay(common.families[shard.family]))
      return;
    Alike &own = alike[keyOf(shard)];
    (side == Side::Source ? own.source : own.destination)
        .add(number, shard.states);
  }
  /// The one that has the state.
  static uint32_t shardWith(const std::vector<ShardRecord> &all,
                            const Group &group, unsigned state) {
    return *std::find_if(
        group.shards.begin(), group.shards.end(),
        [&](uint32_t shard) { return all[shard].states >> state & 1; });
  }

  /// As if all that is alike stayed.
  void pairAll() {
    std::map<std::vector<int64_t>, Alike> alike;
    for (uint32_t i = 0; i < program.source.size(); ++i)
      note(program.source[i], i, Side::Source, alike);
    for (uint32_t i = 0; i < program.destination.size(); ++i)
      note(program.destination[i], i, Side::Destination, alike);
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> found;
    for (const auto &[key, own] : alike)
      for (unsigned state :
           statesOf(own.source.single() & own.destination.single())) {
        uint32_t from = shardWith(program.source, own.source, state);
        uint32_t to = shardWith(program.destination, own.destination, state);
        const ShardRecord &after = program.destination[to];
        if (haveAlikeMembers(common.families[after.family],
                             program.source[from], after, state))
          found[{to, from}] |= uint64_t(1) << state;
      }
    for (const auto &[numbers, states] : found) {
      auto [to, from] = numbers;
      ofSource[from].push_back(pairs.size());
      ofDestination[to].push_back(pairs.size());
      pairs.push_back({from, to, states, 0});
    }
  }

  void look(const Instruction &instruction) {
    const std::vector<Segment> &segments = instruction.segments;
    if (instruction.op == Opcode::Copy)
      for (size_t i = 0; i + 1 < segments.size(); i += 2)
        write(segments[i + 1], &segments[i]);
    if (instruction.op == Opcode::Create || instruction.op == Opcode::Unpack)
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
    for (size_t number : ofDestination[to.shard]) {
      Pair &pair = pairs[number];
      bool isOwn = stays && from->shard == pair.source;
      if (isOwn)
        pair.copied |= to.states;
      else
        pair.states &= ~to.states;
    }
  }

  const PlanCommon &common;
  const RankProgram &program;
  std::vector<Pair> pairs;                                  // by destination
  std::vector<std::vector<size_t>> ofSource, ofDestination; // pairs, by shard
};

} // namespace

bool haveAlikeMembers(const Family &family, const ShardRecord &source,
                      const ShardRecord &destination, unsigned state) {
  const StateInfo &info = family.states[state];
  // What has a name of its own on a side is another tensor there.
  if (source.view != kNoView || destination.view != kNoView)
    return false;
  if (source.family != destination.family || source.flat != destination.flat)
    return false;
  for (size_t dim = family.numLeading(); dim < source.dims.size(); ++dim)
    if (source.dims[dim] != destination.dims[dim])
      return false;
  return (!source.flat || source.range == destination.range) && info.inSource &&
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

std::vector<uint64_t> stayingMasks(const PlanCommon &common,
                                   const RankProgram &program) {
  std::vector<uint64_t> masks(program.destination.size());
  for (const StayingState &own : stayingStates(common, program))
    masks[own.destination] |= uint64_t(1) << own.state;
  return masks;
}

Segment movedPart(const Segment &to, const std::vector<uint64_t> &masks) {
  Segment moved = to;
  moved.states &= ~masks[to.shard];
  return moved;
}

uint64_t stayingBytes(const PlanCommon &common, const RankProgram &program) {
  uint64_t bytes = 0;
  std::vector<uint64_t> masks = stayingMasks(common, program);
  for (size_t i = 0; i < masks.size(); ++i) {
    ShardRecord shard = program.destination[i];
    shard.states = masks[i];
    bytes +=
        shardBytes(common.families[shard.family], shard, Side::Destination);
  }
  return bytes;
}

} // namespace dtrt
