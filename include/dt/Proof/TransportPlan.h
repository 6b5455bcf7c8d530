//===- TransportPlan.h - The transport level in numbers ---------*- C++ -*-===//
//
// What a transition does, as the prover checks it and as emission writes it:
// one list of steps for all devices, top to bottom. A device takes part in the
// steps that name it, in this order. Knows no MLIR.
//
//   step 0  create   storage of the destination exists from here on
//   step 1  copy     pieces from source to destination shard of one device
//   step 2  release  storage of the source is gone from here on
//   step 3  wave 0   messages: all that goes from one device to another
//   step 4  wave 1
//   step 5  derive   pieces made from another state of their device
//   step 6  zero     padding of the destination
//
//===----------------------------------------------------------------------===//

#ifndef DT_PROOF_TRANSPORTPLAN_H
#define DT_PROOF_TRANSPORTPLAN_H

#include "dt/Geometry/DType.h"
#include "dt/Geometry/Placement.h"
#include "dt/Scheduling/PlanMessage.h"

#include "dtrt/types/Collective.h"

#include <string>
#include <vector>

namespace dt {

constexpr uint32_t kNoCollective = UINT32_MAX;
/// The shard that holds a box: there is none, or it has not been looked for.
constexpr uint32_t kUnplaced = UINT32_MAX;

/// A library's collective of one wave: what its members get is in pieces that
/// name it, from each member to each that gets something of it. Its memory is
/// blocks of one size (dtrt/types/Collective.h); slots from a member to itself
/// say where they lie.
struct PlanCollective {
  uint32_t op = 0;
  int32_t wave = -1;
  dtrt::CollectiveKind kind = dtrt::CollectiveKind::Broadcast;
  std::vector<int64_t> members; // ascending
  int64_t root = -1;            // of a broadcast; -1: none
  int64_t blockBytes = 0;       // as long as what goes from one to another

  bool isRoot(int64_t device) const { return device == root; }
  int64_t givenBytes(int64_t device) const {
    return blockBytes *
           int64_t(dtrt::blocksGiven(kind, members.size(), isRoot(device)));
  }
  int64_t gotBytes(int64_t device) const {
    return blockBytes *
           int64_t(dtrt::blocksGot(kind, members.size(), isRoot(device)));
  }
};

/// A box that comes to a device.
struct PlanPiece {
  uint32_t op = 0;    // the caller's number, for faults
  uint32_t flow = 0;  // what elements are of: pieces of other flows never meet
  uint32_t fedBy = 0; // the flow that it is read from, mostly its own
  uint32_t step = 0;  // when it is done
  int32_t wave = -1;  // that carries it; -1: none, it stays on its device
  int64_t from = 0;
  int64_t to = 0;
  int64_t bytes = 0; // of all states, as they travel
  Box box;
  /// The sender holds it from the start, or passes it on without having it.
  bool atSource = false;
  RelayHop relay = RelayHop::None;
  uint32_t collective = kNoCollective; // of the plan's, that brings it
  /// The shards of its flow that hold it: numbers on the device that it comes
  /// from, at the source, and on the one that it goes to (ShardIndex.h).
  uint32_t fromShard = kUnplaced, toShard = kUnplaced;

  /// Whether it stays where it comes to.
  bool arrives() const { return relay != RelayHop::In; }
};

/// One end of a message in staging; offset -1 is none.
struct PlanSlot {
  uint32_t op = 0;
  int64_t wave = 0;
  int64_t device = 0;
  int64_t peer = 0;
  bool receive = false;
  int64_t offset = 0; // bytes
  int64_t bytes = 0;
  RelayHop relay = RelayHop::None;

  /// Whether it is a collective's: the blocks that a member gets, or gives.
  bool isBlocks() const { return device == peer; }
  /// Whether a message that is relayed lies here between its two waves.
  bool isRelays() const {
    return relay == (receive ? RelayHop::In : RelayHop::Out);
  }
};

/// Storage that comes (of the destination) or goes (of the source): a range of
/// the stored elements of some members of one shard.
struct PlanStorage {
  uint32_t op = 0;
  uint32_t flow = 0;
  uint64_t states = 0; // mask over the param's
  uint32_t step = 0;
  int64_t device = 0;
  uint32_t shard = 0; // of the device's shards of the flow on that side
  Box box;            // leading dims, then elements of a member's storage
};

struct PlanStep {
  enum class Kind { Copy, Derive, Zero, Wave, Create, Release };
  Kind kind = Kind::Copy;
  /// Number of a wave; of copies, the one that they run beside, which is the
  /// next; else -1.
  int32_t wave = -1;
  bool keeps = false; // of copies: what they name stays, in flat memory
  /// Ranges of `pieces`, `slots` or `storage`. Those of a wave are sorted by
  /// (from, to): one run per message, in packing order.
  size_t first = 0, last = 0;
  size_t firstSlot = 0, lastSlot = 0;
};

/// Buffers that a flow's states have on one side: `states` of `width` bytes per
/// element each.
struct FlowBuffers {
  uint64_t states = 0;
  int64_t width = 0;
};

/// One param and states of it that have one layout on both sides.
struct PlanFlow {
  std::string name; // "@param"
  std::vector<int64_t> shape;
  uint32_t family = 0;
  uint64_t states = 0;
  /// Where its source elements are read: in the buffers of `readStates` of flow
  /// `readsFrom`, mostly its own.
  uint32_t readsFrom = 0;
  uint64_t readStates = 0;
  /// The flow and state that elements may be derived from on their own device.
  std::optional<uint32_t> derivedFrom;
  uint64_t derivedFromStates = 0;
  std::vector<FlowBuffers> sourceBuffers, destinationBuffers;
  /// Of a param that shares storages: their numbers, by state. Empty: every
  /// tensor has its own for each state. On a side of a device, a number is one
  /// storage, of all params that have it.
  std::vector<uint32_t> storages;
  /// Whether a side stores another dtype than travels.
  bool sourceConverts = false, destinationConverts = false;
  const std::vector<Holding> *source = nullptr, *destination = nullptr;
};

struct TransportPlan {
  std::vector<PlanFlow> flows;
  std::vector<PlanStep> steps;
  std::vector<PlanPiece> pieces;
  std::vector<PlanSlot> slots;
  std::vector<PlanStorage> storage;
  std::vector<PlanCollective> collectives; // by wave
  /// Flat memory: storage comes and goes, and what does not change stays.
  bool isFlat = false;
  /// Flat memory: how storages come and go.
  Granularity granularity = Granularity::Page;
  bool isByTensor() const { return granularity == Granularity::Tensor; }
  /// For each step, the one that it has ended with: copies that run beside a
  /// wave read their sources until that has.
  std::vector<uint32_t> lastSteps() const;
  /// Whether every wave has its slots.
  bool isStaged = true;
};

inline std::vector<uint32_t> TransportPlan::lastSteps() const {
  std::vector<uint32_t> out(steps.size());
  auto wave = uint32_t(steps.size());
  for (auto i = uint32_t(steps.size()); i-- > 0;) {
    if (steps[i].kind == PlanStep::Kind::Wave)
      wave = i;
    bool isBeside = steps[i].kind == PlanStep::Kind::Copy &&
                    steps[i].wave >= 0 && wave < steps.size();
    out[i] = isBeside ? wave : i;
  }
  return out;
}

} // namespace dt

#endif // DT_PROOF_TRANSPORTPLAN_H
