//===- FlatOrder.cpp - Jobs in order, and phases of them ------------------===//

#include "dt/Scheduling/FlatOrder.h"

#include "FlatJobs.h"
#include "FlatStorages.h"

#include "dt/Geometry/Painted.h"

#include <algorithm>
#include <numeric>

using namespace dt;

/// Jobs are best so small a part of the room, which is what a phase has.
static constexpr int64_t kJobsInRoom = 32;

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
  reserveEffects();
  FlatStorages storages(input, *jobs);
  for (const std::vector<FlatJob> &together : storages.gather(sequenceJobs(
           jobs->byCohort(), double(kJobsInRoom) * double(jobBytes))))
    if (storages.groupOf(together.front().cohort))
      addTogether(storages, together);
    else
      addAlone(together.front());
  countOpen();
}

/// There are many effects: lists that grow would copy them again and again.
void FlatOrder::reserveEffects() {
  std::map<int64_t, int64_t> counts; // by device
  for (const CohortJobs &cohort : jobs->byCohort())
    for (const JobEffects &block : cohort.effects)
      for (const JobEffect &effect : block)
        counts[effect.device] +=
            cohort.count() / int64_t(cohort.effects.size());
  for (const auto &[device, count] : counts)
    devices[device].effects.reserve(size_t(count));
}

/// Adds the job to the order, with what it copies.
void FlatOrder::addCopies(const FlatJob &job) {
  auto number = uint32_t(sequence.size());
  sequence.push_back({job.cohort, job.number});
  for (const JobEffect &effect :
       jobs->byCohort()[job.cohort].effects[job.block])
    if (effect.copied > 0)
      devices[effect.device].copies.push_back(
          {number, effect.copied * job.numMembers});
}

void FlatOrder::addAlone(const FlatJob &job) {
  auto number = uint32_t(sequence.size());
  addCopies(job);
  for (const JobEffect &effect :
       jobs->byCohort()[job.cohort].effects[job.block]) {
    Device &device = devices[effect.device];
    device.effects.push_back({number, effect.created * job.numMembers,
                              effect.freed * job.numMembers});
    device.read += device.effects.back().freed;
  }
}

