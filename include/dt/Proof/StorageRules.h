//===- StorageRules.h - Storage that comes and goes -------------*- C++ -*-===//
//
// Flat mode releases source storage as it drains and creates destination
// storage as it fills. These are the rules that such a plan keeps, judged
// element by element; they know nothing of how storage was placed.
//
//===----------------------------------------------------------------------===//

#ifndef DT_PROOF_STORAGERULES_H
#define DT_PROOF_STORAGERULES_H

#include "dt/Geometry/DType.h"
#include "dt/Proof/Certificate.h"
#include "dt/Proof/StayingShards.h"

namespace dt {

/// Storage comes and goes once and names what is there; nothing is written
/// before its storage is created or read after it is released. What no step
/// creates or releases is there from start to end. By tensor, storage comes and
/// goes whole, and all that shares one at once. Pieces are placed
/// (placePieces).
MaybeFault checkStorage(const TransportPlan &plan, const StayingShards &staying,
                        const ParallelFor &parallel = serialFor);

/// Bytes that a device holds: all of each side, its staging arena, and the most
/// of them at any time. Of both sides, what stays (StayingShards) exists once.
struct DeviceMemory {
  int64_t source = 0, destination = 0, staging = 0, peak = 0;
};
std::map<int64_t, DeviceMemory> measureMemory(const TransportPlan &plan,
                                              const StayingShards &staying);
/// The same without peaks, which are 0.
std::map<int64_t, DeviceMemory> measureSides(const TransportPlan &plan);

struct MemoryLimits {
  int64_t staging = 0; // bytes per device
  int64_t device = 0;  // bytes per device; 0: none
  /// Flat: the peak keeps to max(source, destination) + staging.
  MemoryMode mode = MemoryMode::Rollback;
};
MaybeFault checkMemory(const std::map<int64_t, DeviceMemory> &memory,
                       const MemoryLimits &limits);

/// The elements of a member's storage from the first to the last that a view
/// touches.
Interval hullOf(const LocalView &view);
/// Whether a view touches any of `elements`.
bool touches(const LocalView &view, Interval elements);

} // namespace dt

#endif // DT_PROOF_STORAGERULES_H
