//===- LostRegions.cpp - What is gone with a device -----------------------===//

#include "dtrt/verify/LostRegions.h"

#include "CopyCells.h"
#include "WaveReach.h"

#include <algorithm>
#include <new>
#include <set>
#include <tuple>

namespace dtrt {

namespace {

/// Regions that are kept.
constexpr size_t kMostRegions = 1024;

/// Orders regions so that those that touch in a dim, and are alike in all else,
/// are neighbours.
bool isBefore(const LostRegion &a, const LostRegion &b, size_t dim) {
  auto kindOf = [](const LostRegion &region) {
    return std::tie(region.isSure, region.family, region.states);
  };
  if (kindOf(a) != kindOf(b))
    return kindOf(a) < kindOf(b);
  for (size_t d = 0; d < a.offset.size(); ++d) {
    auto boundsOf = [&](const LostRegion &region) {
      return std::tie(region.offset[d], region.size[d]);
    };
    if (d != dim && boundsOf(a) != boundsOf(b))
      return boundsOf(a) < boundsOf(b);
  }
  return dim < a.offset.size() && a.offset[dim] < b.offset[dim];
}

bool touch(const LostRegion &a, const LostRegion &b, size_t dim) {
  if (a.isSure != b.isSure || a.family != b.family || a.states != b.states ||
      dim >= a.offset.size() || a.offset[dim] + a.size[dim] != b.offset[dim])
    return false;
  for (size_t d = 0; d < a.offset.size(); ++d)
    if (d != dim && (a.offset[d] != b.offset[d] || a.size[d] != b.size[d]))
      return false;
  return true;
}

/// Makes one of regions that touch, dim by dim.
void mergeRegions(std::vector<LostRegion> &all) {
  size_t dims = 0;
  for (const LostRegion &region : all)
    dims = std::max(dims, region.offset.size());
  for (size_t dim = dims; dim-- > 0;) {
    std::sort(all.begin(), all.end(),
              [&](const LostRegion &a, const LostRegion &b) {
                return isBefore(a, b, dim);
              });
    size_t kept = 0;
    for (size_t i = 1; i < all.size(); ++i) {
      if (touch(all[kept], all[i], dim)) {
        all[kept].size[dim] += all[i].size[dim];
        all[kept].bytes += all[i].bytes;
      } else if (++kept != i) {
        all[kept] = std::move(all[i]);
      }
    }
    all.resize(all.empty() ? 0 : kept + 1);
  }
}

bool endsAfter(const Presence &own, Moment moment) {
  return own.end == kForever || own.end > moment;
}
/// Whether a device has the elements wherever it is within its reach.
bool surelyHas(const Presence &own, const Reach &reach) {
  return own.begin <= reach.first && endsAfter(own, reach.last);
}
/// Whether it has them somewhere there.
bool mayHave(const Presence &own, const Reach &reach) {
  return own.begin <= reach.last && endsAfter(own, reach.first);
}

/// The cells of a plan, sorted by who has them after a failure.
class Remains {
public:
  Remains(const std::vector<uint32_t> &devices, std::vector<Reach> reach,
          const std::vector<uint32_t> &gone)
      : devices(devices), reach(std::move(reach)), isGone(devices.size()) {
    for (uint32_t device : gone)
      isGone[indexOf(device)] = true;
  }

  void add(uint32_t family, size_t rank, const CopyCell &cell, uint64_t bytes) {
    bool wasThere = false, isHeld = false, mayBeHeld = false;
    for (const Presence &own : cell.presences) {
      size_t at = indexOf(own.device);
      bool may = mayHave(own, reach[at]);
      if (isGone[at]) {
        wasThere = wasThere || may;
      } else {
        mayBeHeld = mayBeHeld || may;
        isHeld = isHeld || surelyHas(own, reach[at]);
      }
    }
    if (!wasThere)
      return;
    if (isHeld)
      save(cell, bytes);
    else
      lose(family, rank, cell, bytes, /*isSure=*/!mayBeHeld);
  }

  LostRegions take() {
    keepLargest();
    out.numRegions += out.regions.size();
    out.savers.assign(savers.begin(), savers.end());
    return std::move(out);
  }

private:
  size_t indexOf(uint32_t device) const {
    return size_t(std::lower_bound(devices.begin(), devices.end(), device) -
                  devices.begin());
  }

