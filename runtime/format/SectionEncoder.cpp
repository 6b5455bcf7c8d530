//===- SectionEncoder.cpp - Plan structs to FlatBuffers sections ----------===//

#include "SectionEncoder.h"

#include "dtrt/format/Features.h"
#include "plan_generated.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <limits>

namespace dtrt {

namespace {

/// Lists of int64, each stored once; a list is known by where it starts.
class Pool {
public:
  Pool() : table(1024) {}

  uint32_t add(const int64_t *list, size_t size) {
    uint64_t hash = XXH3_64bits(list, size * sizeof(int64_t));
    Entry &entry = find(hash, list, size);
    if (entry.used)
      return entry.start;
    entry = {hash, uint32_t(numbers.size()), true};
    uint32_t start = entry.start;
    numbers.insert(numbers.end(), list, list + size);
    if (++count * 2 > table.size())
      grow();
    return start;
  }
  template <typename List> uint32_t add(const List &list) {
    return add(list.data(), list.size());
  }

  std::vector<int64_t> numbers;

private:
  struct Entry {
    uint64_t hash = 0;
    uint32_t start = 0;
    bool used = false;
  };

  /// The entry of an equal list, or the free one to put it in.
  Entry &find(uint64_t hash, const int64_t *list, size_t size) {
    size_t mask = table.size() - 1;
    for (size_t at = hash & mask;; at = (at + 1) & mask) {
      Entry &entry = table[at];
      if (!entry.used ||
          (entry.hash == hash && entry.start + size <= numbers.size() &&
           std::equal(list, list + size, numbers.begin() + entry.start)))
        return entry;
    }
  }

  void grow() {
    std::vector<Entry> old(table.size() * 2);
    old.swap(table);
    size_t mask = table.size() - 1;
    for (const Entry &entry : old) {
      if (!entry.used)
        continue;
      size_t at = entry.hash & mask;
      while (table[at].used)
        at = (at + 1) & mask;
      table[at] = entry;
    }
  }

  std::vector<Entry> table; // open addressing, at most half full
  size_t count = 0;
};

class ProgramEncoder {
public:
  explicit ProgramEncoder(const RankProgram &program) : program(program) {}

  Status encode(flatbuffers::FlatBufferBuilder &builder) {
    for (const ShardRecord &shard : program.source)
      source.push_back(encodeShard(shard));
    for (const ShardRecord &shard : program.destination)
      destination.push_back(encodeShard(shard));
    takeRoom();
    for (const Instruction &instruction : program.instructions)
      DTRT_RETURN_IF_ERROR(addInstruction(instruction));
    if (pool.numbers.size() > std::numeric_limits<uint32_t>::max())
      return makeError("program of device ", program.device, " holds ",
                       pool.numbers.size(), " coordinates, more than 2^32");
    flatbuffers::Offset<flatbuffers::Vector<const fb::Collective *>> calls;
    if (!collectives.empty())
      calls = builder.CreateVectorOfStructs(collectives);
    auto root = fb::CreateProgram(
        builder, program.device, program.sourceRank, program.destinationRank,
        program.stagingBytes, builder.CreateVector(pool.numbers),
        builder.CreateVectorOfStructs(source),
        builder.CreateVectorOfStructs(destination),
        builder.CreateVectorOfStructs(segments),
        builder.CreateVectorOfStructs(messages),
        builder.CreateVectorOfStructs(instructions), calls);
    builder.Finish(root);
    return {};
  }

private:
  /// For all instructions, and what they have.
  void takeRoom() {
    size_t numSegments = 0, numMessages = 0;
    for (const Instruction &instruction : program.instructions) {
      numSegments += instruction.segments.size();
      numMessages += instruction.messages.size();
    }
    instructions.reserve(program.instructions.size());
    segments.reserve(numSegments + numMessages);
    messages.reserve(numMessages);
  }

