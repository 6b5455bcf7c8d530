//===- FlatOrder.cpp - Jobs in order, and phases of them ------------------===//

#include "dt/Scheduling/FlatOrder.h"

#include "FlatJobs.h"
#include "FlatStorages.h"

#include "dt/Geometry/Painted.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

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
  addDevices(input);
  addBlocks();
  addOrder(input, sequenceJobs(jobs->byCohort(),
                               double(kJobsInRoom) * double(jobBytes)));
  countRead();
  countOpen();
}

/// What they hold, but for what stays.
void FlatOrder::addDevices(const FlatInput &input) {
  std::set<int64_t> numbers;
  for (const ShardIndex *index : {&input.source, &input.destination})
    for (int64_t device : index->devices())
      numbers.insert(device);
  for (int64_t number : numbers)
    devices.push_back({number});
  for (const ShardIndex *index : {&input.source, &input.destination})
    for (int64_t number : index->devices())
      for (const ShardIndex::Entry &entry : index->shardsOf(number)) {
        const FlatFlow &flow = input.flows[entry.flow];
        bool isSource = index == &input.source;
        Device &held = devices[placeOf(number)];
        if (flow.stays(number))
          continue;
        (isSource ? held.source : held.destination) +=
            entry.shard->numMembers() * entry.shard->elementsPerMember() *
            bytesOf(isSource ? flow.source : flow.destination);
      }
}

/// Among those that hold anything on a side.
uint32_t FlatOrder::placeOf(int64_t device) const {
  auto isBefore = [](const Device &a, int64_t number) {
    return a.number < number;
  };
  return uint32_t(
      std::lower_bound(devices.begin(), devices.end(), device, isBefore) -
      devices.begin());
}

/// There are far more jobs than blocks: what they do is said once.
void FlatOrder::addBlocks() {
  for (const CohortJobs &cohort : jobs->byCohort()) {
    std::vector<Block> &own = blocks.emplace_back();
    for (const JobEffects &effects : cohort.effects) {
      Block &block = own.emplace_back();
      block.changes.first = uint32_t(changes.size());
      block.copies.first = uint32_t(copies.size());
      for (const JobEffect &effect : effects) {
        uint32_t device = placeOf(effect.device);
        if (effect.created || effect.freed)
          changes.push_back({device, effect.created, effect.freed});
        if (effect.copied > 0)
          copies.push_back({device, effect.copied});
      }
      block.changes.last = uint32_t(changes.size());
      block.copies.last = uint32_t(copies.size());
    }
  }
}

const FlatOrder::Block &FlatOrder::blockOf(const Job &job) const {
  return blocks[job.cohort][job.block];
}

/// Without its changes.
FlatOrder::Job &FlatOrder::add(const FlatJob &job) {
  return sequence.emplace_back(
      Job{job.cohort, uint32_t(job.block), job.number, job.numMembers, {}, 1});
}

void FlatOrder::addAlone(const FlatJob &from) {
  Job &job = add(from);
  job.changes = blockOf(job).changes;
  job.times = job.members;
}

/// Shared storages come with the first of the jobs and go with the last.
void FlatOrder::addTogether(const FlatStorages &storages, const FlatJob *first,
                            const FlatJob *last) {
  const size_t begin = sequence.size();
  for (const FlatJob *job = first; job != last; ++job)
    add(*job);
  auto effects = storages.effectsOf(*storages.groupOf(first->cohort));
  auto change = [&](Job &job, bool creates, bool frees) {
    job.changes.first = uint32_t(changes.size());
    for (const auto &[number, effect] : effects)
      if (effect.created || effect.freed) // others may only pass it on
        changes.push_back({placeOf(number), creates ? effect.created : 0,
                           frees ? effect.freed : 0});
    job.changes.last = uint32_t(changes.size());
  };
  const bool isOne = last - first == 1;
  change(sequence[begin], /*creates=*/true, /*frees=*/isOne);
  if (!isOne)
    change(sequence.back(), /*creates=*/false, /*frees=*/true);
}

void FlatOrder::addOrder(const FlatInput &input, std::vector<FlatJob> order) {
  FlatStorages storages(input, *jobs);
  order = storages.gather(std::move(order));
  sequence.reserve(order.size());
  for (size_t first = 0, last = 0; first < order.size(); first = last) {
    auto group = storages.groupOf(order[first].cohort);
    last = first + 1;
    if (!group) {
      addAlone(order[first]);
      continue;
    }
    while (last < order.size() && storages.groupOf(order[last].cohort) == group)
      ++last;
    addTogether(storages, &order[first], order.data() + last);
  }
}

void FlatOrder::countRead() {
  for (const Job &job : sequence)
    for (uint32_t i = job.changes.first; i < job.changes.last; ++i)
      devices[changes[i].device].read += changes[i].freed * job.times;
}

int64_t FlatOrder::neededBytes() const {
  if (jobs->isTooMany())
    return INT64_MAX;
  std::vector<int64_t> above; // what devices hold, above the larger side
  for (const Device &device : devices)
    above.push_back(device.read - std::max(device.source, device.destination));
  int64_t needed = 0;
  for (const Job &job : sequence)
    for (uint32_t i = job.changes.first; i < job.changes.last; ++i) {
      const Change &change = changes[i];
      int64_t &own = above[change.device];
      own += change.created * job.times;
      needed = std::max(needed, own);
      own -= change.freed * job.times;
    }
  return needed;
}

