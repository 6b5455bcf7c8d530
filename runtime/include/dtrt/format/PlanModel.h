//===- PlanModel.h - What a plan file says, as plain structs ----*- C++ -*-===//
//
// The one truth that compiler and runtime share. `plan/` writes these structs
// to a plan file and reads them back; the compiler fills them, `dt-plan` prints
// them, the executor runs them, the verifier checks them. Units: bytes for
// memory and messages, elements for coordinates, seconds for time.
//
// A *family* is a set of tensors of one shape whose names differ in numbers
// (layers, experts): its leading dims enumerate the members, and every
// instruction names a box of the family, leading dims first. A program belongs
// to a *device*: the physical number both worlds of the transition share.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_FORMAT_PLANMODEL_H
#define DTRT_FORMAT_PLANMODEL_H

#include "dtrt/cost/Cluster.h"
#include "dtrt/cost/Compression.h"
#include "dtrt/types/Collective.h"
#include "dtrt/types/DimVector.h"
#include "dtrt/types/Interval.h"
#include "dtrt/types/Permutation.h"
#include "dtrt/types/Types.h"
#include "dtrt/types/ViewDim.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtrt {

/// Newest plan format that this library reads and the one that it writes. A
/// file of another major, or of a newer minor, is refused.
constexpr uint16_t kFormatMajor = 1;
constexpr uint16_t kFormatMinor = 4;

/// Bit i stands for the feature of that number (dtrt/format/Features.h).
using FeatureSet = uint64_t;

/// One leading dim of a family: index i stands for number first + step * i, or
/// for list[i], where the step is 0.
struct LeadingDim {
  int64_t first = 0;
  int64_t step = 1;
  int64_t count = 1;
  std::vector<int64_t> list = {}; // empty, or `count` distinct numbers

  int64_t number(int64_t index) const {
    return list.empty() ? first + step * index : list[size_t(index)];
  }
};

/// A state of a family: param, grad, master, exp_avg, ...
struct StateInfo {
  std::string name;
  DType sourceDType = DType::BF16;
  DType destinationDType = DType::BF16;
  /// Index of the state that elements of this one may be derived from, by a
  /// change of dtype; -1: none.
  int32_t derivedFrom = -1;
  /// Not in the source: source shards that hold `derivedFrom` may have this
  /// state too, which is then read from that one's bytes, and has its dtype.
  bool inSource = true;
  /// Not in the destination: dropped.
  bool inDestination = true;
};
/// The dtype of a state's elements on the wire.
inline DType wireDType(const StateInfo &state) {
  return wireDType(state.sourceDType, state.destinationDType);
}

struct Family {
  /// Tensor name with one "{}" per leading dim, in order:
  /// "decoder.layers.{}.mlp.experts.linear_fc1.weight{}". No "{}": one tensor.
  std::string name;
  std::vector<LeadingDim> leading;
  /// Inner shape in elements: the shape of one (full, unsharded) tensor.
  std::vector<int64_t> shape;
  /// At most 64; a state mask has bit i for states[i].
  std::vector<StateInfo> states;
  /// A set of values, such as one per coordinate of some axes: a layout need
  /// not have all of them. Of any other tensor both layouts have all.
  bool partial = false;
  /// Not empty: all that a device holds on a side of families with this name,
  /// in one state, lies in one storage (granularity tensor).
  std::string storage;

  unsigned numLeading() const { return leading.size(); }
  unsigned rank() const { return leading.size() + shape.size(); }
  int64_t numMembers() const;
  /// The tensor's own name; `member` holds one index per leading dim.
  std::string tensorName(const DimVector &member) const;
};

/// A tensor that one side has instead of (a part of) a family's tensors, under
/// a name and with coordinates of its own. Views of one family and side have
/// different elements.
struct NamedView {
  Side side = Side::Source;
  uint32_t family = 0;
  /// One "{}" per leading dim of the family, as the family's name.
  std::string name;
  std::vector<LeadingDim> leading;
  std::vector<ViewDim> dims; // one per inner dim of the family
  /// Which inner dim stands at which place; one that the tensor does not have
  /// at its own.
  Permutation order = {};
  /// Which of its dims, in that order, are one dim of the tensor.
  DimParts parts = {};
  /// What an element of its padding holds, by state of the family: bits, in the
  /// dtype that the state has on this side. Empty: zeros.
  std::vector<uint64_t> fill = {};

  /// The tensor's own name; `member` holds one index per leading dim.
  std::string tensorName(const DimVector &member) const;
};

