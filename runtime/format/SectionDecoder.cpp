//===- SectionDecoder.cpp - FlatBuffers sections to plan structs ----------===//

#include "SectionDecoder.h"

#include "dtrt/format/Features.h"
#include "dtrt/format/Text.h"
#include "plan_generated.h"

#include <algorithm>

namespace dtrt {

namespace {

/// The schema nests three tables deep, and the largest plans have some
/// thousand families with a handful of states each.
constexpr flatbuffers::uoffset_t kMaxDepth = 8;
constexpr flatbuffers::uoffset_t kMaxTables = 1 << 20;

/// Dims of a family; leading dims included.
constexpr unsigned kMaxRank = 32;

template <typename T>
Result<const T *> rootOf(const uint8_t *data, size_t size, const char *what) {
  flatbuffers::Verifier verifier(data, size, kMaxDepth, kMaxTables);
  if (!verifier.VerifyBuffer<T>(nullptr))
    return makeError(what, " is not a valid FlatBuffers buffer");
  return flatbuffers::GetRoot<T>(data);
}

template <typename T> size_t count(const T *vector) {
  return vector ? vector->size() : 0;
}

/// The FlatBuffers verifier does not look at the alignment of a vector's
/// elements; `vectors` are those of structs and 64-bit numbers.
template <typename... Vectors>
Status checkAligned(const char *what, const Vectors *...vectors) {
  auto misaligned = [](const auto *vector) {
    return vector && vector->size() > 0 &&
           reinterpret_cast<uintptr_t>(vector->Data()) % 8 != 0;
  };
  if ((misaligned(vectors) || ...))
    return makeError(what, " has a vector that is not 8-byte aligned");
  return {};
}

class ProgramDecoder {
public:
  ProgramDecoder(const fb::Program &in, ReadBudget &budget)
      : in(in), budget(budget), poolSize(count(in.pool())) {}

  Result<RankProgram> decode() {
    DTRT_RETURN_IF_ERROR(checkAligned("program section", in.pool(), in.source(),
                                      in.destination(), in.messages(),
                                      in.instructions(), in.collectives()));
    out.device = in.device();
    out.sourceRank = in.source_rank();
    out.destinationRank = in.destination_rank();
    out.stagingBytes = in.staging_bytes();
    DTRT_RETURN_IF_ERROR(shards(in.source(), out.source));
    DTRT_RETURN_IF_ERROR(shards(in.destination(), out.destination));
    DTRT_RETURN_IF_ERROR(budget.charge("instructions", count(in.instructions()),
                                       sizeof(Instruction)));
    out.instructions.reserve(count(in.instructions()));
    for (size_t i = 0; i < count(in.instructions()); ++i) {
      Status status = decodeInstruction(*in.instructions()->Get(i),
                                        out.instructions.emplace_back());
      if (!status.ok())
        return makeError("instruction ", i, ": ", status.message());
    }
    DTRT_RETURN_IF_ERROR(decodeCollectives());
    return std::move(out);
  }

private:
  Status checkPool(uint64_t first, uint64_t numbers) const {
    if (first + numbers <= poolSize)
      return {};
    return makeError("coordinates [", first, ", ", first + numbers,
                     ") are outside the pool of ", poolSize);
  }

  Status shards(const flatbuffers::Vector<const fb::Shard *> *from,
                std::vector<ShardRecord> &to) {
    DTRT_RETURN_IF_ERROR(
        budget.charge("shards", count(from), sizeof(ShardRecord)));
    to.reserve(count(from));
    for (size_t i = 0; i < count(from); ++i) {
      auto shard = decodeShard(*from->Get(i));
      DTRT_RETURN_IF_ERROR(shard);
      to.push_back(std::move(*shard));
    }
    return {};
  }

