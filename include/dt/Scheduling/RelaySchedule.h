//===- RelaySchedule.h - Which messages go over a third device --*- C++ -*-===//
//
// Where the link of a pair is slow, and a third device has fast ones to both,
// two hops may beat one. Pairs are tried in the order of the time that their
// ports are busy: each goes over the device that leaves ports busy for the
// shortest time, if that is shorter than without. What is left is scheduled
// without relays; then the hops of each pair, cut into units of one size, take
// the first waves whose ports are idle and whose groups they do not prolong, or
// new ones behind all others. Sizes and numbers of pairs are tried, and the
// fastest is kept, if it is faster than no relays by a clear margin.
//
// Only what a device holds at the source and what its receiver does not pass on
// is relayed.
//
//===----------------------------------------------------------------------===//

#ifndef DT_SCHEDULING_RELAYSCHEDULE_H
#define DT_SCHEDULING_RELAYSCHEDULE_H

#include "dt/Scheduling/WaveSolver.h"

namespace dt {

/// What relays cost and gain.
struct RelayGain {
  int64_t bytes = 0; // that go over a relay: so many more are sent
  /// Predicted, every message packed.
  double secondsWithout = 0, secondsWith = 0;
};

/// Relays what of a schedule is faster so, over some of `devices`; nothing
/// where nothing is. The problem has no storage part.
std::optional<RelayGain> relayMessages(const WaveProblem &problem,
                                       const WaveOptions &options,
                                       const std::vector<int64_t> &devices,
                                       WaveSchedule &schedule);

} // namespace dt

#endif // DT_SCHEDULING_RELAYSCHEDULE_H
