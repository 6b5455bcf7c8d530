//===- Losses.h - What a failure would lose, wave by wave -------*- C++ -*-===//
//
// In flat memory a source goes while bytes move, so that an element may be on
// one device only for a time, whatever replicas both layouts have. If that
// device fails then, the element is lost.
//
// The moments of a plan are the start, when nothing has been done; the one
// before the first wave, when every device has done what stands before its
// first group; and one after each wave, when every device has done all that
// stands before its next group. Devices do not wait for each other at waves, so
// this is one order of many.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_VERIFY_LOSSES_H
#define DTRT_VERIFY_LOSSES_H

#include "dtrt/format/PlanReader.h"

namespace dtrt {

/// A moment: the number of the wave that it comes after, or one of these.
using Moment = int64_t;
constexpr Moment kAtStart = -2, kBeforeWaves = -1;
/// After all moments.
constexpr Moment kForever = INT64_MAX;

/// What the failure of one device would lose at a moment. Bytes are those of
/// elements that the program brings to some destination, in its dtype, each
/// counted once however many devices want it. A device has an element if it is
/// in a source shard that is not released yet, in staging, packed and not sent
/// or received, or in a destination shard; and a state that is made from
/// another one if it has that.
struct Loss {
  Moment moment = kAtStart;
  uint32_t device = 0;   // the one whose failure loses most; the lowest of them
  uint64_t bytes = 0;    // that only this device has
  uint64_t allBytes = 0; // that only one device has, whichever it is
};

struct PlanLosses {
  /// One for each moment, ascending.
  std::vector<Loss> moments;
  /// The first moment at which storage of a source has gone, and the lowest
  /// device where it has. Nothing: none goes.
  std::optional<Moment> firstRelease;
  uint32_t releasingDevice = 0;
};

/// Of any plan that can be read, also of one that is not right. Fails where
/// that takes more time or memory than a plan of this size should.
Result<PlanLosses> findLosses(const PlanReader &plan);

} // namespace dtrt

#endif // DTRT_VERIFY_LOSSES_H
