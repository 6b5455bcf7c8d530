//===- Staging.h - Slots of the staging arena -------------------*- C++ -*-===//
//
// A message whose bytes do not lie in one run of a tensor is packed into a
// slot before its wave, or unpacked from one after it. A send slot is live
// while the group before it and its own run (packing overlaps the wire), a
// receive slot during its own and the next (so does unpacking). So the arena
// of a device has four areas, {send, receive} x {even, odd group}, each as
// large as its largest group: no two live slots meet, and nothing fragments.
// Behind these are the slots of what a device relays (Relays.h).
//
//===----------------------------------------------------------------------===//

#ifndef DT_SCHEDULING_STAGING_H
#define DT_SCHEDULING_STAGING_H

#include "dt/Scheduling/PlanMessage.h"
#include "dt/Scheduling/Relays.h"
#include "dt/Scheduling/StoredFlows.h"
#include "dt/Scheduling/WaveProblem.h"

#include <functional>
#include <map>

namespace dt {

/// Groups scheduled moves (sorted as `sortByMessage` leaves them) into
/// messages.
std::vector<PlanMessage>
formMessages(const std::vector<ScheduledMove> &scheduled,
             const std::vector<Flow> &flows);

/// Whether a message of one piece is one run of bytes at its sender, or at its
/// receiver.
using IsRun = std::function<bool(const PlanMessage &, bool atSender)>;
/// Of messages of these moves; all that is given must outlive it.
IsRun runsOf(const std::vector<ScheduledMove> &scheduled,
             const StoredFlows &stored);

/// Blocks of a collective on one of its members; kInPlace: it has none.
struct CollectiveSlots {
  int32_t wave = 0;
  int64_t device = 0;
  int64_t givenBytes = 0, gotBytes = 0;
  int64_t giveSlot = kInPlace, getSlot = kInPlace;
};

/// Gives every message its slots; `pairs` are those that relay one another.
/// Messages of collectives get none: their members have blocks for all of them,
/// in the waves' order. Returns the arena bytes of each device.
std::map<int64_t, int64_t>
assignSlots(const IsRun &isRun, std::vector<PlanMessage> &messages,
            const std::vector<RelayedPair> &pairs = {},
            std::vector<CollectiveSlots> *collectives = nullptr);

} // namespace dt

#endif // DT_SCHEDULING_STAGING_H