constexpr uint32_t kNoView = UINT32_MAX;

/// What one device holds of a family on one side, for all states in the mask.
/// Every member has one dense local tensor whose extent in dim d is the sum of
/// the sizes of dims[d] (intervals in local order, padded VPS coordinates),
/// row-major in the order of its view; with `flat`, only its elements
/// [range.lo, range.hi) are stored. Parts beyond the family's shape are
/// padding.
struct ShardRecord {
  uint32_t family = 0;
  uint64_t states = 0;
  std::vector<std::vector<Interval>> dims; // leading dims first
  bool flat = false;
  Interval range;
  /// The tensor that it is a part of, an index into PlanCommon::views; its
  /// intervals then follow each other as that tensor has them. kNoView: the
  /// family's.
  uint32_t view = kNoView;
  /// That of the view, as the reader has filled it in: which inner dim stands
  /// at which place of the local tensor.
  Permutation order = {};
};

constexpr uint32_t kNoShard = UINT32_MAX;

/// A box of a family inside one shard of this device, for all states in the
/// mask. Packed form: states in ascending bit order; per state the members in
/// row-major order; per member the box in row-major order; no gaps.
///
/// Segments of Create and Release name storage, not coordinates: leading dims
/// name the members, the first inner dim is a range of each member's stored
/// elements (counted from the start of its buffer), further inner dims are
/// offset 0, size 1. A scalar is always whole. By tensor, the range is all of
/// the buffer, and what shares a storage is named by neighbouring instructions.
///
/// Segments of Relay are of no shard (kNoShard): the device keeps nothing of
/// them.
struct Segment {
  uint32_t family = 0;
  uint64_t states = 0;
  Side side = Side::Source;
  uint32_t shard = 0; // index into the program's shards of that side
  DimVector offset;
  DimVector size;
};

/// The opcodes of a rank's program, with what they do. One list: names for
/// dump, docs and the schema's enum order come from it.
#define DTRT_OPCODES(X)                                                        \
  X(Copy, "copy", "copies segments[2i] to segments[2i+1], both local")         \
  X(Zero, "zero",                                                              \
    "writes padding of the destination: zeros, or a view's fill")              \
  X(Create, "create", "creates storage of destination shards (flat mode)")     \
  X(Release, "release", "releases storage of source shards (flat mode)")       \
  X(Pack, "pack", "gathers segments into staging bytes [slot, slot+bytes)")    \
  X(Group, "group", "runs its messages as one group: all start together")      \
  X(Unpack, "unpack", "scatters staging bytes [slot, slot+bytes) to segments") \
  X(Relay, "relay", "staging bytes [slot, slot+bytes), received, are sent on")

enum class Opcode : uint8_t {
#define DTRT_OPCODE_ENUM(Name, Text, Doc) Name,
  DTRT_OPCODES(DTRT_OPCODE_ENUM)
#undef DTRT_OPCODE_ENUM
};
const char *opcodeName(Opcode op);
/// Whether it names bytes of staging and the segments that they are.
inline bool namesStaging(Opcode op) {
  return op == Opcode::Pack || op == Opcode::Unpack || op == Opcode::Relay;
}

/// One send or receive of a group. Its bytes are either a staging range
/// (direct = false: [slot, slot + bytes)) or one contiguous segment of a shard
/// (direct = true).
struct Message {
  bool receive = false;
  uint32_t peer = 0; // device
  uint64_t bytes = 0;
  bool direct = false;
  uint64_t slot = 0;
  Segment segment;
};

/// What makes a group a library's collective. Its messages then say what the
/// collective brings, one for each pair of members between which anything goes:
/// each lies in the block that is its pair's (dtrt/types/Collective.h). A block
/// may be longer than what is in it.
struct GroupCollective {
  CollectiveKind kind = CollectiveKind::Broadcast;
  uint32_t members = 0;    // index into PlanCommon::memberSets
  uint32_t root = 0;       // device, of a broadcast
  uint64_t blockBytes = 0; // of each block
  uint64_t giveSlot = 0;   // staging of the blocks that the device gives
  uint64_t getSlot = 0;    // and of those that it gets
};

