//===- StayingShards.cpp - Storage that is the same before and after ------===//

#include "dt/Proof/StayingShards.h"

#include <algorithm>

using namespace dt;

namespace {

using Kind = PlanStep::Kind;

/// States that both sides store, as they travel, each in its own storage.
uint64_t alikeStates(const TransportPlan &plan, uint32_t number) {
  const PlanFlow &flow = plan.flows[number];
  if (flow.readsFrom != number || flow.readStates != flow.states ||
      flow.sourceConverts || flow.destinationConverts ||
      (plan.byTensor && !flow.storages.empty()))
    return 0;
  uint64_t before = 0, after = 0;
  for (const FlowBuffers &buffers : flow.sourceBuffers)
    before |= buffers.states;
  for (const FlowBuffers &buffers : flow.destinationBuffers)
    after |= buffers.states;
  return before == flow.states && after == flow.states ? flow.states : 0;
}

} // namespace

/// As if all that is alike stayed.
void StayingShards::pair(uint32_t flow, const ShardIndex &source,
                         const ShardIndex &destination) {
  all[flow] = alikeStates(plan, flow);
  if (!all[flow])
    return;
  for (int64_t device : destination.devices()) {
    const auto &before = source.numbersOf(flow, device);
    const auto &after = destination.numbersOf(flow, device);
    if (before.empty() || after.empty())
      continue;
    std::map<Shard, uint32_t> known;
    for (uint32_t number : before)
      known.emplace(*source.shardsOf(device)[number].shard, number);
    Place place = {before.size(), after.size(), {}};
    for (uint32_t number : after) {
      const Shard *shard = destination.shardsOf(device)[number].shard;
      if (known.count(*shard))
        place.shards.push_back({shard, all[flow]});
    }
    if (!place.shards.empty())
      places[flow].emplace(device, std::move(place));
  }
}

void StayingShards::drop(uint32_t flow, int64_t device, const Shard &shard,
                         uint64_t states) {
  auto place = places[flow].find(device);
  if (place == places[flow].end())
    return;
  for (Alike &own : place->second.shards)
    if (*own.shard == shard)
      own.states &= ~states;
}

StayingShards::StayingShards(const TransportPlan &plan)
    : plan(plan), places(plan.flows.size()), all(plan.flows.size()) {
  if (!plan.flat)
    return;
  ShardIndex source = indexShards(plan.flows, /*source=*/true);
  ShardIndex destination = indexShards(plan.flows, /*source=*/false);
  for (uint32_t flow = 0; flow < plan.flows.size(); ++flow)
    pair(flow, source, destination);
  for (const PlanStorage &row : plan.storage) {
    bool creates = plan.steps[row.step].kind == Kind::Create;
    const ShardIndex &index = creates ? destination : source;
    const auto &own = index.numbersOf(row.flow, row.device);
    if (row.shard < own.size())
      drop(row.flow, row.device,
           *index.shardsOf(row.device)[own[row.shard]].shard, row.states);
  }
  for (const PlanStep &step : plan.steps) {
    if (step.kind == Kind::Create || step.kind == Kind::Release)
      continue;
    for (size_t i = step.first; i < step.last; ++i) {
      const PlanPiece &piece = plan.pieces[i];
      auto flow = piece.flow % uint32_t(plan.flows.size());
      bool stays = step.kind == Kind::Copy && piece.from == piece.to &&
                   piece.atSource;
      if (stays || !places[flow].count(piece.to))
        continue;
      if (auto number = destination.findNumber(flow, piece.to, piece.box))
        drop(flow, piece.to, *destination.shardsOf(piece.to)[*number].shard,
             all[flow]);
    }
  }
}

std::vector<int64_t> StayingShards::devicesOf(uint32_t flow) const {
  std::vector<int64_t> out;
  for (const auto &[device, place] : places[flow])
    out.push_back(device);
  return out;
}

int64_t StayingShards::bytesOf(uint32_t flow, int64_t device) const {
  auto place = places[flow].find(device);
  if (place == places[flow].end())
    return 0;
  int64_t bytes = 0;
  for (const auto &[shard, states] : place->second.shards)
    for (const FlowBuffers &buffers : plan.flows[flow].sourceBuffers)
      bytes += shard->numMembers() * shard->elementsPerMember() *
               buffers.width * __builtin_popcountll(buffers.states & states);
  return bytes;
}

bool StayingShards::allOf(uint32_t flow, int64_t device) const {
  auto place = places[flow].find(device);
  if (place == places[flow].end())
    return false;
  const auto &[before, after, shards] = place->second;
  return shards.size() == before && shards.size() == after &&
         std::all_of(shards.begin(), shards.end(),
                     [&](const Alike &own) {
                       return own.states == all[flow];
                     });
}
