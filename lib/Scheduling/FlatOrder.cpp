//===- FlatOrder.cpp - Jobs in order, and phases of them ------------------===//

#include "dt/Scheduling/FlatOrder.h"

#include "FlatJobs.h"
#include "FlatStorages.h"

#include "dt/Geometry/Painted.h"

#include <algorithm>

using namespace dt;

FlatOrder::~FlatOrder() = default;
FlatOrder::FlatOrder(FlatOrder &&) = default;
FlatOrder &FlatOrder::operator=(FlatOrder &&) = default;

FlatOrder::FlatOrder(const FlatInput &input, int64_t jobBytes)
    : jobs(std::make_unique<FlatJobs>(input, jobBytes)) {
  if (jobs->isTooMany())
    return;
  for (const ShardIndex *index : {&input.source, &input.destination})
    for (int64_t device : index->devices())
      for (const ShardIndex::Entry &entry : index->shardsOf(device)) {
        const FlatFlow &flow = input.flows[entry.flow];
        bool isSource = index == &input.source;
        Device &held = devices[device];
        if (flow.stays(device))
          continue;
        (isSource ? held.source : held.destination) +=
            entry.shard->numMembers() * entry.shard->elementsPerMember() *
            bytesOf(isSource ? flow.source : flow.destination);
      }
  FlatStorages storages(input, *jobs);
  for (const std::vector<FlatJob> &together :
       storages.gather(sequenceJobs(jobs->byCohort())))
    if (storages.groupOf(together.front().cohort))
      addTogether(storages, together);
    else
      addAlone(together.front());
}

void FlatOrder::addAlone(const FlatJob &job) {
  auto number = uint32_t(sequence.size());
  sequence.push_back({job.cohort, job.number});
  for (const JobEffect &effect :
       jobs->byCohort()[job.cohort].effects[job.block]) {
    Device &device = devices[effect.device];
    device.effects.push_back({number, effect.created * job.numMembers,
                              effect.freed * job.numMembers, effect.sends});
    device.read += device.effects.back().freed;
  }
}

/// Shared storages come with the first of the jobs and go with the last.
void FlatOrder::addTogether(const FlatStorages &storages,
                            const std::vector<FlatJob> &together) {
  auto first = uint32_t(sequence.size());
  for (const FlatJob &job : together)
    sequence.push_back({job.cohort, job.number});
  auto last = uint32_t(sequence.size() - 1);
  uint32_t group = *storages.groupOf(together.front().cohort);
  for (const auto &[number, effect] : storages.effectsOf(group)) {
    Device &device = devices[number];
    device.read += effect.freed;
    if (first == last) {
      device.effects.push_back(
          {first, effect.created, effect.freed, effect.sends});
      continue;
    }
    device.effects.push_back({first, effect.created, 0, effect.sends});
    device.effects.push_back({last, 0, effect.freed, effect.sends});
  }
}

int64_t FlatOrder::neededBytes() const {
  int64_t needed = jobs->isTooMany() ? INT64_MAX : 0;
  for (const auto &[number, device] : devices) {
    int64_t live = device.read;
    int64_t limit = std::max(device.source, device.destination);
    for (const Effect &effect : device.effects) {
      live += effect.created;
      needed = std::max(needed, live - limit);
      live -= effect.freed;
    }
  }
  return needed;
}

/// The first job, up to `limit`, that a device has no room for in a phase that
/// begins at `place`. Copies are done as soon as there is room, and free what
/// they read where no earlier job of the phase has to wait for messages.
uint32_t FlatOrder::extend(const Device &device, Place place, uint32_t limit,
                           Steps *steps) const {
  const std::vector<Effect> &effects = device.effects;
  size_t open = place.next, finished = place.next;
  auto mayOpen = [&] {
    return open < effects.size() && effects[open].job < limit &&
           effects[open].created <= place.room;
  };
  while (mayOpen()) {
    if (steps)
      steps->push_back(effects[open].job);
    for (; mayOpen(); ++open)
      place.room -= effects[open].created;
    for (; finished < open && !effects[finished].sends; ++finished)
      place.room += effects[finished].freed;
  }
  return open < effects.size() ? std::min(limit, effects[open].job) : limit;
}

