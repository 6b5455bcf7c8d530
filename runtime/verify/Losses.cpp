//===- Losses.cpp - What a failure would lose, wave by wave ---------------===//

#include "dtrt/verify/Losses.h"

#include "CopyCells.h"
#include "dtrt/format/ShardView.h"

#include <algorithm>
#include <new>
#include <unordered_map>

namespace dtrt {

namespace {

/// A number of a device at a moment takes as much memory as so many steps may.
constexpr uint64_t kStepsPerNumber = 16;

/// The bytes of each device, of which it wants the most.
class MostBytes {
public:
  explicit MostBytes(size_t count) {
    while (leaves < count)
      leaves *= 2;
    most.resize(2 * leaves);
  }
  void add(size_t index, int64_t bytes) {
    size_t at = leaves + index;
    most[at] += bytes;
    while (at /= 2)
      most[at] = std::max(most[2 * at], most[2 * at + 1]);
  }
  int64_t bytes() const { return most[1]; }
  /// The first that has so many.
  size_t index() const {
    size_t at = 1;
    while (at < leaves)
      at = 2 * at + (most[2 * at] == most[at] ? 0 : 1);
    return at - leaves;
  }

private:
  size_t leaves = 1;
  std::vector<int64_t> most; // of the halves; from `leaves` on, of each
};

/// Bytes that only one device has, as they change.
class SoleBytes {
public:
  explicit SoleBytes(Steps &steps) : steps(steps) {}

  void add(const CopyCell &cell, int64_t bytes) {
    ends.clear();
    for (const Presence &own : cell.presences) {
      ends.push_back({own.begin, own.device, true});
      ends.push_back({own.end, own.device, false});
    }
    std::sort(ends.begin(), ends.end(),
              [](const End &a, const End &b) { return a.moment < b.moment; });
    uint64_t present = 0, devices = 0; // how many, and their sum
    for (size_t i = 0; i + 1 < ends.size(); ++i) {
      present += ends[i].begins ? 1 : -1;
      devices += ends[i].begins ? ends[i].device : -uint64_t(ends[i].device);
      if (present == 1 && ends[i].moment < ends[i + 1].moment) {
        change(uint32_t(devices), ends[i].moment, bytes);
        change(uint32_t(devices), ends[i + 1].moment, -bytes);
      }
    }
  }

  struct Change {
    Moment moment = 0;
    uint32_t device = 0;
    int64_t bytes = 0;
  };
  /// By moment.
  std::vector<Change> sorted() const {
    std::vector<Change> out;
    for (const auto &[key, bytes] : changes)
      out.push_back(
          {Moment(uint32_t(key)) + kAtStart, uint32_t(key >> 32), bytes});
    std::sort(out.begin(), out.end(), [](const Change &a, const Change &b) {
      return a.moment < b.moment;
    });
    return out;
  }

private:
  struct End {
    Moment moment = 0;
    uint32_t device = 0;
    bool begins = false;
  };

  void change(uint32_t device, Moment moment, int64_t bytes) {
    if (moment == kForever)
      return;
    uint64_t key = uint64_t(device) << 32 | uint32_t(moment - kAtStart);
    auto [at, isNew] = changes.try_emplace(key, 0);
    at->second += bytes;
    if (isNew)
      steps.take(kStepsPerNumber);
  }

  Steps &steps;
  std::unordered_map<uint64_t, int64_t> changes; // by device and moment
  std::vector<End> ends;
};

Status addFamily(const Family &family, const FamilyHistory &history,
                 Steps &steps, SoleBytes &sums) {
  forEachCell(family, history, steps, [&](const CopyCell &cell) {
    sums.add(cell, bytesOf(family, cell));
  });
  return steps.status();
}

std::vector<Loss> lossesAt(const std::vector<Moment> &moments,
                           const std::vector<uint32_t> &devices,
                           const std::vector<SoleBytes::Change> &changes) {
  std::vector<Loss> losses;
  MostBytes most(devices.size());
  int64_t all = 0;
  size_t next = 0;
  for (Moment moment : moments) {
    for (; next < changes.size() && changes[next].moment <= moment; ++next) {
      auto at = std::lower_bound(devices.begin(), devices.end(),
                                 changes[next].device);
      most.add(size_t(at - devices.begin()), changes[next].bytes);
      all += changes[next].bytes;
    }
    Loss loss;
    loss.moment = moment;
    loss.device = all > 0 ? devices[most.index()] : devices.front();
    loss.bytes = uint64_t(most.bytes());
    loss.allBytes = uint64_t(all);
    losses.push_back(loss);
  }
  return losses;
}

Result<PlanLosses> findAll(const PlanReader &plan) {
  const PlanCommon &common = plan.common();
  DTRT_RETURN_IF_ERROR(checkCountable(common));
  CopyHistory history(common);
  DTRT_RETURN_IF_ERROR(history.addAll(plan, [](const RankProgram &) {}));
  Steps steps = history.cuttingSteps();
  SoleBytes sums(steps);
  for (size_t family = 0; family < common.families.size(); ++family)
    DTRT_RETURN_IF_ERROR(
        addFamily(common.families[family], history.of(family), steps, sums));
  PlanLosses losses;
  std::vector<Moment> moments = {kAtStart, kBeforeWaves};
  for (Moment wave : history.waveMoments())
    moments.push_back(wave);
  if (!plan.devices().empty())
    losses.moments = lossesAt(moments, plan.devices(), sums.sorted());
  losses.firstRelease = history.firstRelease;
  losses.releasingDevice = history.releasingDevice;
  return losses;
}

} // namespace

Result<PlanLosses> findLosses(const PlanReader &plan) {
  try {
    return findAll(plan);
  } catch (const std::bad_alloc &) {
    return makeError("not enough memory to tell what a failure would lose");
  }
}

} // namespace dtrt