  Result<ShardRecord> decodeShard(const fb::Shard &shard) {
    ShardRecord record;
    record.family = shard.family();
    record.states = shard.states();
    record.flat = shard.flat();
    record.view = shard.view() - 1; // 0: kNoView
    if (record.flat)
      record.range = {shard.range_lo(), shard.range_hi()};
    if (shard.rank() > kMaxRank)
      return makeError("shard has ", shard.rank(), " dims, limit ", kMaxRank);
    DTRT_RETURN_IF_ERROR(budget.charge("dims of shards", shard.rank(),
                                       sizeof(std::vector<Interval>)));
    record.dims.reserve(shard.rank());
    uint64_t at = shard.dims();
    for (unsigned dim = 0; dim < shard.rank(); ++dim) {
      DTRT_RETURN_IF_ERROR(checkPool(at, 1));
      int64_t intervals = in.pool()->Get(at++);
      if (intervals < 0 || uint64_t(intervals) > poolSize)
        return makeError("shard has ", intervals, " intervals in dim ", dim);
      DTRT_RETURN_IF_ERROR(checkPool(at, 2 * uint64_t(intervals)));
      DTRT_RETURN_IF_ERROR(budget.charge(
          "intervals of shards", uint64_t(intervals), sizeof(Interval)));
      auto &ranges = record.dims.emplace_back();
      ranges.reserve(size_t(intervals));
      for (int64_t i = 0; i < intervals; ++i, at += 2)
        ranges.push_back({in.pool()->Get(at), in.pool()->Get(at + 1)});
    }
    return record;
  }

  Status numbers(uint64_t first, size_t rank, DimVector &to) {
    DTRT_RETURN_IF_ERROR(checkPool(first, rank));
    if (rank > DimVector::kInline) // else they are part of their segment
      DTRT_RETURN_IF_ERROR(budget.charge("coordinates", rank, sizeof(int64_t)));
    to.resize(rank);
    for (size_t dim = 0; dim < rank; ++dim)
      to[dim] = in.pool()->Get(first + dim);
    return {};
  }

  /// Into the place where it stays: there are millions of them.
  Status decodeSegment(uint64_t index, Segment &segment) {
    if (index >= count(in.segments()))
      return makeError("segment ", index, " of ", count(in.segments()));
    const fb::Segment &from = *in.segments()->Get(index);
    segment.side = Side(from.shard() & 1);
    segment.shard = from.shard() >> 1;
    const auto &shards =
        segment.side == Side::Source ? out.source : out.destination;
    if (segment.shard >= shards.size())
      return makeError("shard ", segment.shard, " of ", shards.size());
    const ShardRecord &shard = shards[segment.shard];
    segment.family = shard.family;
    DTRT_RETURN_IF_ERROR(checkPool(from.states(), 1));
    segment.states = uint64_t(in.pool()->Get(from.states()));
    DTRT_RETURN_IF_ERROR(
        numbers(from.offset(), shard.dims.size(), segment.offset));
    return numbers(from.size(), shard.dims.size(), segment.size);
  }

  Status decodeRelayed(uint64_t index, Segment &segment) {
    if (index >= count(in.segments()))
      return makeError("segment ", index, " of ", count(in.segments()));
    const fb::Segment &from = *in.segments()->Get(index);
    segment.family = from.shard();
    segment.shard = kNoShard;
    DTRT_RETURN_IF_ERROR(checkPool(from.states(), 1));
    segment.states = uint64_t(in.pool()->Get(from.states()));
    DTRT_RETURN_IF_ERROR(checkPool(from.offset(), 1));
    int64_t rank = in.pool()->Get(from.offset());
    if (rank < 0 || rank > int64_t(kMaxRank))
      return makeError("relays a segment of ", rank, " dims, limit ", kMaxRank);
    DTRT_RETURN_IF_ERROR(
        numbers(uint64_t(from.offset()) + 1, size_t(rank), segment.offset));
    return numbers(from.size(), size_t(rank), segment.size);
  }

  Status decodeMessage(uint64_t index, Message &message) {
    if (index >= count(in.messages()))
      return makeError("message ", index, " of ", count(in.messages()));
    const fb::Message &from = *in.messages()->Get(index);
    message.receive = from.receive();
    message.peer = from.peer();
    message.bytes = from.bytes();
    message.direct = from.direct();
    if (message.direct)
      return decodeSegment(from.segment(), message.segment);
    message.slot = from.slot();
    return {};
  }

  /// Every element of the lists may be used once only, or a small file could
  /// unpack to more memory than the machine has.
  Status takeShare(uint64_t first, uint64_t used, uint64_t &next,
                   const char *what) {
    if (first != next)
      return makeError(what, " start at ", first, ", expected ", next);
    next += used;
    return {};
  }

