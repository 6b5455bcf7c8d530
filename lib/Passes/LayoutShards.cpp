//===- LayoutShards.cpp - Which shards devices have by layouts ------------===//

#include "LayoutShards.h"

#include "SplicePrograms.h"
#include "TransportReading.h"

#include "llvm/ADT/STLExtras.h"

namespace dt {

LayoutShards::LayoutShards(const TransitionInfo &info)
    : worlds(worldsOf(info)) {
  plan.flows = planFlowsOf(info);
  bool isReadElsewhere = llvm::any_of(plan.flows, [](const PlanFlow &flow) {
    return flow.sourceBuffers.empty() && !flow.source->empty();
  });
  if (isReadElsewhere) {
    builder.emplace(plan, worlds);
    return;
  }
  for (const PlanFlow &flow : plan.flows) {
    add(flow, *flow.source, source);
    add(flow, *flow.destination, destination);
  }
}

void LayoutShards::add(const PlanFlow &flow,
                       const std::vector<Holding> &holdings, Entries &out) {
  for (const Holding &holding : holdings)
    for (int64_t device : holding.devices)
      out[device].push_back({&flow, &holding.shard});
}

bool LayoutShards::areIn(const std::vector<dtrt::ShardRecord> &records,
                         const Entries &entries, int64_t device) {
  auto isSame = [](const dtrt::ShardRecord &record, const Entry &entry) {
    const Shard &shard = *entry.shard;
    return record.family == entry.flow->family &&
           record.states == entry.flow->states && record.dims == shard.dims &&
           record.flat == shard.range.has_value() &&
           (!record.flat || record.range == *shard.range) &&
           record.view == shard.view.value_or(dtrt::kNoView) &&
           record.order == shard.order;
  };
  auto own = entries.find(device);
  if (own == entries.end())
    return records.empty();
  return std::equal(records.begin(), records.end(), own->second.begin(),
                    own->second.end(), isSame);
}

bool LayoutShards::areThoseOf(const dtrt::RankProgram &program) const {
  if (builder)
    return haveSameShards(program, builder->build(program.device));
  auto isRank = [&](const std::map<int64_t, int64_t> &ranks, int64_t rank) {
    auto known = ranks.find(program.device);
    return rank == (known == ranks.end() ? -1 : known->second);
  };
  return isRank(worlds.sourceRank, program.sourceRank) &&
         isRank(worlds.destinationRank, program.destinationRank) &&
         areIn(program.source, source, program.device) &&
         areIn(program.destination, destination, program.device);
}

} // namespace dt
