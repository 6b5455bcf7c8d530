//===- LostRegions.h - What is gone with a device ---------------*- C++ -*-===//
//
// After a failure in flat memory: which elements are on no device any more, as
// far as one that is left can know from the plan and from its own place in it.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_VERIFY_LOSTREGIONS_H
#define DTRT_VERIFY_LOSTREGIONS_H

#include "dtrt/verify/Losses.h"

namespace dtrt {

/// A failure as one of the devices that are left sees it.
struct SeenFailure {
  /// Itself, and the wave of the group that it has begun last;
  /// kBeforeWaves when it has begun none, kForever when it has done all.
  uint32_t device = 0;
  Moment wave = kBeforeWaves;
  /// Whether that group has not ended.
  bool isInGroup = false;
  std::vector<uint32_t> gone; // devices
};

/// A box of a family, in each of these states.
struct LostRegion {
  uint32_t family = 0;
  uint64_t states = 0;
  std::vector<int64_t> offset, size;
  uint64_t bytes = 0;
  /// Whether it is on none of the others wherever they are; if not, some may
  /// have it, or have had it, at the places where they can be.
  bool isSure = true;
};

/// Elements are those of `Loss`, and so is what it is to have one; what was on
/// its way when the failure came has not arrived.
struct LostRegions {
  /// The largest first; not all, where there are thousands.
  std::vector<LostRegion> regions;
  uint64_t numRegions = 0;
  uint64_t lostBytes = 0, uncertainBytes = 0;
  /// Of what the gone devices can have had, what others surely have; and those
  /// others, ascending.
  uint64_t savedBytes = 0;
  std::vector<uint32_t> savers;
};

/// Fails as `findLosses` does, and where the plan lacks one of the devices.
Result<LostRegions> findLostRegions(const PlanReader &plan,
                                    const SeenFailure &failure);

} // namespace dtrt

#endif // DTRT_VERIFY_LOSTREGIONS_H
