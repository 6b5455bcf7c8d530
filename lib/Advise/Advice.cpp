//===- Advice.cpp - What a job should become next -------------------------===//

#include "dt/Advise/Advice.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

namespace dt::advise {

namespace {

auto key(const Destination &destination) {
  const Sizes &s = destination.sizes;
  return std::make_tuple(s.world, s.tp, s.cp, s.ep, s.etp, s.fsdp, s.dp, s.pp,
                         s.vpp, s.zero);
}

/// The replicas of today's layout that lost no device, where each replica holds
/// all state; today's layout itself else.
Sizes sourceOf(const Job &job) {
  const Sizes &today = job.today;
  if (today.zero && today.dp * today.cp > 1)
    return today;
  int64_t perStage = today.world / today.pp;
  int64_t perReplica = perStage / today.dp;
  std::vector<bool> isIntact(today.dp, true);
  for (int64_t rank = 0; rank < today.world; ++rank)
    if (job.cluster.devices[today.devices[rank]].isLost)
      isIntact[rank % perStage / perReplica] = false;
  Sizes out = today;
  out.dp = std::count(isIntact.begin(), isIntact.end(), true);
  int64_t experts = today.etp * today.ep;
  if (out.dp == today.dp || out.dp == 0 ||
      (job.model.experts > 0 && out.dp * perReplica % experts != 0))
    return today;
  out.world = perReplica * out.dp * out.pp;
  out.devices.clear();
  for (int64_t rank = 0; rank < today.world; ++rank)
    if (isIntact[rank % perStage / perReplica])
      out.devices.push_back(today.devices[rank]);
  return out;
}

bool isAllowed(const Constraints &constraints, const Sizes &s) {
  return constraints.allows("world", s.world) &&
         constraints.allows("tp", s.tp) && constraints.allows("cp", s.cp) &&
         constraints.allows("ep", s.ep) && constraints.allows("etp", s.etp) &&
         constraints.allows("dp", s.dp) && constraints.allows("fsdp", s.fsdp) &&
         constraints.allows("pp", s.pp) && constraints.allows("vpp", s.vpp) &&
         constraints.allows("zero", s.zero);
}

/// Today's sizes on fewer replicas: what a trainer without advice would do.
std::optional<Destination> shrunk(const Job &job) {
  Sizes sizes = job.today;
  int64_t left = job.available().size();
  int64_t fixed = sizes.tp * sizes.cp * sizes.pp * sizes.fsdp;
  std::string error;
  for (int64_t dp = std::min(sizes.dp, left / fixed); dp >= 1; --dp) {
    sizes.dp = dp;
    sizes.world = fixed * dp;
    sizes.devices = chooseDevices(job, sizes.world, sizes.tp, 0);
    if (sizes.devices.empty() || !isAllowed(job.constraints, sizes))
      continue;
    Batch batch = job.batch;
    for (Recompute recompute :
         {batch.recompute, Recompute::Selective, Recompute::Full}) {
      batch.recompute = std::max(recompute, job.batch.recompute);
      auto found = predictAsIs(job, sizes, batch, error);
      if (found && found->memory.fits)
        return found;
    }
  }
  return std::nullopt;
}

std::string nameOf(const Sizes &sizes) {
  std::string name;
  auto add = [&](const char *axis, int64_t size, bool always = false) {
    if (size > 1 || always)
      name +=
          (name.empty() ? "" : "-") + std::string(axis) + std::to_string(size);
  };
  add("tp", sizes.tp, true);
  add("cp", sizes.cp);
  add("pp", sizes.pp, true);
  add("vpp", sizes.vpp);
  add("ep", sizes.ep);
  if (sizes.etp != sizes.tp)
    add("etp", sizes.etp, true);
  add("fsdp", sizes.fsdp);
  add("dp", sizes.dp, true);
  return name;
}

/// How long the arrivals take were each device's ports busy without a pause; of
/// what crosses nodes too much is counted (see StateSizes.h).
double arrivalSeconds(const Job &job, const Arrivals &arrivals) {
  const JobCluster &cluster = job.cluster;
  double inter = cluster.bytesPerSecond(true);
  double intra = cluster.bytesPerSecond(false);
  double longest = 0;
  bool isRegular = cluster.isRegular();
  for (const DeviceArrival &device : arrivals.devices) {
    double seconds = 0;
    if (isRegular) {
      seconds = std::max(double(device.betweenNodes) / inter *
                             double(cluster.devicesPerNic),
                         double(device.bytes - device.betweenNodes) / intra);
    } else {
      // From whom is not known: over the fastest link that leads there.
      double best = 0;
      for (size_t from = 0; from < cluster.devices.size(); ++from)
        if (int64_t(from) != device.device)
          best = std::max(best, cluster.rate(int64_t(from), device.device));
      seconds = best > 0 ? double(device.bytes) / best : 0;
    }
    longest = std::max(longest, seconds);
  }
  return arrivals.bytes > 0 ? longest + cluster.latencySeconds() : 0;
}

class Search {
public:
  Search(const Job &job, const AdviceOptions &options, const Progress &progress)
      : job(job), options(options), progress(progress) {}

