//===- Certificate.h - Does a plan keep the rules? --------------*- C++ -*-===//
//
// The half of the proof that is about one plan: what the lemmas suppose of it
// (Obligations.h), checked in time that is linear, up to sorting, in its
// messages and pieces. Knows nothing of how the plan was made.
//
//===----------------------------------------------------------------------===//

#ifndef DT_PROOF_CERTIFICATE_H
#define DT_PROOF_CERTIFICATE_H

#include "dt/Geometry/Box.h"
#include "dt/Geometry/Parallel.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dt {

/// Batches of a kernel plan of NCCL: 4 KiB of arguments less a header of 32 B,
/// 16 B each.
constexpr unsigned kKernelPlanBatches = (4096 - 32) / 16;
/// Channels of the runtime's communicators (dtrt/KernelPlans.h).
constexpr unsigned kMaxChannels = 32;
/// Most messages, out and in, of one rank in one group. A message takes one
/// batch on each of its channels at most, and NCCL takes it into a plan that
/// still has that many: so many fit one plan whatever their size. Schedules
/// need four.
constexpr unsigned kMaxGroupMessages = kKernelPlanBatches / kMaxChannels;

/// A box that arrives at a device.
struct ProofPiece {
  uint32_t op = 0;    // the caller's number, for faults
  uint32_t flow = 0;  // what elements are of: pieces of other flows never meet
  uint32_t fedBy = 0; // the flow that it is read from, mostly its own
  int64_t wave = -1;  // -1: local, before all waves
  int64_t from = 0;
  int64_t to = 0;
  int64_t bytes = 0;
  Box box;
  bool atSource = false; // the sender holds it from the start
};

/// One end of a message in staging; offset -1 is none.
struct ProofSlot {
  uint32_t op = 0;
  int64_t wave = 0;
  int64_t device = 0;
  int64_t peer = 0;
  bool receive = false;
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// A rule that is broken: where, in words, and what else has to do with it.
struct Fault {
  static constexpr uint32_t kNoOp = UINT32_MAX;
  uint32_t op = kNoOp;
  std::string text;
  uint32_t other = kNoOp;
  std::string note = {};
};
using MaybeFault = std::optional<Fault>;

/// How many elements a device wants of a flow; (flow, device).
using Wanted = std::map<std::pair<uint32_t, int64_t>, int64_t>;

/// Pieces by what arrives where, for the two checks below.
class Arrivals {
public:
  /// Both must outlive this; the names are those of the flows, for faults.
  Arrivals(const std::vector<ProofPiece> &pieces,
           const std::vector<std::string> &flowNames,
           ParallelFor parallel = serialFor);

  /// No element arrives twice, and as many as wanted arrive. That pieces lie
  /// inside what is wanted is the caller's to check.
  MaybeFault checkCoverage(const Wanted &wanted) const;
  /// What a device sends and did not hold came to it in an earlier wave.
  MaybeFault checkFeeding() const;

  using Key = std::pair<uint32_t, int64_t>; // flow, device
  /// Pieces [first, last) of `all()`, by number, go to one key.
  struct Range {
    uint32_t first = 0, last = 0;
  };
  const std::map<Key, Range> &byKey() const { return groups; }
  const std::vector<uint32_t> &all() const { return order; }
  const ProofPiece &piece(uint32_t number) const { return pieces[number]; }
  const std::string &nameOf(uint32_t flow) const { return flowNames[flow]; }

private:
  using Items = std::vector<uint32_t>;
  Range at(Key key) const;
  MaybeFault sweep(Items items, unsigned dim) const;
  std::optional<std::pair<uint32_t, Fault>> checkFed(Range range,
                                                     const Items &fed) const;
  Fault notFed(const ProofPiece &piece, uint32_t late) const;

  const std::vector<ProofPiece> &pieces;
  const std::vector<std::string> &flowNames;
  ParallelFor parallel;
  std::map<Key, Range> groups;
  Items order;
};

/// One slot for each end of each message, of its size; few messages per group.
MaybeFault checkMessages(const std::vector<ProofPiece> &pieces,
                         const std::vector<ProofSlot> &slots,
                         const ParallelFor &parallel = serialFor);

/// Slots keep to four areas per device, those of a group are disjoint, and all
/// end below the limit.
MaybeFault checkSlots(const std::vector<ProofSlot> &slots, int64_t limit,
                      const ParallelFor &parallel = serialFor);

} // namespace dt

#endif // DT_PROOF_CERTIFICATE_H