  fb::Shard encodeShard(const ShardRecord &shard) {
    std::vector<int64_t> dims;
    for (const auto &intervals : shard.dims) {
      dims.push_back(int64_t(intervals.size()));
      for (const Interval &interval : intervals) {
        dims.push_back(interval.lo);
        dims.push_back(interval.hi);
      }
    }
    return fb::Shard(shard.states, shard.range.lo, shard.range.hi, shard.family,
                     pool.add(dims), uint16_t(shard.dims.size()), shard.flat,
                     shard.view + 1);
  }

  Status addSegment(const Segment &segment) {
    const auto &shards =
        segment.side == Side::Source ? program.source : program.destination;
    if (segment.shard >= shards.size())
      return makeError("device ", program.device, ": segment names shard ",
                       segment.shard, " of ", shards.size());
    const ShardRecord &shard = shards[segment.shard];
    if (shard.family != segment.family)
      return makeError("device ", program.device, ": segment of family ",
                       segment.family, " names a shard of family ",
                       shard.family);
    size_t rank = shard.dims.size();
    if (segment.offset.size() != rank || segment.size.size() != rank)
      return makeError("device ", program.device, ": segment has ",
                       segment.offset.size(), " offsets and ",
                       segment.size.size(), " sizes, its shard ", rank,
                       " dims");
    const int64_t states = int64_t(segment.states);
    segments.emplace_back(segment.shard << 1 | uint32_t(segment.side),
                          pool.add(&states, 1), pool.add(segment.offset),
                          pool.add(segment.size));
    return {};
  }

  /// Of no shard, so that it says its family and dims itself.
  Status addRelayed(const Segment &segment) {
    if (segment.offset.size() != segment.size.size())
      return makeError("device ", program.device, ": relays a segment of ",
                       segment.offset.size(), " offsets and ",
                       segment.size.size(), " sizes");
    std::vector<int64_t> offset = {int64_t(segment.offset.size())};
    offset.insert(offset.end(), segment.offset.begin(), segment.offset.end());
    const int64_t states = int64_t(segment.states);
    segments.emplace_back(segment.family, pool.add(&states, 1),
                          pool.add(offset), pool.add(segment.size));
    return {};
  }

  Status addMessage(const Message &message) {
    uint32_t index = 0;
    if (message.direct) {
      index = uint32_t(segments.size());
      DTRT_RETURN_IF_ERROR(addSegment(message.segment));
    }
    messages.emplace_back(message.bytes, message.direct ? 0 : message.slot,
                          message.peer, index, message.receive, message.direct);
    return {};
  }

  Status addInstruction(const Instruction &instruction) {
    size_t first = 0, count = 0;
    if (instruction.op == Opcode::Group) {
      first = messages.size();
      count = instruction.messages.size();
      for (const Message &message : instruction.messages)
        DTRT_RETURN_IF_ERROR(addMessage(message));
      if (const auto &call = instruction.collective)
        collectives.emplace_back(call->blockBytes, call->giveSlot,
                                 call->getSlot, uint32_t(instructions.size()),
                                 call->members, call->root,
                                 uint8_t(call->kind));
    } else {
      first = segments.size();
      count = instruction.segments.size();
      bool isRelay = instruction.op == Opcode::Relay;
      for (const Segment &segment : instruction.segments)
        DTRT_RETURN_IF_ERROR(isRelay ? addRelayed(segment)
                                     : addSegment(segment));
    }
    bool staged = namesStaging(instruction.op);
    instructions.emplace_back(staged ? instruction.slot : 0,
                              staged ? instruction.bytes : 0, instruction.wave,
                              uint32_t(first), uint32_t(count),
                              uint8_t(instruction.op));
    return {};
  }