  Status decodeOperands(const fb::Instruction &from, Instruction &to) {
    uint64_t end = uint64_t(from.first()) + from.count();
    switch (to.op) {
    case Opcode::Group:
      DTRT_RETURN_IF_ERROR(
          takeShare(from.first(), from.count(), nextMessage, "messages"));
      DTRT_RETURN_IF_ERROR(
          budget.charge("messages", from.count(), sizeof(Message)));
      to.messages.reserve(
          std::min<uint64_t>(from.count(), count(in.messages())));
      for (uint64_t i = from.first(); i < end; ++i)
        DTRT_RETURN_IF_ERROR(decodeMessage(i, to.messages.emplace_back()));
      return {};
    default:
      if (from.first() < nextSegment)
        return makeError("segments start at ", from.first(),
                         ", expected at least ", nextSegment);
      nextSegment = end;
      DTRT_RETURN_IF_ERROR(
          budget.charge("segments", from.count(), sizeof(Segment)));
      to.segments.reserve(
          std::min<uint64_t>(from.count(), count(in.segments())));
      for (uint64_t i = from.first(); i < end; ++i) {
        Segment &segment = to.segments.emplace_back();
        DTRT_RETURN_IF_ERROR(to.op == Opcode::Relay
                                 ? decodeRelayed(i, segment)
                                 : decodeSegment(i, segment));
      }
      return {};
    }
  }

  Status decodeInstruction(const fb::Instruction &from,
                           Instruction &instruction) {
    if (from.op() > uint8_t(Opcode::Relay))
      return makeError("unknown opcode ", int(from.op()));
    instruction.op = Opcode(from.op());
    instruction.wave = from.wave();
    if (namesStaging(instruction.op)) {
      instruction.slot = from.slot();
      instruction.bytes = from.bytes();
    }
    return decodeOperands(from, instruction);
  }

  /// Each says which group it is.
  Status decodeCollectives() {
    DTRT_RETURN_IF_ERROR(budget.charge("collectives", count(in.collectives()),
                                       sizeof(GroupCollective)));
    uint64_t next = 0;
    for (size_t i = 0; i < count(in.collectives()); ++i) {
      const fb::Collective &from = *in.collectives()->Get(i);
      uint32_t index = from.instruction();
      if (index < next || index >= out.instructions.size() ||
          out.instructions[index].op != Opcode::Group)
        return makeError("collective ", i, " is of instruction ", index,
                         ", expected a group from ", next, " on");
      if (from.kind() >= kNumCollectiveKinds)
        return makeError("collective ", i, " has unknown kind ",
                         int(from.kind()));
      next = uint64_t(index) + 1;
      out.instructions[index].collective = {
          CollectiveKind(from.kind()), from.members(),   from.root(),
          from.block_bytes(),          from.give_slot(), from.get_slot()};
    }
    return {};
  }

  const fb::Program &in;
  ReadBudget &budget;
  uint64_t poolSize = 0;
  uint64_t nextSegment = 0, nextMessage = 0;
  RankProgram out;
};

class CommonDecoder {
public:
  CommonDecoder(const fb::Common &from, ReadBudget &budget)
      : from(from), budget(budget) {}

  Result<PlanCommon> decode();

private:
  Status text(const char *table, const flatbuffers::String *string,
              std::string &to) {
    DTRT_RETURN_IF_ERROR(budget.charge(table, count(string), 1));
    if (string)
      to = string->str();
    return {};
  }
  template <typename T>
  Status list(const char *table, const flatbuffers::Vector<T> *vector,
              std::vector<T> &to) {
    DTRT_RETURN_IF_ERROR(budget.charge(table, count(vector), sizeof(T)));
    if (vector)
      to.assign(vector->begin(), vector->end());
    return {};
  }

  Result<DType> dtype(uint8_t value, const Family &family) const {
    if (value > uint8_t(DType::Bool))
      return makeError("family ", to.families.size(), " '",
                       shortened(family.name), "' has unknown dtype ",
                       int(value));
    return DType(value);
  }

  Status decodeState(const fb::State &state, Family &family);
  Status decodeFamily(const fb::Family &from);
  Status decodeLeading(const flatbuffers::Vector<const fb::LeadingDim *> *from,
                       const flatbuffers::Vector<int64_t> *numbers,
                       std::vector<LeadingDim> &leading);
  Status decodeView(const fb::View &from);
  Status decodeSummary(const fb::Summary &from);
  Status decodeMemberSets();
  Status decodeCluster(const fb::Cluster &cluster);