/// Jobs [first, last), those of a cohort together.
void FlatOrder::emit(uint32_t first, uint32_t last,
                     const std::map<int64_t, Steps> &steps,
                     FlatPhase &out) const {
  std::map<uint32_t, std::vector<uint32_t>> byCohort; // jobs, in order
  for (uint32_t job = first; job < last; ++job)
    byCohort[sequence[job].cohort].push_back(job);
  std::vector<Box> boxes;
  for (const auto &[cohort, own] : byCohort) {
    int64_t begin = sequence[own.front()].number;
    for (uint32_t number : jobs->shapesOf(cohort)) {
      const FlatShape &shape = jobs->shape(number);
      if (!shape.local) {
        boxes.clear();
        jobs->boxesOf(cohort, number, begin, begin + int64_t(own.size()),
                      boxes);
        for (const Box &box : boxes)
          out.moves.push_back(
              {shape.flow, shape.hop, shape.from, shape.to, box});
        continue;
      }
      const Steps &starts = steps.at(shape.from);
      auto stepOf = [&](uint32_t job) {
        return uint32_t(std::upper_bound(starts.begin(), starts.end(), job) -
                        starts.begin());
      };
      for (size_t i = 0, end = 0; i < own.size(); i = end) {
        uint32_t step = stepOf(own[i]);
        for (end = i + 1; end < own.size() && stepOf(own[end]) == step; ++end)
          continue;
        boxes.clear();
        jobs->boxesOf(cohort, number, begin + int64_t(i), begin + int64_t(end),
                      boxes);
        for (const Box &box : boxes) {
          out.locals.push_back({shape.flow, shape.from, box});
          out.steps.push_back(step);
        }
      }
    }
  }
  // Shapes stand by hop inside a job only when they were met in that order.
  std::stable_sort(out.moves.begin(), out.moves.end(),
                   [](const Move &a, const Move &b) { return a.hop < b.hop; });
}

std::vector<FlatPhase> FlatOrder::phases(int64_t roomBytes) const {
  std::map<int64_t, Place> places;
  for (const auto &[number, device] : devices)
    places[number].room =
        std::max(device.source, device.destination) + roomBytes - device.read;
  std::vector<FlatPhase> out;
  auto all = uint32_t(sequence.size());
  for (uint32_t first = 0, last = 0; first < all; first = last) {
    last = all;
    for (const auto &[number, device] : devices)
      last = extend(device, places[number], last, nullptr);
    // One job always fits where neededBytes() do.
    last = std::max(last, first + 1);
    std::map<int64_t, Steps> steps;
    for (const auto &[number, device] : devices) {
      Place &place = places[number];
      extend(device, place, last, &steps[number]);
      for (; place.next < device.effects.size() &&
             device.effects[place.next].job < last;
           ++place.next)
        place.room += device.effects[place.next].freed -
                      device.effects[place.next].created;
    }
    emit(first, last, steps, out.emplace_back());
  }
  return out;
}

std::optional<FlatOrder> dt::orderWithin(const FlatInput &input,
                                         int64_t roomBytes) {
  // The best first. Where it does not fit: larger jobs, whose pages are fewer,
  // and then smaller ones.
  constexpr int64_t kBest = 32;
  std::optional<FlatOrder> best;
  int64_t bestNeeded = roomBytes + 1, tooMany = INT64_MAX;
  for (int64_t parts :
       {kBest, kBest / 4, kBest / 2, 2 * kBest, 4 * kBest, 8 * kBest}) {
    bool isBelowPages = input.pageBytes < kWholeBuffers && parts > kBest &&
                        2 * (roomBytes / parts) < input.pageBytes;
    if (isBelowPages || parts > tooMany || bestNeeded <= roomBytes / 2)
      break;
    FlatOrder order(input, roomBytes / parts);
    int64_t needed = order.neededBytes();
    if (needed == INT64_MAX)
      tooMany = parts;
    if (needed < bestNeeded) {
      bestNeeded = needed;
      best = std::move(order);
    }
  }
  return best;
}