/// Shared storages come with the first of the jobs and go with the last.
void FlatOrder::addTogether(const FlatStorages &storages,
                            const std::vector<FlatJob> &together) {
  auto first = uint32_t(sequence.size());
  for (const FlatJob &job : together)
    addCopies(job);
  auto last = uint32_t(sequence.size() - 1);
  uint32_t group = *storages.groupOf(together.front().cohort);
  for (const auto &[number, effect] : storages.effectsOf(group)) {
    Device &device = devices[number];
    device.read += effect.freed;
    if (first == last) {
      device.effects.push_back({first, effect.created, effect.freed});
      continue;
    }
    device.effects.push_back({first, effect.created, 0});
    device.effects.push_back({last, 0, effect.freed});
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
/// begins at `place`.
uint32_t FlatOrder::extend(const Device &device, Place place,
                           uint32_t limit) const {
  const std::vector<Effect> &effects = device.effects;
  size_t open = place.next;
  for (; open < effects.size() && effects[open].job < limit; ++open) {
    place.room -= effects[open].created;
    if (place.room < 0)
      return effects[open].job;
  }
  return limit;
}

/// Counts, for every place in the order, the tensors that have been begun there
/// and not ended.
void FlatOrder::countOpen() {
  std::vector<int32_t> change(sequence.size() + 1, 0);
  for (uint32_t i = 0; i < sequence.size(); ++i) {
    const std::vector<JobEffects> &blocks =
        jobs->byCohort()[sequence[i].cohort].effects;
    int64_t block = sequence[i].number % int64_t(blocks.size());
    change[i + 1] += block == 0;
    change[i + 1] -= block + 1 == int64_t(blocks.size());
  }
  open.assign(change.size(), 0);
  std::partial_sum(change.begin(), change.end(), open.begin());
}

/// A place up to an eighth before `last` at which at most half as many tensors
/// are in two phases as there: pieces are fewer, and phases not many more.
uint32_t FlatOrder::endOfTensors(uint32_t first, uint32_t last) const {
  constexpr uint32_t kShare = 8;
  auto begin = open.begin() + last - (last - first) / kShare;
  auto end = open.begin() + last + 1;
  auto least = std::min_element(std::make_reverse_iterator(end),
                                std::make_reverse_iterator(begin));
  return 2 * *least > open[last] ? last
                                 : uint32_t(least.base() - 1 - open.begin());
}

/// The jobs of a phase, those of a cohort together and in order.
std::map<uint32_t, std::vector<uint32_t>>
FlatOrder::jobsByCohort(const FlatPhase &phase) const {
  std::map<uint32_t, std::vector<uint32_t>> out;
  for (uint32_t job = phase.firstJob; job < phase.lastJob; ++job)
    out[sequence[job].cohort].push_back(job);
  return out;
}

void FlatOrder::addMoves(FlatPhase &phase) const {
  std::vector<Box> boxes;
  for (const auto &[cohort, own] : jobsByCohort(phase)) {
    int64_t begin = sequence[own.front()].number;
    for (uint32_t number : jobs->shapesOf(cohort)) {
      const FlatShape &shape = jobs->shape(number);
      if (shape.local)
        continue;
      boxes.clear();
      jobs->boxesOf(cohort, number, begin, begin + int64_t(own.size()), boxes);
      for (const Box &box : boxes)
        phase.moves.push_back(
            {shape.flow, shape.hop, shape.from, shape.to, box});
    }
  }
  // Shapes stand by hop inside a job only when they were met in that order.
  std::stable_sort(phase.moves.begin(), phase.moves.end(),
                   [](const Move &a, const Move &b) { return a.hop < b.hop; });
}

std::map<int64_t, std::vector<FlatCopy>>
FlatOrder::copiesOf(const FlatPhase &phase) const {
  std::map<int64_t, std::vector<FlatCopy>> out;
  auto isBefore = [](const FlatCopy &copy, uint32_t job) {
    return copy.job < job;
  };
  for (const auto &[number, device] : devices) {
    const std::vector<FlatCopy> &all = device.copies;
    auto first =
        std::lower_bound(all.begin(), all.end(), phase.firstJob, isBefore);
    auto last = std::lower_bound(first, all.end(), phase.lastJob, isBefore);
    if (first == last)
      continue;
    std::vector<FlatCopy> &own = out[number];
    own.assign(first, last);
    std::stable_sort(own.begin(), own.end(),
                     [&](const FlatCopy &a, const FlatCopy &b) {
                       return sequence[a.job].cohort < sequence[b.job].cohort;
                     });
  }
  return out;
}

void FlatOrder::forEachCopy(
    const FlatPhase &phase, const Parts &parts,
    const std::function<void(const LocalMove &, size_t)> &fn) const {
  std::vector<Box> boxes;
  for (const auto &[cohort, own] : jobsByCohort(phase)) {
    int64_t begin = sequence[own.front()].number;
    for (uint32_t number : jobs->shapesOf(cohort)) {
      const FlatShape &shape = jobs->shape(number);
      auto known = parts.find(shape.from);
      if (!shape.local || known == parts.end())
        continue; // nothing of it is in these jobs
      const std::vector<uint32_t> &starts = known->second;
      auto isBefore = [&](uint32_t a, uint32_t b) {
        uint32_t ofA = sequence[a].cohort, ofB = sequence[b].cohort;
        return ofA != ofB ? ofA < ofB : a < b;
      };
      auto partOf = [&](uint32_t job) { // the first begins with the phase
        return size_t(std::upper_bound(starts.begin() + 1, starts.end(), job,
                                       isBefore) -
                      starts.begin()) -
               1;
      };
      for (size_t i = 0, end = 0; i < own.size(); i = end) {
        size_t part = partOf(own[i]);
        for (end = i + 1; end < own.size() && partOf(own[end]) == part; ++end)
          continue;
        boxes.clear();
        jobs->boxesOf(cohort, number, begin + int64_t(i), begin + int64_t(end),
                      boxes);
        for (const Box &box : boxes)
          fn({shape.flow, shape.from, box}, part);
      }
    }
  }
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
      last = extend(device, places[number], last);
    // One job always fits where neededBytes() do.
    last = endOfTensors(first, std::max(last, first + 1));
    for (const auto &[number, device] : devices) {
      Place &place = places[number];
      for (; place.next < device.effects.size() &&
             device.effects[place.next].job < last;
           ++place.next)
        place.room += device.effects[place.next].freed -
                      device.effects[place.next].created;
    }
    out.push_back({{}, first, last});
    addMoves(out.back());
  }
  return out;
}

std::optional<FlatOrder> dt::orderWithin(const FlatInput &input,
                                         int64_t roomBytes) {
  // The best first. Where it does not fit: larger jobs, whose pages are fewer,
  // and then smaller ones.
  std::optional<FlatOrder> best;
  int64_t bestNeeded = roomBytes + 1, tooMany = INT64_MAX;
  for (int64_t parts : {kJobsInRoom, kJobsInRoom / 4, kJobsInRoom / 2,
                        2 * kJobsInRoom, 4 * kJobsInRoom, 8 * kJobsInRoom}) {
    bool isBelowPages = input.pageBytes < kWholeBuffers &&
                        parts > kJobsInRoom &&
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
