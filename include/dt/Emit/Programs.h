//===- Programs.h - From the transport level to one program -----*- C++ -*-===//
//
// Specializes a transition for one device at a time, so that no more than a few
// programs are ever in memory: the writer streams them to the plan. Steps
// become instructions in their order and nothing is added: what the prover saw
// is what a device does.
//
//   copy, derive   Copy       create, release  Create, Release
//   zero           Zero       wave             Packs, one Group, Unpacks
//
//===----------------------------------------------------------------------===//

#ifndef DT_EMIT_PROGRAMS_H
#define DT_EMIT_PROGRAMS_H

#include "dt/Geometry/Parallel.h"
#include "dt/Geometry/ShardIndex.h"
#include "dt/Proof/TransportPlan.h"
#include "dt/Scheduling/PlanMessage.h"
#include "dtrt/format/PlanModel.h"

#include <map>
#include <tuple>
#include <unordered_map>

namespace dt {

/// Rank of each device in the two worlds.
struct Worlds {
  std::map<int64_t, int64_t> sourceRank, destinationRank;
};

/// The messages of all waves, in order. Slots are those of the plan where it is
/// staged.
std::vector<PlanMessage> messagesOf(const TransportPlan &plan,
                                    const ParallelFor &parallel = serialFor);

/// The member sets of all collectives, each once, in ascending order.
std::vector<std::vector<uint32_t>> memberSetsOf(const TransportPlan &plan);

/// Builds the programs of all devices, in ascending order.
class ProgramBuilder {
public:
  /// `plan` is staged; it and `worlds` must outlive the builder.
  ProgramBuilder(const TransportPlan &plan, const Worlds &worlds,
                 const ParallelFor &parallel = serialFor);

  const std::vector<int64_t> &devices() const { return allDevices; }
  const std::vector<PlanMessage> &messages() const { return allMessages; }
  /// May be called from several threads at once.
  dtrt::RankProgram build(int64_t device) const;

private:
  /// What a device does in a step: a piece, a row of storage or a message.
  struct Work {
    uint32_t step = 0;
    uint32_t item = 0;
    /// In the item's place: its part in a collective, with whose number.
    static constexpr uint32_t kCall = uint32_t(1) << 31;
  };
  /// Shards of one device as the program numbers them.
  struct Shards {
    std::vector<dtrt::ShardRecord> records;
    std::vector<uint32_t> numbers; // by ShardIndex's number
  };

  void indexWork();
  void indexCalls();
  void addBlocks(dtrt::RankProgram &program) const;
  void prefetchWork(const Work *at, const Work *end) const;
  dtrt::GroupCollective callOf(uint32_t collective, int64_t device) const;
  Shards shardsOf(const ShardIndex &index, int64_t device) const;
  uint32_t readingShard(const Shards &shards, const PlanFlow &flow,
                        const dtrt::ShardRecord &record) const;
  /// Writes the instructions of one device.
  class Writer;

  const TransportPlan &plan;
  const Worlds &worlds;
  ShardIndex source, destination;
  std::vector<PlanMessage> allMessages;
  std::vector<int64_t> allDevices;
  std::unordered_map<int64_t, std::vector<Work>> workOf;
  std::vector<std::vector<uint32_t>> memberSets;
  /// Of collectives: wave, device and whether it gets them; where they start.
  std::map<std::tuple<int64_t, int64_t, bool>, int64_t> blocks;
};

} // namespace dt

#endif // DT_EMIT_PROGRAMS_H
