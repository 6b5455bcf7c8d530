//===- Certificate.h - Does a plan keep the rules? --------------*- C++ -*-===//
//
// The half of the proof that is about one plan: what the lemmas suppose of it
// (Obligations.h), checked in time that is linear, up to sorting, in its
// messages and pieces. Knows nothing of how the plan was made.
//
//===----------------------------------------------------------------------===//

#ifndef DT_PROOF_CERTIFICATE_H
#define DT_PROOF_CERTIFICATE_H

#include "dt/Cost/Cluster.h"
#include "dt/Geometry/Parallel.h"
#include "dt/Geometry/ShardIndex.h"
#include "dt/Proof/TransportPlan.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dt {

/// Batches of a kernel plan of NCCL: 4 KiB of arguments less a header of 32 B,
/// 16 B each.
constexpr unsigned kKernelPlanBatches = (4096 - 32) / 16;
/// Channels of the runtime's communicators (dtrt/cost/KernelPlans.h).
constexpr unsigned kMaxChannels = 32;
/// Most messages, out and in, of one rank in one group. A message takes one
/// batch on each of its channels at most, and NCCL takes it into a plan that
/// still has that many: so many fit one plan whatever their size.
constexpr unsigned kMaxGroupMessages = kKernelPlanBatches / kMaxChannels;

/// A rule that is broken: where, in words, and what else has to do with it.
struct Fault {
  static constexpr uint32_t kNoOp = UINT32_MAX;
  uint32_t op = kNoOp;
  std::string text;
  uint32_t other = kNoOp;
  std::string note = {};
};
using MaybeFault = std::optional<Fault>;

/// How many elements a device wants of a flow; (flow, device). What is to be
/// zeroed of flow f counts for flow `numFlows + f`.
using Wanted = std::map<std::pair<uint32_t, int64_t>, int64_t>;
Wanted wantedOf(const std::vector<PlanFlow> &flows);

/// Shards by flow and device.
ShardIndex indexShards(const std::vector<PlanFlow> &flows, bool source);

/// Each piece lies in one piece in what its device wants of the flow (zeros: in
/// its padding), and what stays on its device is held there. Sets `atSource` of
/// all pieces.
MaybeFault placePieces(TransportPlan &plan,
                       const ParallelFor &parallel = serialFor);

/// Pieces by what arrives where, for the two checks below.
class Arrivals {
public:
  /// Both must outlive this. `clock` is what steps are called in messages that
  /// travel: "wave" or "hop".
  Arrivals(const std::vector<PlanPiece> &pieces,
           const std::vector<PlanFlow> &flows, ParallelFor parallel = serialFor,
           const char *clock = "wave");

  /// No element arrives twice, and as many as wanted arrive. That pieces lie
  /// inside what is wanted is for placePieces to check.
  MaybeFault checkCoverage(const Wanted &wanted) const;
  /// What a device sends and did not hold came to it in an earlier step.
  MaybeFault checkFeeding() const;

  using Key = std::pair<uint32_t, int64_t>; // flow, device
  /// Pieces [first, last) of `all()`, by number, go to one key.
  struct Range {
    uint32_t first = 0, last = 0;
  };
  const std::map<Key, Range> &byKey() const { return groups; }
  const std::vector<uint32_t> &all() const { return order; }
  const PlanPiece &piece(uint32_t number) const { return pieces[number]; }
  const std::vector<PlanPiece> &allPieces() const { return pieces; }
  std::string nameOf(uint32_t flow) const;

private:
  using Items = std::vector<uint32_t>;
  Range at(Key key) const;
  MaybeFault sweep(Items items, unsigned dim) const;
  Fault twice(const PlanPiece &first, const PlanPiece &second) const;
  Fault hole(Key key) const;
  std::optional<std::pair<uint32_t, Fault>> checkFed(Range range,
                                                     const Items &fed) const;
  Fault notFed(const PlanPiece &piece, uint32_t late) const;

  const std::vector<PlanPiece> &pieces;
  const std::vector<PlanFlow> &flows;
  ParallelFor parallel;
  const char *clock;
  std::map<Key, Range> groups;
  Items order;
};

/// One slot for each end of each message, of its size; few messages per group.
/// What collectives bring is no message (CollectiveRules.h).
MaybeFault checkMessages(const std::vector<PlanPiece> &pieces,
                         const std::vector<PlanSlot> &slots,
                         const ParallelFor &parallel = serialFor);

/// In a wave every port, that is the NIC and the island port of a device,
/// carries at most one message out and one in. Devices that share a NIC share
/// its port. A library's collective shares the ports of its members by itself.
MaybeFault checkPorts(const std::vector<PlanPiece> &pieces,
                      const Cluster &cluster);

/// What is sent from its place, or received to it, is one run of bytes of one
/// state there, stored as it travels. `plan` has slots, one for each end.
MaybeFault checkDirect(const TransportPlan &plan,
                       const ParallelFor &parallel = serialFor);

/// No two slots of a device share a byte while both may be in use (SlotUses.h).
/// All end below the limit. Pieces are placed.
MaybeFault checkSlots(const std::vector<PlanPiece> &pieces,
                      const std::vector<PlanSlot> &slots, int64_t limit,
                      const ParallelFor &parallel = serialFor);

} // namespace dt

#endif // DT_PROOF_CERTIFICATE_H