/// Fields that an opcode does not use stay empty. What no instruction creates
/// exists from the start.
struct Instruction {
  Opcode op = Opcode::Copy;
  /// The wave this belongs to; -1 for local work outside all waves. Groups of
  /// a program appear in ascending wave order; one group per wave at most. A
  /// Copy of a wave stands before its group and may run until that has ended.
  int32_t wave = -1;
  std::vector<Segment> segments;
  uint64_t slot = 0;             // Pack, Unpack, Relay: start of its staging
  uint64_t bytes = 0;            // Pack, Unpack, Relay: length of that
  std::vector<Message> messages; // Group
  std::optional<GroupCollective> collective; // Group
};

/// One section of the file.
struct RankProgram {
  uint32_t device = 0;
  int64_t sourceRank = -1;      // rank in the source world, -1: not a member
  int64_t destinationRank = -1; // rank in the destination world
  std::vector<ShardRecord> source;
  std::vector<ShardRecord> destination;
  std::vector<Instruction> instructions;
  uint64_t stagingBytes = 0; // arena this program needs
};

/// What `dt-plan inspect` prints; computed by the compiler.
struct PlanSummary {
  uint64_t bytesDestination = 0; // all destination bytes, padding excluded
  uint64_t bytesLocal = 0;       // of them, those copied on their device
  uint64_t bytesWire = 0;
  uint64_t bytesWireLowerBound = 0;
  uint64_t bytesInterNode = 0;
  uint64_t bytesInterNodeLowerBound = 0;
  double timePredicted = 0;
  double timeLowerBound = 0;
  MemoryMode mode = MemoryMode::Rollback;
  uint64_t stagingLimit = 0;
  uint64_t stagingPeak = 0;
  uint64_t devicePeak = 0;
  uint64_t deviceLimit = 0;    // 0: none given
  uint64_t sourceMax = 0;      // most source bytes on one device
  uint64_t destinationMax = 0; // most destination bytes on one device
  uint64_t waves = 0;
  uint64_t messages = 0;
  /// Multicasts: how many sets of devices share data that receivers pass on.
  /// An element that some device both receives and sends belongs to a
  /// multicast, and so do all devices that send or receive it; elements with
  /// the same devices belong to the same one, whatever tensor, state or wave.
  /// It is a broadcast where one device had the data before, an all-gather
  /// where every device had a part.
  uint64_t multicasts = 0;
  /// Empty, or "proved".
  std::string coverage, deadlockFree, memorySafe;
  std::string solver; // "z3 4.8.12"; empty when no solver ran
  /// Which `verifyPlan` has accepted the file's bytes before this was written,
  /// kVerifierVersion; empty when none.
  std::string verifier;
  /// What the solver might spend on each obligation, in steps as it counts them
  /// itself; 0 when no solver ran.
  uint64_t solverSteps = 0;
  Granularity granularity = Granularity::Page;
  /// Destination bytes that stay where they are (StayingStates.h), padding
  /// excluded.
  uint64_t bytesInPlace = 0;
  /// Bytes of messages that went over a third device, once each: so many more
  /// are on the wire than without.
  uint64_t bytesRelayed = 0;
  /// What the compiler predicted of its schedule without these, every message
  /// packed; 0 where nothing is relayed. No reader can tell.
  double timeWithoutRelays = 0;
  /// Waves' library collectives. What they bring is no message.
  uint64_t libraryCollectives = 0;
  /// Whether the device's peak and limit count what GPUs and NCCL have for the
  /// plan (verify/GpuParts.h).
  bool overNccl = false;
};

/// Everything that is not per rank.
struct PlanCommon {
  std::string compilerVersion;
  std::string requestHash;            // 32 lower-case hex digits
  std::string sourceFingerprint;      // of the source layout, likewise
  std::string destinationFingerprint; // of the destination layout
  int64_t sourceWorld = 0;
  int64_t destinationWorld = 0;
  std::vector<uint32_t> sourceDevices;      // device of each source rank
  std::vector<uint32_t> destinationDevices; // device of each destination rank
  std::vector<Family> families;
  std::vector<NamedView> views;
  /// Devices, ascending, that do library collectives together: each rank makes
  /// a communicator for all sets that it is in, in this order.
  std::vector<std::vector<uint32_t>> memberSets;
  Cluster cluster;
  Compression compression;
  PlanSummary summary;
  /// Layouts in words (the layout-level IR), for `inspect` and `diff`.
  std::string sourceLayout, destinationLayout;
  /// What the file says that its readers must be able to do: none before format
  /// 1.4. The writer finds it out from what it is given.
  FeatureSet features = 0;
};

} // namespace dtrt

#endif // DTRT_FORMAT_PLANMODEL_H
