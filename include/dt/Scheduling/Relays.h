//===- Relays.h - Messages that go over a third device ----------*- C++ -*-===//
//
// A relay receives a message into a slot and sends the slot on in a later wave.
// It neither holds nor wants what is in it:
//
//   wave       0             1             2
//   0 -> 2     0 -> 1  [a]   0 -> 1  [b]
//   over 1                   1 -> 2  [a]   1 -> 2  [b]
//
// So both messages of a unit have the same pieces, and nothing else. Slots of a
// relay lie behind the four areas of its arena (Staging.h), the first that
// comes in the first place that is free from its group to the one that sends it
// on.
//
//===----------------------------------------------------------------------===//

#ifndef DT_SCHEDULING_RELAYS_H
#define DT_SCHEDULING_RELAYS_H

#include "dt/Scheduling/WaveProblem.h"

namespace dt {

/// Two messages, by number: to the relay, and on from there.
struct RelayedPair {
  size_t in = 0, out = 0;
};

/// Which message sends on what another one brings. `messages` are those of
/// `scheduled`, by wave. Says in one sentence which has no other.
std::optional<std::string>
pairRelays(const std::vector<ScheduledMove> &scheduled,
           const std::vector<PlanMessage> &messages,
           std::vector<RelayedPair> &pairs);

/// Per message, the numbers of its group among those of its sender and of its
/// receiver.
std::vector<std::pair<int64_t, int64_t>>
groupNumbers(const std::vector<PlanMessage> &messages);

/// Per pair, where its slot lies behind the areas of its relay; and the bytes
/// that each relay needs for all of them.
struct RelaySlots {
  std::vector<int64_t> offsets;
  std::map<int64_t, int64_t> bytes;
};
RelaySlots placeRelays(const std::vector<PlanMessage> &messages,
                       const std::vector<RelayedPair> &pairs);

/// What is relayed as one move from its first sender to its last receiver, in
/// the wave in which it comes there. Pairs are those of all that is relayed.
std::vector<ScheduledMove>
withoutRelays(const std::vector<ScheduledMove> &scheduled,
              const std::vector<PlanMessage> &messages,
              const std::vector<RelayedPair> &pairs);

} // namespace dt

#endif // DT_SCHEDULING_RELAYS_H