  const fb::Common &from;
  ReadBudget &budget;
  PlanCommon to;
};

Status CommonDecoder::decodeState(const fb::State &state, Family &family) {
  auto source = dtype(state.source_dtype(), family);
  DTRT_RETURN_IF_ERROR(source);
  auto destination = dtype(state.destination_dtype(), family);
  DTRT_RETURN_IF_ERROR(destination);
  std::string name;
  DTRT_RETURN_IF_ERROR(text("bytes of names of states", state.name(), name));
  family.states.push_back({std::move(name), *source, *destination,
                           state.derived_from(), state.in_source(),
                           state.in_destination()});
  return {};
}

Status CommonDecoder::decodeLeading(
    const flatbuffers::Vector<const fb::LeadingDim *> *from,
    const flatbuffers::Vector<int64_t> *numbers,
    std::vector<LeadingDim> &leading) {
  DTRT_RETURN_IF_ERROR(
      budget.charge("leading dims", count(from), sizeof(LeadingDim)));
  DTRT_RETURN_IF_ERROR(checkAligned("common section", numbers));
  DTRT_RETURN_IF_ERROR(
      budget.charge("numbers of members", count(numbers), sizeof(int64_t)));
  flatbuffers::uoffset_t at = 0, end = flatbuffers::uoffset_t(count(numbers));
  for (size_t i = 0; i < count(from); ++i) {
    LeadingDim dim = {from->Get(i)->first(), from->Get(i)->step(),
                      from->Get(i)->count()};
    if (dim.step == 0 && at < end) {
      if (dim.count < 1 || dim.count > int64_t(end - at))
        return makeError("leading dim lists ", dim.count, " numbers of ",
                         end - at);
      for (int64_t taken = 0; taken < dim.count; ++taken)
        dim.list.push_back(numbers->Get(at++));
    }
    leading.push_back(std::move(dim));
  }
  if (at != end)
    return makeError("has ", end - at, " numbers that no leading dim lists");
  return {};
}

Status CommonDecoder::decodeFamily(const fb::Family &from) {
  DTRT_RETURN_IF_ERROR(
      checkAligned("common section", from.leading(), from.shape()));
  Family family;
  DTRT_RETURN_IF_ERROR(
      text("bytes of names of families", from.name(), family.name));
  DTRT_RETURN_IF_ERROR(
      decodeLeading(from.leading(), from.numbers(), family.leading));
  DTRT_RETURN_IF_ERROR(list("dims of families", from.shape(), family.shape));
  if (family.rank() > kMaxRank)
    return makeError("family ", to.families.size(), " has ", family.rank(),
                     " dims, limit ", kMaxRank);
  DTRT_RETURN_IF_ERROR(budget.charge("states of families", count(from.states()),
                                     sizeof(StateInfo)));
  for (size_t i = 0; i < count(from.states()); ++i)
    DTRT_RETURN_IF_ERROR(decodeState(*from.states()->Get(i), family));
  family.partial = from.partial();
  DTRT_RETURN_IF_ERROR(text("bytes of names", from.storage(), family.storage));
  to.families.push_back(std::move(family));
  return {};
}

Status CommonDecoder::decodeView(const fb::View &from) {
  DTRT_RETURN_IF_ERROR(checkAligned("common section", from.leading()));
  if (from.side() > uint8_t(Side::Destination))
    return makeError("view ", to.views.size(), " is of side ",
                     int(from.side()));
  NamedView view;
  view.side = Side(from.side());
  view.family = from.family();
  DTRT_RETURN_IF_ERROR(text("bytes of names of views", from.name(), view.name));
  DTRT_RETURN_IF_ERROR(
      decodeLeading(from.leading(), from.numbers(), view.leading));
  DTRT_RETURN_IF_ERROR(
      budget.charge("dims of views", count(from.dims()), sizeof(ViewDim)));
  for (size_t d = 0; d < count(from.dims()); ++d) {
    const fb::ViewDim &dim = *from.dims()->Get(d);
    DTRT_RETURN_IF_ERROR(checkAligned("common section", dim.bounds()));
    size_t ends = count(dim.bounds());
    if (ends % 2 != 0)
      return makeError("view ", to.views.size(), " has ", ends,
                       " ends of intervals in a dim");
    DTRT_RETURN_IF_ERROR(
        budget.charge("intervals of views", ends / 2, sizeof(Interval)));
    view.dims.push_back({{}, dim.index()});
    for (size_t i = 0; i < ends; i += 2)
      view.dims.back().intervals.push_back(
          {dim.bounds()->Get(i), dim.bounds()->Get(i + 1)});
  }
  if (from.order()) {
    std::vector<int64_t> places;
    if (count(from.order()) == view.dims.size())
      places.assign(from.order()->begin(), from.order()->end());
    auto order = Permutation::of(places);
    if (!order || order->isIdentity())
      return makeError("view ", to.views.size(), " has ", count(from.order()),
                       " places for ", view.dims.size(),
                       " dims, expected each dim once, and not in order");
    view.order = *order;
  }
  if (from.parts())
    view.parts.assign(from.parts()->begin(), from.parts()->end());
  if (from.fill()) {
    DTRT_RETURN_IF_ERROR(checkAligned("common section", from.fill()));
    DTRT_RETURN_IF_ERROR(
        budget.charge("fills of views", count(from.fill()), sizeof(uint64_t)));
    view.fill.assign(from.fill()->begin(), from.fill()->end());
  }
  to.views.push_back(std::move(view));
  return {};
}

Status CommonDecoder::decodeSummary(const fb::Summary &from) {
  PlanSummary &summary = to.summary;
  if (from.mode() > uint8_t(MemoryMode::Flat))
    return makeError("unknown memory mode ", int(from.mode()));
  if (from.granularity() > uint8_t(Granularity::Tensor))
    return makeError("unknown granularity of storage ",
                     int(from.granularity()));
  summary.bytesDestination = from.bytes_destination();
  summary.bytesLocal = from.bytes_local();
  summary.bytesWire = from.bytes_wire();
  summary.bytesWireLowerBound = from.bytes_wire_lower_bound();
  summary.bytesInterNode = from.bytes_inter_node();
  summary.bytesInterNodeLowerBound = from.bytes_inter_node_lower_bound();
  summary.timePredicted = from.time_predicted();
  summary.timeLowerBound = from.time_lower_bound();
  summary.mode = MemoryMode(from.mode());
  summary.granularity = Granularity(from.granularity());
  summary.bytesInPlace = from.bytes_in_place();
  summary.bytesRelayed = from.bytes_relayed();
  summary.timeWithoutRelays = from.time_without_relays();
  summary.libraryCollectives = from.library_collectives();
  summary.overNccl = from.over_nccl();
  summary.stagingLimit = from.staging_limit();
  summary.stagingPeak = from.staging_peak();
  summary.devicePeak = from.device_peak();
  summary.deviceLimit = from.device_limit();
  summary.sourceMax = from.source_max();
  summary.destinationMax = from.destination_max();
  summary.waves = from.waves();
  summary.messages = from.messages();
  summary.multicasts = from.multicasts();
  summary.solverSteps = from.solver_steps();
  const char *proof = "bytes of a proof";
  DTRT_RETURN_IF_ERROR(text(proof, from.coverage(), summary.coverage));
  DTRT_RETURN_IF_ERROR(text(proof, from.deadlock_free(), summary.deadlockFree));
  DTRT_RETURN_IF_ERROR(text(proof, from.memory_safe(), summary.memorySafe));
  DTRT_RETURN_IF_ERROR(text(proof, from.solver(), summary.solver));
  return text(proof, from.verified_by(), summary.verifier);
}

Status CommonDecoder::decodeCluster(const fb::Cluster &cluster) {
  to.cluster = {cluster.devices_per_node(),
                cluster.intra_node_gbps(),
                cluster.inter_node_gbps(),
                cluster.latency_us(),
                cluster.pack_gbps(),
                cluster.pack_launch_us(),
                {},
                from.devices_per_nic(),
                from.pxn(),
                from.launch_us(),
                from.channels_per_peer(),
                from.intra_channel_gbps(),
                from.inter_channel_gbps(),
                from.relays(),
                CollectiveChoice(from.collectives()),
                from.multicast_us(),
                from.copy_engine_us()};
  DTRT_RETURN_IF_ERROR(
      budget.charge("links", count(from.links()), sizeof(Link)));
  for (size_t i = 0; i < count(from.links()); ++i) {
    const fb::Link &link = *from.links()->Get(i);
    to.cluster.links.push_back({{link.from_node(), link.from()},
                                {link.to_node(), link.to()},
                                link.gbps()});
  }
  return {};
}

Status CommonDecoder::decodeMemberSets() {
  if (from.collectives() > uint8_t(CollectiveChoice::Library))
    return makeError("unknown choice of collectives ", int(from.collectives()));
  size_t sets = count(from.member_sets());
  DTRT_RETURN_IF_ERROR(
      budget.charge("member sets", sets, sizeof(std::vector<uint32_t>)));
  for (size_t i = 0; i < sets; ++i)
    DTRT_RETURN_IF_ERROR(list("members of collectives",
                              from.member_sets()->Get(i)->devices(),
                              to.memberSets.emplace_back()));
  return {};
}

Result<PlanCommon> CommonDecoder::decode() {
  if (!from.cluster() || !from.summary())
    return makeError("common section lacks its cluster or its summary");
  DTRT_RETURN_IF_ERROR(checkAligned("common section", from.links()));
  DTRT_RETURN_IF_ERROR(text("bytes of a compiler's name",
                            from.compiler_version(), to.compilerVersion));
  const char *hash = "bytes of a hash";
  DTRT_RETURN_IF_ERROR(text(hash, from.request_hash(), to.requestHash));
  DTRT_RETURN_IF_ERROR(
      text(hash, from.source_fingerprint(), to.sourceFingerprint));
  DTRT_RETURN_IF_ERROR(
      text(hash, from.destination_fingerprint(), to.destinationFingerprint));
  to.sourceWorld = from.source_world();
  to.destinationWorld = from.destination_world();
  DTRT_RETURN_IF_ERROR(
      list("source ranks", from.source_devices(), to.sourceDevices));
  DTRT_RETURN_IF_ERROR(list("destination ranks", from.destination_devices(),
                            to.destinationDevices));
  DTRT_RETURN_IF_ERROR(
      budget.charge("families", count(from.families()), sizeof(Family)));
  for (size_t i = 0; i < count(from.families()); ++i)
    DTRT_RETURN_IF_ERROR(decodeFamily(*from.families()->Get(i)));
  DTRT_RETURN_IF_ERROR(
      budget.charge("views", count(from.views()), sizeof(NamedView)));
  for (size_t i = 0; i < count(from.views()); ++i)
    DTRT_RETURN_IF_ERROR(decodeView(*from.views()->Get(i)));
  DTRT_RETURN_IF_ERROR(decodeMemberSets());
  DTRT_RETURN_IF_ERROR(decodeCluster(*from.cluster()));
  to.compression = {from.compress_below_gbps(), from.compress_block()};
  DTRT_RETURN_IF_ERROR(decodeSummary(*from.summary()));
  DTRT_RETURN_IF_ERROR(
      text("bytes of a layout", from.source_layout(), to.sourceLayout));
  DTRT_RETURN_IF_ERROR(text("bytes of a layout", from.destination_layout(),
                            to.destinationLayout));
  return std::move(to);
}

} // namespace

Status checkFeatures(const uint8_t *data, size_t size, FeatureSet features) {
  constexpr size_t kMostNames = 64;
  auto root = rootOf<fb::Common>(data, size, "common section");
  DTRT_RETURN_IF_ERROR(root);
  std::vector<std::string> names;
  size_t stated = std::min(count((*root)->features()), kMostNames + 1);
  for (size_t i = 0; i < stated; ++i) {
    std::string_view name = (*root)->features()->Get(i)->string_view();
    DTRT_RETURN_IF_ERROR(checkName("the name of a feature", name));
    names.emplace_back(name);
  }
  return checkKnown(features, names);
}

Result<PlanCommon> decodeCommon(const uint8_t *data, size_t size,
                                ReadBudget &budget) {
  auto root = rootOf<fb::Common>(data, size, "common section");
  DTRT_RETURN_IF_ERROR(root);
  return CommonDecoder(**root, budget).decode();
}

Result<RankProgram> decodeProgram(const uint8_t *data, size_t size,
                                  ReadBudget &budget) {
  auto root = rootOf<fb::Program>(data, size, "program section");
  DTRT_RETURN_IF_ERROR(root);
  return ProgramDecoder(**root, budget).decode();
}

} // namespace dtrt
