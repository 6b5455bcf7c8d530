//===- RoundSchedule.h - Moves in the rounds that they name -----*- C++ -*-===//
//
// Routes in rounds (dt/Routing/RoundTree.h) say with the hop of a forward in
// which round it goes. What holders send goes in the round before the first in
// which any of it is passed on. So all that one device sends another in a round
// is one message, and messages get their waves round by round: each the first
// in which both of its ports are free, after what it passes on has come.
// Where moves are such rounds, waves are they.
//
// Routes of other kinds have few hops, which are rounds of whole messages.
//
//===----------------------------------------------------------------------===//

#ifndef DT_SCHEDULING_ROUNDSCHEDULE_H
#define DT_SCHEDULING_ROUNDSCHEDULE_H

#include "dt/Scheduling/WaveSolver.h"

namespace dt {

/// Moves uncut, in the waves of their rounds. Says why there is no answer where
/// moves are too many, or messages too large for the staging.
std::optional<std::string> scheduleRounds(const WaveProblem &problem,
                                          const WaveOptions &options,
                                          WaveSchedule &schedule);

/// The same where holders send blocks that differ in length, and which their
/// receivers pass on as one: each move of a holder is a message, in the order
/// of their boxes. Says also where there is no such holder.
std::optional<std::string> scheduleRoundsApart(const WaveProblem &problem,
                                               const WaveOptions &options,
                                               WaveSchedule &schedule);

} // namespace dt

#endif // DT_SCHEDULING_ROUNDSCHEDULE_H