  void save(const CopyCell &cell, uint64_t bytes) {
    out.savedBytes += bytes;
    for (const Presence &own : cell.presences)
      if (size_t at = indexOf(own.device);
          !isGone[at] && surelyHas(own, reach[at]))
        savers.insert(own.device);
  }

  void lose(uint32_t family, size_t rank, const CopyCell &cell, uint64_t bytes,
            bool isSure) {
    (isSure ? out.lostBytes : out.uncertainBytes) += bytes;
    LostRegion region;
    region.family = family;
    region.states = cell.states;
    region.offset.assign(cell.low, cell.low + rank);
    for (size_t dim = 0; dim < rank; ++dim)
      region.size.push_back(cell.high[dim] - cell.low[dim]);
    region.bytes = bytes;
    region.isSure = isSure;
    out.regions.push_back(std::move(region));
    if (out.regions.size() == 2 * kMostRegions)
      keepLargest();
  }

  /// The sure ones first. Counts those that it drops.
  void keepLargest() {
    mergeRegions(out.regions);
    auto keyOf = [](const LostRegion &region) {
      return std::tuple(!region.isSure, -int64_t(region.bytes), region.family,
                        region.states, region.offset);
    };
    auto &all = out.regions;
    std::sort(all.begin(), all.end(),
              [&](const LostRegion &a, const LostRegion &b) {
                return keyOf(a) < keyOf(b);
              });
    if (all.size() > kMostRegions) {
      out.numRegions += all.size() - kMostRegions;
      all.resize(kMostRegions);
    }
  }

  const std::vector<uint32_t> &devices;
  std::vector<Reach> reach;
  std::vector<bool> isGone;
  std::set<uint32_t> savers;
  LostRegions out;
};

Status checkDevices(const PlanReader &plan, const SeenFailure &failure) {
  std::vector<uint32_t> named = failure.gone;
  named.push_back(failure.device);
  for (uint32_t device : named)
    if (!std::binary_search(plan.devices().begin(), plan.devices().end(),
                            device))
      return makeError("device ", device, " has no program");
  return {};
}

/// The messages that a program sends.
void addEdges(const std::vector<uint32_t> &devices, const RankProgram &program,
              std::vector<WaveEdge> &edges) {
  auto indexOf = [&](uint32_t device) {
    return uint32_t(std::lower_bound(devices.begin(), devices.end(), device) -
                    devices.begin());
  };
  for (const Instruction &instruction : program.instructions)
    for (const Message &message : instruction.messages)
      if (!message.receive)
        edges.push_back(
            {instruction.wave, indexOf(program.device), indexOf(message.peer)});
}

Result<LostRegions> findAll(const PlanReader &plan,
                            const SeenFailure &failure) {
  const PlanCommon &common = plan.common();
  const std::vector<uint32_t> &devices = plan.devices();
  DTRT_RETURN_IF_ERROR(checkDevices(plan, failure));
  DTRT_RETURN_IF_ERROR(checkCountable(common));
  CopyHistory history(common);
  std::vector<WaveEdge> edges;
  DTRT_RETURN_IF_ERROR(history.addAll(plan, [&](const RankProgram &program) {
    addEdges(devices, program, edges);
  }));
  auto self = std::lower_bound(devices.begin(), devices.end(), failure.device);
  Remains remains(devices,
                  findReach(edges, devices.size(),
                            uint32_t(self - devices.begin()), failure.wave,
                            failure.isInGroup),
                  failure.gone);
  Steps steps = history.cuttingSteps();
  for (uint32_t f = 0; f < common.families.size(); ++f) {
    const Family &family = common.families[f];
    forEachCell(family, history.of(f), steps, [&](const CopyCell &cell) {
      remains.add(f, family.rank(), cell, uint64_t(bytesOf(family, cell)));
    });
    DTRT_RETURN_IF_ERROR(steps.status());
  }
  return remains.take();
}

} // namespace

Result<LostRegions> findLostRegions(const PlanReader &plan,
                                    const SeenFailure &failure) {
  try {
    return findAll(plan, failure);
  } catch (const std::bad_alloc &) {
    return makeError("not enough memory to tell what is lost");
  }
}

} // namespace dtrt
