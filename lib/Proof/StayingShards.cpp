//===- StayingShards.cpp - Storage that is the same before and after ------===//

#include "dt/Proof/StayingShards.h"

#include <algorithm>
#include <set>
#include <utility>

using namespace dt;

namespace {

using Kind = PlanStep::Kind;

/// States that both sides store, as they travel, each in its own storage.
uint64_t alikeStates(const TransportPlan &plan, uint32_t number) {
  const PlanFlow &flow = plan.flows[number];
  if (flow.readsFrom != number || flow.readStates != flow.states ||
      flow.sourceConverts || flow.destinationConverts ||
      (plan.isByTensor() && !flow.storages.empty()))
    return 0;
  uint64_t before = 0, after = 0;
  for (const FlowBuffers &buffers : flow.sourceBuffers)
    before |= buffers.states;
  for (const FlowBuffers &buffers : flow.destinationBuffers)
    after |= buffers.states;
  return before == flow.states && after == flow.states ? flow.states : 0;
}

int64_t widthOf(const PlanFlow &flow, uint64_t states) {
  int64_t width = 0;
  for (const FlowBuffers &buffers : flow.destinationBuffers)
    width += buffers.width * __builtin_popcountll(buffers.states & states);
  return width;
}

struct LessShard {
  bool operator()(const Shard *a, const Shard *b) const { return *a < *b; }
};

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
    std::set<const Shard *, LessShard> known;
    for (uint32_t number : before)
      known.insert(source.shardsOf(device)[number].shard);
    Place place = {before.size(), after.size(), {}};
    for (uint32_t number : after) {
      const Shard *shard = destination.shardsOf(device)[number].shard;
      // What has a name of its own on a side is another tensor there.
      if (!shard->view && known.count(shard))
        place.shards.push_back({shard, number, all[flow]});
    }
    if (!place.shards.empty())
      places[flow].emplace(device, std::move(place));
  }
}

/// Place of the shard among those of the flow on the device that are alike.
std::optional<size_t> StayingShards::find(uint32_t flow, int64_t device,
                                          const Shard &shard) const {
  const std::vector<Alike> &own = placeOf(flow, device)->shards;
  auto found = std::find_if(own.begin(), own.end(), [&](const Alike &alike) {
    return *alike.shard == shard;
  });
  if (found == own.end())
    return std::nullopt;
  return found - own.begin();
}

/// The shard that a piece arrives in, where both sides have it.
StayingShards::Alike *StayingShards::find(const PlanPiece &piece) {
  return const_cast<Alike *>(std::as_const(*this).find(piece));
}

const StayingShards::Alike *StayingShards::find(const PlanPiece &piece) const {
  const Place *place = placeOf(piece.flow, piece.to);
  if (!place)
    return nullptr;
  for (const Alike &alike : place->shards)
    if (alike.number == piece.toShard)
      return &alike;
  return nullptr;
}

const StayingShards::Place *StayingShards::placeOf(uint32_t flow,
                                                   int64_t device) const {
  auto place = places[flow].find(device);
  return place == places[flow].end() ? nullptr : &place->second;
}

void StayingShards::lookAtStorage(const ShardIndex &source,
                                  const ShardIndex &destination) {
  for (const PlanStorage &row : plan.storage) {
    if (!placeOf(row.flow, row.device))
      continue;
    bool creates = plan.steps[row.step].kind == Kind::Create;
    const ShardIndex &index = creates ? destination : source;
    const auto &own = index.numbersOf(row.flow, row.device);
    if (row.shard >= own.size())
      continue;
    const Shard &shard = *index.shardsOf(row.device)[own[row.shard]].shard;
    if (auto alike = find(row.flow, row.device, shard))
      places[row.flow].at(row.device).shards[*alike].states &= ~row.states;
  }
}

void StayingShards::lookAtPieces() {
  for (const PlanStep &step : plan.steps) {
    if (step.kind == Kind::Create || step.kind == Kind::Release ||
        step.kind == Kind::Zero)
      continue;
    for (size_t i = step.first; i < step.last; ++i) {
      const PlanPiece &piece = plan.pieces[i];
      Alike *alike = find(piece);
      if (!alike)
        continue;
      bool stays =
          step.kind == Kind::Copy && piece.from == piece.to && piece.atSource;
      alike->isCopied |= stays;
      if (!stays)
        alike->states = 0;
    }
  }
}

StayingShards::StayingShards(const TransportPlan &plan)
    : plan(plan), places(plan.flows.size()), all(plan.flows.size()) {
  if (plan.isFlat)
    look(indexShards(plan.flows, /*source=*/true),
         indexShards(plan.flows, /*source=*/false));
}

StayingShards::StayingShards(const TransportPlan &plan,
                             const ShardIndex &source,
                             const ShardIndex &destination)
    : plan(plan), places(plan.flows.size()), all(plan.flows.size()) {
  if (plan.isFlat)
    look(source, destination);
}

void StayingShards::look(const ShardIndex &source,
                         const ShardIndex &destination) {
  for (uint32_t flow = 0; flow < plan.flows.size(); ++flow)
    pair(flow, source, destination);
  lookAtStorage(source, destination);
  lookAtPieces();
  for (auto &byDevice : places)
    for (auto &[device, place] : byDevice)
      for (Alike &own : place.shards)
        own.states = own.isCopied ? own.states : 0;
}

int64_t StayingShards::bytesOf(uint32_t flow, int64_t device) const {
  const Place *place = placeOf(flow, device);
  if (!place)
    return 0;
  int64_t bytes = 0;
  for (const Alike &own : place->shards)
    bytes += own.shard->numMembers() * own.shard->elementsPerMember() *
             widthOf(plan.flows[flow], own.states);
  return bytes;
}

bool StayingShards::isKept(const PlanPiece &copied) const {
  const Alike *alike = find(copied);
  return alike && alike->states == all[copied.flow];
}

int64_t StayingShards::bytesOf(const PlanPiece &copied) const {
  const Alike *alike = find(copied);
  return alike ? copied.box.volume() *
                     widthOf(plan.flows[copied.flow], alike->states)
               : 0;
}

bool StayingShards::allOf(uint32_t flow, int64_t device) const {
  const Place *place = placeOf(flow, device);
  if (!place)
    return false;
  const auto &[before, after, shards] = *place;
  return shards.size() == before && shards.size() == after &&
         std::all_of(shards.begin(), shards.end(),
                     [&](const Alike &own) { return own.states == all[flow]; });
}
