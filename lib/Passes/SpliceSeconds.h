//===- SpliceSeconds.h - What a spliced plan takes at least -----*- C++ -*-===//
//
// Known once its waves are, before any program is made: who sees that another
// plan is faster has lost little.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_PASSES_SPLICESECONDS_H
#define DT_LIB_PASSES_SPLICESECONDS_H

#include "SpliceRoute.h"

namespace dt {

/// What stays as it is of the messages of the changed devices, and of some
/// others: by wave, sender and receiver.
std::vector<TimedMessage> keptMessages(const TransitionInfo &info,
                                       const ChangedPlaces &places,
                                       OldPrograms &programs,
                                       const std::set<int64_t> &devices,
                                       const SplicedRoute &route);

/// Seconds that a port carries bytes beside these, whatever the waves.
double busiestPortOf(const TransitionInfo &info,
                     const std::vector<TimedMessage> &kept,
                     const SplicedRoute &route);

/// No plan with these waves is predicted to take less.
double secondsOf(const TransitionInfo &info,
                 const std::vector<TimedMessage> &kept,
                 const SplicedWaves &waves);

/// Who sends what goes behind the old plan's waves, but for those who have
/// least of it: their ports are idle in other waves than those of who gets it.
std::set<int64_t> lateSenders(const TransitionInfo &info,
                              const SplicedWaves &waves);

} // namespace dt

#endif // DT_LIB_PASSES_SPLICESECONDS_H
