//===- FlatStorages.cpp - Tensors that share storages ---------------------===//
//
// Cohorts that use one storage are a group, and so are those that use any of
// the other storages of these:
//
//   source storages       a       b        c
//   cohorts              0 1     2 3       4
//   destination           d      d  e      f       groups {0, 1, 2, 3}, {4}
//
//===----------------------------------------------------------------------===//

#include "FlatStorages.h"

#include <algorithm>
#include <numeric>
#include <set>

using namespace dt;

FlatStorages::FlatStorages(const FlatInput &input, const FlatJobs &jobs)
    : input(input), jobs(jobs), groups(jobs.byCohort().size()) {
  measure();
  if (!bytes.empty())
    group();
}

const std::vector<FlatStates> &FlatStorages::statesOf(const FlatShape &shape,
                                                      bool destination) const {
  const FlatFlow &flow = input.flows[shape.flow];
  return destination ? flow.destination : input.flows[flow.readsFrom].source;
}

/// Bytes of every shared storage, read or not.
void FlatStorages::measure() {
  for (bool destination : {false, true}) {
    const ShardIndex &index = destination ? input.destination : input.source;
    for (int64_t device : index.devices())
      for (const ShardIndex::Entry &entry : index.shardsOf(device)) {
        const FlatFlow &flow = input.flows[entry.flow];
        int64_t elements =
            entry.shard->numMembers() * entry.shard->elementsPerMember();
        for (const FlatStates &states :
             destination ? flow.destination : flow.source)
          if (states.storage >= 0)
            bytes[{device, destination, states.storage}] +=
                elements * states.width * states.count;
      }
  }
}

void FlatStorages::group() {
  std::vector<uint32_t> leader(groups.size());
  std::iota(leader.begin(), leader.end(), 0);
  auto leaderOf = [&](uint32_t cohort) {
    while (leader[cohort] != cohort)
      cohort = leader[cohort] = leader[leader[cohort]];
    return cohort;
  };
  std::map<Storage, uint32_t> users; // the first of each
  std::vector<bool> shares(groups.size());
  for (uint32_t cohort = 0; cohort < groups.size(); ++cohort)
    for (uint32_t number : jobs.shapesOf(cohort))
      for (bool destination : {false, true})
        for (const FlatStates &states :
             statesOf(jobs.shape(number), destination)) {
          if (states.storage < 0)
            continue;
          shares[cohort] = true;
          uint32_t user =
              users.try_emplace({-1, destination, states.storage}, cohort)
                  .first->second;
          leader[leaderOf(cohort)] = leaderOf(user);
        }
  for (uint32_t cohort = 0; cohort < groups.size(); ++cohort)
    if (shares[cohort])
      groups[cohort] = leaderOf(cohort);
}

std::vector<FlatJob> FlatStorages::gather(std::vector<FlatJob> sequence) const {
  if (bytes.empty())
    return sequence;
  std::map<uint32_t, size_t> first; // places of groups
  std::vector<std::pair<size_t, size_t>> byPlace;
  for (size_t place = 0; place < sequence.size(); ++place) {
    auto group = groups[sequence[place].cohort];
    byPlace.push_back(
        {group ? first.try_emplace(*group, place).first->second : place,
         place});
  }
  std::sort(byPlace.begin(), byPlace.end());
  std::vector<FlatJob> out;
  for (auto [group, place] : byPlace)
    out.push_back(sequence[place]);
  return out;
}

std::map<int64_t, JobEffect> FlatStorages::effectsOf(uint32_t group) const {
  std::map<int64_t, JobEffect> out;
  std::set<Storage> used;
  for (uint32_t cohort = 0; cohort < groups.size(); ++cohort) {
    if (groups[cohort] != group)
      continue;
    for (uint32_t number : jobs.shapesOf(cohort)) {
      const FlatShape &shape = jobs.shape(number);
      for (bool destination : {false, true})
        if ((destination ? shape.destinationShard : shape.sourceShard) >= 0)
          for (const FlatStates &states : statesOf(shape, destination))
            if (states.storage >= 0)
              used.insert({destination ? shape.to : shape.from, destination,
                           states.storage});
    }
    // States of other params that are made of these may have storages of
    // their own.
    const CohortJobs &own = jobs.byCohort()[cohort];
    for (const JobEffects &block : own.effects)
      for (const JobEffect &effect : block) {
        out[effect.device].created += effect.created * own.members;
        out[effect.device].freed += effect.freed * own.members;
      }
  }
  for (const Storage &storage : used) {
    auto [device, destination, number] = storage;
    JobEffect &effect = out[device];
    (destination ? effect.created : effect.freed) += bytes.at(storage);
  }
  return out;
}
