//===- Programs.h - From a schedule to one program per device ---*- C++ -*-===//
//
// Specializes a scheduled transition for one device at a time, so that no more
// than one program is ever in memory: the writer streams it to the plan.
//
//===----------------------------------------------------------------------===//

#ifndef DT_EMIT_PROGRAMS_H
#define DT_EMIT_PROGRAMS_H

#include "dt/Scheduling/Staging.h"
#include "dtrt/PlanModel.h"

#include <optional>
#include <unordered_map>

namespace dt {

/// What a flow is called in the plan.
struct PlanFlow {
  uint32_t family = 0;   // index into the plan's families
  uint64_t states = 0;   // mask over the family's states
  uint64_t madeFrom = 0; // mask of the state that elements may be made from
};

/// A scheduled transition, complete. Everything is indexed by flow.
struct ScheduledTransition {
  std::vector<PlanFlow> planFlows;
  std::vector<Flow> flows;
  std::vector<unsigned> numStates, numLeading;
  std::vector<std::vector<Holding>> sourceHoldings, destinationHoldings;
  std::vector<LocalMove> locals;  // copies and keeps, by `before`
  std::vector<LocalMove> derived; // made from flow deriveFrom, at the end
  std::vector<std::optional<uint32_t>> deriveFrom;
  std::vector<LocalMove> zeros; // padding, in padded coordinates
  std::vector<ScheduledMove> scheduled;
  std::vector<Message> messages;
  std::map<int64_t, int64_t> arenaBytes;
};

/// Rank of each device in the two worlds.
struct Worlds {
  std::map<int64_t, int64_t> sourceRank, destinationRank;
};

/// Builds the programs of all devices, in ascending order.
class ProgramBuilder {
public:
  ProgramBuilder(const ScheduledTransition &transition, const Worlds &worlds);

  const std::vector<int64_t> &devices() const { return allDevices; }
  /// May be called from several threads at once.
  dtrt::RankProgram build(int64_t device) const;

private:
  dtrt::Segment segment(const Move &move, int64_t device, bool reading) const;
  dtrt::Segment segment(uint32_t flow, int64_t device, dtrt::Side side,
                        const Box &box) const;
  void addShards(const ShardIndex &index, int64_t device,
                 std::vector<dtrt::ShardRecord> &out) const;
  void addCopies(int64_t device, int64_t last, int64_t wave,
                 dtrt::RankProgram &program) const;
  void addZeros(int64_t device, dtrt::RankProgram &program) const;
  void addDerived(int64_t device, dtrt::RankProgram &program) const;
  void addWave(int64_t device, const std::vector<uint32_t> &messages,
               dtrt::RankProgram &program) const;

  const ScheduledTransition &transition;
  const Worlds &worlds;
  ShardIndex source, destination;
  std::vector<int64_t> allDevices;
  std::unordered_map<int64_t, std::vector<uint32_t>> messagesOf, localsOf,
      derivedOf, zerosOf;
};

} // namespace dt

#endif // DT_EMIT_PROGRAMS_H
