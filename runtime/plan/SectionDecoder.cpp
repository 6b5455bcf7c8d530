//===- SectionDecoder.cpp - FlatBuffers sections to plan structs ----------===//

#include "SectionDecoder.h"

#include "plan_generated.h"

#include <algorithm>

namespace dtrt {

namespace {

/// The schema nests three tables deep, and the largest plans have some
/// thousand families with a handful of states each.
constexpr flatbuffers::uoffset_t kMaxDepth = 8;
constexpr flatbuffers::uoffset_t kMaxTables = 1 << 20;

/// Lists are shared in the file but not once unpacked, so a hostile section of
/// a megabyte could grow to a terabyte. Real programs unpack to a few million.
constexpr uint64_t kMaxUnpacked = uint64_t(1) << 26;
/// Dims of a family; leading dims included.
constexpr unsigned kMaxRank = 32;

template <typename T>
Result<const T *> rootOf(const uint8_t *data, size_t size, const char *what) {
  flatbuffers::Verifier verifier(data, size, kMaxDepth, kMaxTables);
  if (!verifier.VerifyBuffer<T>(nullptr))
    return makeError(what, " is not a valid FlatBuffers buffer");
  return flatbuffers::GetRoot<T>(data);
}

std::string text(const flatbuffers::String *string) {
  return string ? string->str() : std::string();
}

template <typename T>
std::vector<T> list(const flatbuffers::Vector<T> *vector) {
  if (!vector)
    return {};
  return std::vector<T>(vector->begin(), vector->end());
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

Result<DType> dtype(uint8_t value, const std::string &family) {
  if (value > uint8_t(DType::Bool))
    return makeError("family '", family, "' has unknown dtype ", int(value));
  return DType(value);
}

class ProgramDecoder {
public:
  explicit ProgramDecoder(const fb::Program &in) : in(in) {
    poolSize = count(in.pool());
  }

  Result<RankProgram> decode() {
    DTRT_RETURN_IF_ERROR(checkAligned("program section", in.pool(), in.source(),
                                      in.destination(), in.messages(),
                                      in.instructions()));
    out.device = in.device();
    out.sourceRank = in.source_rank();
    out.destinationRank = in.destination_rank();
    out.stagingBytes = in.staging_bytes();
    DTRT_RETURN_IF_ERROR(shards(in.source(), out.source));
    DTRT_RETURN_IF_ERROR(shards(in.destination(), out.destination));
    out.instructions.reserve(count(in.instructions()));
    for (size_t i = 0; i < count(in.instructions()); ++i) {
      auto instruction = decodeInstruction(*in.instructions()->Get(i));
      if (!instruction.ok())
        return makeError("instruction ", i, ": ",
                         instruction.status().message());
      out.instructions.push_back(std::move(*instruction));
    }
    return std::move(out);
  }

private:
  Status checkPool(uint64_t first, uint64_t numbers) {
    unpacked += numbers;
    if (unpacked > kMaxUnpacked)
      return makeError("more than ", kMaxUnpacked, " coordinates");
    if (first + numbers <= poolSize)
      return {};
    return makeError("coordinates [", first, ", ", first + numbers,
                     ") are outside the pool of ", poolSize);
  }

  Status shards(const flatbuffers::Vector<const fb::Shard *> *from,
                std::vector<ShardRecord> &to) {
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
    record.range = {shard.range_lo(), shard.range_hi()};
    if (shard.rank() > kMaxRank)
      return makeError("shard has ", shard.rank(), " dims, limit ", kMaxRank);
    record.dims.reserve(shard.rank());
    uint64_t at = shard.dims();
    for (unsigned dim = 0; dim < shard.rank(); ++dim) {
      DTRT_RETURN_IF_ERROR(checkPool(at, 1));
      int64_t intervals = in.pool()->Get(at++);
      if (intervals < 0 || uint64_t(intervals) > poolSize)
        return makeError("shard has ", intervals, " intervals in dim ", dim);
      DTRT_RETURN_IF_ERROR(checkPool(at, 2 * uint64_t(intervals)));
      auto &ranges = record.dims.emplace_back();
      ranges.reserve(size_t(intervals));
      for (int64_t i = 0; i < intervals; ++i, at += 2)
        ranges.push_back({in.pool()->Get(at), in.pool()->Get(at + 1)});
    }
    return record;
  }

  Status numbers(uint32_t first, size_t rank, std::vector<int64_t> &to) {
    DTRT_RETURN_IF_ERROR(checkPool(first, rank));
    to.resize(rank);
    for (size_t dim = 0; dim < rank; ++dim)
      to[dim] = in.pool()->Get(first + dim);
    return {};
  }

  Result<Segment> decodeSegment(uint64_t index) {
    if (index >= count(in.segments()))
      return makeError("segment ", index, " of ", count(in.segments()));
    const fb::Segment &from = *in.segments()->Get(index);
    Segment segment;
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
    DTRT_RETURN_IF_ERROR(numbers(from.size(), shard.dims.size(), segment.size));
    return segment;
  }

  Result<Message> decodeMessage(uint64_t index) {
    if (index >= count(in.messages()))
      return makeError("message ", index, " of ", count(in.messages()));
    const fb::Message &from = *in.messages()->Get(index);
    Message message;
    message.receive = from.receive();
    message.peer = from.peer();
    message.bytes = from.bytes();
    message.direct = from.direct();
    message.slot = from.slot();
    if (!message.direct)
      return message;
    auto segment = decodeSegment(from.segment());
    DTRT_RETURN_IF_ERROR(segment);
    message.segment = std::move(*segment);
    return message;
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
      to.messages.reserve(
          std::min<uint64_t>(from.count(), count(in.messages())));
      for (uint64_t i = from.first(); i < end; ++i) {
        auto message = decodeMessage(i);
        DTRT_RETURN_IF_ERROR(message);
        to.messages.push_back(std::move(*message));
      }
      return {};
    default:
      if (from.first() < nextSegment)
        return makeError("segments start at ", from.first(),
                         ", expected at least ", nextSegment);
      nextSegment = end;
      to.segments.reserve(
          std::min<uint64_t>(from.count(), count(in.segments())));
      for (uint64_t i = from.first(); i < end; ++i) {
        auto segment = decodeSegment(i);
        DTRT_RETURN_IF_ERROR(segment);
        to.segments.push_back(std::move(*segment));
      }
      return {};
    }
  }

  Result<Instruction> decodeInstruction(const fb::Instruction &from) {
    if (from.op() > uint8_t(Opcode::Unpack))
      return makeError("unknown opcode ", int(from.op()));
    Instruction instruction;
    instruction.op = Opcode(from.op());
    instruction.wave = from.wave();
    instruction.slot = from.slot();
    instruction.bytes = from.bytes();
    DTRT_RETURN_IF_ERROR(decodeOperands(from, instruction));
    return instruction;
  }

  const fb::Program &in;
  uint64_t poolSize = 0;
  uint64_t unpacked = 0;
  uint64_t nextSegment = 0, nextMessage = 0;
  RankProgram out;
};

Result<Family> decodeFamily(const fb::Family &from) {
  DTRT_RETURN_IF_ERROR(
      checkAligned("common section", from.leading(), from.shape()));
  Family family;
  family.name = text(from.name());
  for (size_t i = 0; i < count(from.leading()); ++i) {
    const fb::LeadingDim &dim = *from.leading()->Get(i);
    family.leading.push_back({dim.first(), dim.step(), dim.count()});
  }
  family.shape = list(from.shape());
  for (size_t i = 0; i < count(from.states()); ++i) {
    const fb::State &state = *from.states()->Get(i);
    auto source = dtype(state.source_dtype(), family.name);
    DTRT_RETURN_IF_ERROR(source);
    auto destination = dtype(state.destination_dtype(), family.name);
    DTRT_RETURN_IF_ERROR(destination);
    family.states.push_back({text(state.name()), *source, *destination,
                             state.made_from(), state.in_source(),
                             state.in_destination()});
  }
  family.storage = text(from.storage());
  return family;
}

Result<PlanSummary> decodeSummary(const fb::Summary &from) {
  PlanSummary to;
  if (from.mode() > uint8_t(MemoryMode::Flat))
    return makeError("unknown memory mode ", int(from.mode()));
  if (from.granularity() > uint8_t(Granularity::Tensor))
    return makeError("unknown granularity of storage ",
                     int(from.granularity()));
  to.bytesDestination = from.bytes_destination();
  to.bytesLocal = from.bytes_local();
  to.bytesWire = from.bytes_wire();
  to.bytesWireLowerBound = from.bytes_wire_lower_bound();
  to.bytesInterNode = from.bytes_inter_node();
  to.bytesInterNodeLowerBound = from.bytes_inter_node_lower_bound();
  to.timePredicted = from.time_predicted();
  to.timeLowerBound = from.time_lower_bound();
  to.mode = MemoryMode(from.mode());
  to.granularity = Granularity(from.granularity());
  to.stagingLimit = from.staging_limit();
  to.stagingPeak = from.staging_peak();
  to.devicePeak = from.device_peak();
  to.deviceLimit = from.device_limit();
  to.sourceMax = from.source_max();
  to.destinationMax = from.destination_max();
  to.waves = from.waves();
  to.messages = from.messages();
  to.collectives = from.collectives();
  to.coverage = text(from.coverage());
  to.deadlockFree = text(from.deadlock_free());
  to.memorySafe = text(from.memory_safe());
  to.solver = text(from.solver());
  return to;
}

} // namespace

Result<PlanCommon> decodeCommon(const uint8_t *data, size_t size) {
  auto root = rootOf<fb::Common>(data, size, "common section");
  DTRT_RETURN_IF_ERROR(root);
  const fb::Common &from = **root;
  PlanCommon to;
  to.compilerVersion = text(from.compiler_version());
  to.requestHash = text(from.request_hash());
  to.sourceFingerprint = text(from.source_fingerprint());
  to.destinationFingerprint = text(from.destination_fingerprint());
  to.sourceWorld = from.source_world();
  to.destinationWorld = from.destination_world();
  to.sourceDevices = list(from.source_devices());
  to.destinationDevices = list(from.destination_devices());
  for (size_t i = 0; i < count(from.families()); ++i) {
    auto family = decodeFamily(*from.families()->Get(i));
    DTRT_RETURN_IF_ERROR(family);
    to.families.push_back(std::move(*family));
  }
  if (!from.cluster() || !from.summary())
    return makeError("common section lacks its cluster or its summary");
  const fb::Cluster &cluster = *from.cluster();
  to.cluster = {cluster.devices_per_node(),
                cluster.intra_node_gbps(),
                cluster.inter_node_gbps(),
                cluster.latency_us(),
                cluster.pack_gbps(),
                cluster.pack_launch_us(),
                {},
                from.devices_per_nic()};
  if (from.links())
    for (const fb::Link *link : *from.links())
      to.cluster.links.push_back({{link->from_node(), link->from()},
                                  {link->to_node(), link->to()},
                                  link->gbps()});
  auto summary = decodeSummary(*from.summary());
  DTRT_RETURN_IF_ERROR(summary);
  to.summary = std::move(*summary);
  to.sourceLayout = text(from.source_layout());
  to.destinationLayout = text(from.destination_layout());
  return to;
}

Result<RankProgram> decodeProgram(const uint8_t *data, size_t size) {
  auto root = rootOf<fb::Program>(data, size, "program section");
  DTRT_RETURN_IF_ERROR(root);
  return ProgramDecoder(**root).decode();
}

} // namespace dtrt