/// The first job that a device has no room for in a phase that begins with
/// `first`.
uint32_t FlatOrder::extend(std::vector<int64_t> room, uint32_t first) const {
  for (uint32_t number = first; number < sequence.size(); ++number) {
    const Job &job = sequence[number];
    for (uint32_t i = job.changes.first; i < job.changes.last; ++i) {
      int64_t &own = room[changes[i].device];
      own -= changes[i].created * job.times;
      if (own < 0)
        return number;
    }
  }
  return uint32_t(sequence.size());
}

/// Counts, for every place in the order, the tensors that have been begun there
/// and not ended.
void FlatOrder::countOpen() {
  std::vector<int32_t> change(sequence.size() + 1, 0);
  for (uint32_t i = 0; i < sequence.size(); ++i) {
    const Job &job = sequence[i];
    change[i + 1] += job.block == 0;
    change[i + 1] -= job.block + 1 == blocks[job.cohort].size();
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

/// Sorts the jobs of one phase after the other, with memory of its own.
class FlatOrder::JobsByCohort {
public:
  explicit JobsByCohort(const FlatOrder &order)
      : sequence(order.sequence), first(order.blocks.size(), kNone) {}

  /// In time that does not depend on how many cohorts there are.
  void sort(FlatPhase &phase) {
    next.resize(phase.lastJob - phase.firstJob);
    cohorts.clear();
    for (uint32_t job = phase.lastJob; job-- > phase.firstJob;) {
      uint32_t cohort = sequence[job].cohort;
      if (first[cohort] == kNone)
        cohorts.push_back(cohort);
      next[job - phase.firstJob] = std::exchange(first[cohort], job);
    }
    std::sort(cohorts.begin(), cohorts.end());
    phase.jobs.reserve(next.size());
    phase.cohorts.reserve(cohorts.size());
    for (uint32_t cohort : cohorts) {
      auto begin = uint32_t(phase.jobs.size());
      for (uint32_t job = std::exchange(first[cohort], kNone); job != kNone;
           job = next[job - phase.firstJob])
        phase.jobs.push_back(job);
      phase.cohorts.push_back({cohort, begin, uint32_t(phase.jobs.size())});
    }
  }

private:
  static constexpr uint32_t kNone = UINT32_MAX;
  const std::vector<Job> &sequence;
  std::vector<uint32_t> first;   // by cohort: of the phase
  std::vector<uint32_t> next;    // by job of the phase: of its cohort
  std::vector<uint32_t> cohorts; // of the phase
};

void FlatOrder::addMoves(FlatPhase &phase) const {
  std::vector<Box> boxes;
  for (auto [cohort, first, last] : phase.cohorts) {
    int64_t begin = sequence[phase.jobs[first]].number;
    for (uint32_t number : jobs->shapesOf(cohort)) {
      const FlatShape &shape = jobs->shape(number);
      if (shape.local)
        continue;
      boxes.clear();
      jobs->boxesOf(cohort, number, begin, begin + (last - first), boxes);
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
  std::vector<std::vector<FlatCopy>> byDevice(devices.size());
  for (uint32_t number : phase.jobs) {
    const Job &job = sequence[number];
    const Range &range = blockOf(job).copies;
    for (uint32_t i = range.first; i < range.last; ++i)
      byDevice[copies[i].device].push_back(
          {number, copies[i].bytes * job.members});
  }
  std::map<int64_t, std::vector<FlatCopy>> out;
  for (size_t place = 0; place < devices.size(); ++place)
    if (!byDevice[place].empty())
      out[devices[place].number] = std::move(byDevice[place]);
  return out;
}

void FlatOrder::forEachCopy(
    const FlatPhase &phase, const Parts &parts,
    const std::function<void(const LocalMove &, size_t)> &fn) const {
  std::vector<Box> boxes;
  for (auto [cohort, first, last] : phase.cohorts) {
    const uint32_t *own = &phase.jobs[first];
    const size_t numOwn = last - first;
    int64_t begin = sequence[*own].number;
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
      for (size_t i = 0, end = 0; i < numOwn; i = end) {
        size_t part = partOf(own[i]);
        for (end = i + 1; end < numOwn && partOf(own[end]) == part; ++end)
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
  std::vector<int64_t> room; // by device: bytes that may be created
  for (const Device &device : devices)
    room.push_back(std::max(device.source, device.destination) + roomBytes -
                   device.read);
  std::vector<FlatPhase> out;
  JobsByCohort byCohort(*this);
  auto all = uint32_t(sequence.size());
  for (uint32_t first = 0, last = 0; first < all; first = last) {
    // One job always fits where neededBytes() do.
    last = endOfTensors(first, std::max(extend(room, first), first + 1));
    for (uint32_t number = first; number < last; ++number) {
      const Job &job = sequence[number];
      for (uint32_t i = job.changes.first; i < job.changes.last; ++i)
        room[changes[i].device] +=
            (changes[i].freed - changes[i].created) * job.times;
    }
    out.push_back({{}, first, last, {}, {}});
    byCohort.sort(out.back());
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