  std::optional<Advice> run(std::string &error) {
    advice.source = sourceOf(job);
    describeLoss();
    describeToday();
    std::vector<Destination> found = finalists();
    if (found.empty()) {
      error = "no layout of " + std::to_string(job.available().size()) +
              " devices fits the model, the batch, the constraints and the "
              "memory";
      return std::nullopt;
    }
    for (size_t i = 0; i < found.size(); ++i) {
      if (progress)
        progress("bytes", i, found.size());
      advice.rows.push_back(rowOf(found[i]));
    }
    if (options.packWithin > 0)
      addPacked();
    return std::move(advice);
  }

private:
  void describeLoss() {
    advice.lostBytes = lostBytes(job, advice.source);
    if (advice.lostBytes > 0)
      advice.notes.push_back(
          "lost devices alone hold " + std::to_string(advice.lostBytes) +
          " bytes of the state: requests read them from there, or a snapshot "
          "has to stand in");
  }
  void describeToday() {
    for (int64_t device : job.today.devices)
      if (job.cluster.devices[device].isLost)
        return;
    std::string error;
    advice.today = predictAsIs(job, job.today, job.batch, error);
    if (!advice.today)
      advice.notes.push_back("today's layout is not predicted: " + error);
    else if (!advice.today->memory.fits)
      advice.notes.push_back(
          "today's layout needs " + std::to_string(advice.today->memory.total) +
          " bytes on a device by this model of memory, more than there are");
  }

  /// Checked with the bytes of every rank, near to today's layout.
  std::optional<Destination> closely(const Destination &rough) {
    std::string error;
    std::optional<Destination> exact;
    if (rough.sizes.blocks.empty() || rough.sizes.vpp > 1)
      exact = predict(job, rough.sizes, rough.batch, /*isExact=*/true, error);
    else
      exact = predictAsIs(job, rough.sizes, rough.batch, error);
    if (!exact || !exact->memory.fits)
      return std::nullopt;
    return nearToday(job, *exact);
  }

  std::vector<Destination> finalists() {
    std::vector<Destination> rough;
    for (int64_t world : worldsOf(job, /*all=*/false)) {
      std::vector<Destination> more =
          fastestOn(job, world, options.finalists, progress);
      rough.insert(rough.end(), more.begin(), more.end());
    }
    std::stable_sort(rough.begin(), rough.end(),
                     [](const Destination &a, const Destination &b) {
                       return a.time.total < b.time.total;
                     });
    std::vector<Destination> out;
    std::set<decltype(key(rough.front()))> seen;
    for (const Destination &one : rough) {
      if (out.size() == options.finalists)
        break;
      if (!seen.insert(key(one)).second)
        continue;
      if (auto exact = closely(one))
        out.push_back(std::move(*exact));
    }
    if (auto simple = shrunk(job))
      if (std::none_of(out.begin(), out.end(), [&](const Destination &one) {
            return key(one) == key(*simple) &&
                   one.sizes.blocks == simple->sizes.blocks;
          }))
        out.push_back(nearToday(job, *simple));
    return out;
  }

  AdviceRow rowOf(const Destination &destination) {
    AdviceRow row;
    row.destination = destination;
    row.name = nameOf(destination.sizes);
    Arrivals moved = arrivals(job, advice.source, destination.sizes);
    row.movedBytes = moved.bytes;
    row.transitionSeconds = arrivalSeconds(job, moved);
    row.mode = modeOf(destination);
    if (destination.sizes.pp > 1)
      if (auto even = evenly(job, destination))
        row.evenStep = even->memory.fits ? even->time.total : 0;
    std::set<int64_t> used(destination.sizes.devices.begin(),
                           destination.sizes.devices.end());
    for (int64_t device : job.available())
      if (!used.count(device))
        row.givenBack.push_back(device);
    return row;
  }