  const RankProgram &program;
  Pool pool;
  std::vector<fb::Shard> source, destination;
  std::vector<fb::Segment> segments;
  std::vector<fb::Message> messages;
  std::vector<fb::Instruction> instructions;
  std::vector<fb::Collective> collectives;
};

/// The lists of leading dims, one after the other.
flatbuffers::Offset<flatbuffers::Vector<int64_t>>
encodeNumbers(const std::vector<LeadingDim> &leading,
              flatbuffers::FlatBufferBuilder &builder) {
  std::vector<int64_t> numbers;
  for (const LeadingDim &dim : leading)
    numbers.insert(numbers.end(), dim.list.begin(), dim.list.end());
  return numbers.empty() ? 0 : builder.CreateVector(numbers);
}

flatbuffers::Offset<fb::Family>
encodeFamily(const Family &family, flatbuffers::FlatBufferBuilder &builder) {
  std::vector<fb::LeadingDim> leading;
  for (const LeadingDim &dim : family.leading)
    leading.emplace_back(dim.first, dim.step, dim.count);
  std::vector<flatbuffers::Offset<fb::State>> states;
  for (const StateInfo &state : family.states)
    states.push_back(fb::CreateState(
        builder, builder.CreateString(state.name), uint8_t(state.sourceDType),
        uint8_t(state.destinationDType), state.derivedFrom, state.inSource,
        state.inDestination));
  auto name = builder.CreateString(family.name);
  auto leadingVector = builder.CreateVectorOfStructs(leading);
  auto shape = builder.CreateVector(family.shape);
  auto stateVector = builder.CreateVector(states);
  flatbuffers::Offset<flatbuffers::String> storage;
  if (!family.storage.empty())
    storage = builder.CreateString(family.storage);
  return fb::CreateFamily(builder, name, leadingVector, shape, stateVector,
                          family.partial, storage,
                          encodeNumbers(family.leading, builder));
}

flatbuffers::Offset<fb::View>
encodeView(const NamedView &view, flatbuffers::FlatBufferBuilder &builder) {
  std::vector<fb::LeadingDim> leading;
  for (const LeadingDim &dim : view.leading)
    leading.emplace_back(dim.first, dim.step, dim.count);
  std::vector<flatbuffers::Offset<fb::ViewDim>> dims;
  for (const ViewDim &dim : view.dims) {
    std::vector<int64_t> bounds;
    for (const Interval &interval : dim.intervals)
      bounds.insert(bounds.end(), {interval.lo, interval.hi});
    dims.push_back(
        fb::CreateViewDim(builder, builder.CreateVector(bounds), dim.isIndex));
  }
  auto name = builder.CreateString(view.name);
  auto leadingVector = builder.CreateVectorOfStructs(leading);
  auto dimVector = builder.CreateVector(dims);
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> order;
  if (!view.order.isIdentity()) {
    std::vector<int64_t> places = view.order.dims(unsigned(view.dims.size()));
    order = builder.CreateVector(
        std::vector<uint8_t>(places.begin(), places.end()));
  }
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> parts;
  if (!view.parts.empty())
    parts = builder.CreateVector(view.parts);
  flatbuffers::Offset<flatbuffers::Vector<uint64_t>> fill;
  if (!view.fill.empty())
    fill = builder.CreateVector(view.fill);
  return fb::CreateView(builder, uint8_t(view.side), view.family, name,
                        leadingVector, dimVector, order, parts, fill,
                        encodeNumbers(view.leading, builder));
}

flatbuffers::Offset<fb::Summary>
encodeSummary(const PlanSummary &s, flatbuffers::FlatBufferBuilder &builder) {
  auto coverage = builder.CreateString(s.coverage);
  auto deadlockFree = builder.CreateString(s.deadlockFree);
  auto memorySafe = builder.CreateString(s.memorySafe);
  auto solver = builder.CreateString(s.solver);
  auto verifier = builder.CreateString(s.verifier);
  return fb::CreateSummary(
      builder, s.bytesDestination, s.bytesLocal, s.bytesWire,
      s.bytesWireLowerBound, s.bytesInterNode, s.bytesInterNodeLowerBound,
      s.timePredicted, s.timeLowerBound, uint8_t(s.mode), s.stagingLimit,
      s.stagingPeak, s.devicePeak, s.deviceLimit, s.sourceMax, s.destinationMax,
      s.waves, s.messages, s.multicasts, coverage, deadlockFree, memorySafe,
      solver, verifier, s.solverSteps, uint8_t(s.granularity), s.bytesInPlace,
      s.bytesRelayed, s.timeWithoutRelays, s.libraryCollectives, s.overNccl);
}

using MemberSets = flatbuffers::Vector<flatbuffers::Offset<fb::MemberSet>>;

flatbuffers::Offset<MemberSets>
encodeMemberSets(const std::vector<std::vector<uint32_t>> &memberSets,
                 flatbuffers::FlatBufferBuilder &builder) {
  std::vector<flatbuffers::Offset<fb::MemberSet>> sets;
  for (const std::vector<uint32_t> &devices : memberSets)
    sets.push_back(fb::CreateMemberSet(builder, builder.CreateVector(devices)));
  return sets.empty() ? flatbuffers::Offset<MemberSets>()
                      : builder.CreateVector(sets);
}

} // namespace

Status encodeProgram(const RankProgram &program,
                     flatbuffers::FlatBufferBuilder &builder) {
  return ProgramEncoder(program).encode(builder);
}

void encodeCommon(const PlanCommon &common, FeatureSet features,
                  flatbuffers::FlatBufferBuilder &builder) {
  std::vector<flatbuffers::Offset<fb::Family>> families;
  for (const Family &family : common.families)
    families.push_back(encodeFamily(family, builder));
  std::vector<flatbuffers::Offset<fb::View>> views;
  for (const NamedView &view : common.views)
    views.push_back(encodeView(view, builder));
  auto version = builder.CreateString(common.compilerVersion);
  auto request = builder.CreateString(common.requestHash);
  auto sourcePrint = builder.CreateString(common.sourceFingerprint);
  auto destinationPrint = builder.CreateString(common.destinationFingerprint);
  auto sourceDevices = builder.CreateVector(common.sourceDevices);
  auto destinationDevices = builder.CreateVector(common.destinationDevices);
  auto familyVector = builder.CreateVector(families);
  auto summary = encodeSummary(common.summary, builder);
  auto sourceLayout = builder.CreateString(common.sourceLayout);
  auto destinationLayout = builder.CreateString(common.destinationLayout);
  fb::Cluster cluster(common.cluster.devicesPerNode,
                      common.cluster.intraNodeGBps,
                      common.cluster.interNodeGBps, common.cluster.latencyUs,
                      common.cluster.packGBps, common.cluster.packLaunchUs);
  std::vector<fb::Link> links;
  for (const Link &link : common.cluster.links)
    links.emplace_back(link.from.index, link.to.index, link.GBps,
                       link.from.isNode, link.to.isNode);
  auto linkVector = builder.CreateVectorOfStructs(links);
  auto featureVector = builder.CreateVectorOfStrings(featureNames(features));
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<fb::View>>>
      viewVector;
  if (!views.empty())
    viewVector = builder.CreateVector(views);
  auto memberSets = encodeMemberSets(common.memberSets, builder);
  builder.Finish(fb::CreateCommon(
      builder, version, request, sourcePrint, destinationPrint,
      common.sourceWorld, common.destinationWorld, sourceDevices,
      destinationDevices, familyVector, &cluster, summary, sourceLayout,
      destinationLayout, linkVector, common.cluster.devicesPerNic,
      featureVector, viewVector, common.cluster.pxn, common.cluster.launchUs,
      common.cluster.channelsPerPeer, common.cluster.intraChannelGBps,
      common.cluster.interChannelGBps, common.compression.belowGBps,
      common.compression.blockBytes, common.cluster.relays,
      uint8_t(common.cluster.collectives), memberSets,
      common.cluster.multicastUs, common.cluster.copyEngineUs));
}

} // namespace dtrt
