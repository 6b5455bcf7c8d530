//===- ExecutionPlan.h - What an executor leaves out and moves --*- C++ -*-===//
//
// A program says what every transport can do: pack, send, receive, unpack, one
// after the other. A transport that can do more saves some of it. Which
// instructions are left out, and which run while messages are under way, is
// decided here, once, from the program and from what the transport can do. The
// executor carries it out, and `writeExecution` shows it.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_CORE_EXECUTIONPLAN_H
#define DTRT_CORE_EXECUTIONPLAN_H

#include "dtrt/core/Transport.h"
#include "dtrt/format/PlanModel.h"

#include <iosfwd>

namespace dtrt {

class PeerShards;

/// One instruction, as it is carried out.
struct PlannedStep {
  /// Pack, Unpack: left out, as the messages go from or to the shards.
  bool skipped = false;
  /// Runs while the messages of a group are under way, not at its own place.
  bool early = false;
  /// Group: the instructions that do so, in this order.
  std::vector<size_t> meanwhile;
  /// Group, by message: the pack or unpack whose segments are the message;
  /// none: it lies where the program says.
  std::vector<std::optional<size_t>> views;
};

struct ExecutionPlan {
  std::vector<PlannedStep> steps; // one per instruction
  /// Whether any byte of the staging arena is used.
  bool needsStaging = false;
};

struct ExecutionOptions {
  /// Whether messages go from shard to shard, without packs and unpacks, where
  /// the transport sees the peers' memory. If not, the program is run to the
  /// letter, as other transports do.
  bool skipStaging = false;
  /// By source shard, whether peers that read this device's shards
  /// (TransportCaps::readBy) find all of it there. Messages to them of nothing
  /// else stay in the shards. Empty: none.
  std::vector<bool> readable = {};
  /// What can be read of peers; null: nothing. Must outlive the executor.
  const PeerShards *peers = nullptr;
};

ExecutionPlan planExecution(const PlanCommon &common,
                            const RankProgram &program,
                            const TransportCaps &caps,
                            const ExecutionOptions &options = {});

/// A line for the device, and one per instruction.
void writeExecution(const RankProgram &program, const ExecutionPlan &execution,
                    std::ostream &out);

} // namespace dtrt

#endif // DTRT_CORE_EXECUTIONPLAN_H