  /// Activations are gone at a step's end: both states must fit, or the source
  /// has to go as the destination comes.
  MemoryMode modeOf(const Destination &destination) {
    if (job.mode)
      return *job.mode;
    if (sourceMost == 0)
      for (const RankBytes &stage :
           stageBytes(job.model, advice.source, job.vocabMultiple))
        sourceMost = std::max(sourceMost, stage.state);
    int64_t capacity = INT64_MAX;
    for (int64_t device : destination.sizes.devices)
      capacity = std::min(capacity, job.cluster.devices[device].memory);
    int64_t both = sourceMost + destination.memory.state + 2 * job.staging;
    return both > capacity - job.constraints.reserve ? MemoryMode::Flat
                                                     : MemoryMode::Rollback;
  }

  /// The fewest devices that keep the step within the bound.
  void addPacked() {
    double best = HUGE_VAL;
    for (const AdviceRow &row : advice.rows)
      best = std::min(best, row.destination.time.total);
    double bound = best * options.packWithin;
    std::vector<int64_t> worlds = worldsOf(job, /*all=*/true);
    double ideal = stepFlops(job.model, job.batch) / job.time.efficiency;
    double fastest = 0;
    for (const Device &device : job.cluster.devices)
      fastest = std::max(fastest, device.flops);
    for (auto world = worlds.rbegin(); world != worlds.rend(); ++world) {
      if (ideal / fastest / double(*world) > bound)
        continue;
      for (const Destination &one :
           fastestOn(job, *world, options.finalists, progress)) {
        auto exact = closely(one);
        if (!exact || exact->time.total > bound)
          continue;
        AdviceRow row = rowOf(*exact);
        row.isPacked = true;
        advice.rows.push_back(std::move(row));
        return;
      }
    }
  }

  const Job &job;
  const AdviceOptions &options;
  const Progress &progress;
  Advice advice;
  int64_t sourceMost = 0;
};

} // namespace

void rankRows(const Job &job, Advice &advice) {
  auto cost = [&](const AdviceRow &row) {
    return row.destination.time.total * double(job.horizon) +
           row.transitionSeconds;
  };
  std::stable_sort(advice.rows.begin(), advice.rows.end(),
                   [&](const AdviceRow &a, const AdviceRow &b) {
                     return cost(a) < cost(b);
                   });
  double step = 0, transition = 0;
  if (advice.today && advice.today->memory.fits) {
    step = advice.today->time.total;
  } else {
    transition = HUGE_VAL;
    for (const AdviceRow &row : advice.rows)
      if (row.transitionSeconds < transition) {
        transition = row.transitionSeconds;
        step = row.destination.time.total;
      }
  }
  for (AdviceRow &row : advice.rows) {
    double gain = step - row.destination.time.total;
    double price = row.transitionSeconds - transition;
    row.paysAfterSteps.reset();
    if (price <= 0 && gain >= 0)
      row.paysAfterSteps = 0;
    else if (gain > 0 && price / gain < 1e15)
      row.paysAfterSteps = int64_t(std::ceil(price / gain));
  }
}

std::optional<Advice> advise(const Job &job, const AdviceOptions &options,
                             const Progress &progress, std::string &error) {
  auto advice = Search(job, options, progress).run(error);
  if (!advice)
    return std::nullopt;
  rankRows(job, *advice);
  // The best rows, the quickest transition and the fewest devices.
  size_t quickest = 0;
  for (size_t i = 0; i < advice->rows.size(); ++i)
    if (advice->rows[i].transitionSeconds <
        advice->rows[quickest].transitionSeconds)
      quickest = i;
  std::vector<AdviceRow> kept;
  for (size_t i = 0; i < advice->rows.size(); ++i)
    if (kept.size() + 1 < options.rows || i == quickest ||
        advice->rows[i].isPacked ||
        (kept.size() < options.rows && i > quickest))
      kept.push_back(std::move(advice->rows[i]));
  advice->rows = std::move(kept);
  return advice;
}

} // namespace dt::advise
