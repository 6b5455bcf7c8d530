//===- LaterWaves.h - Long messages beside later ones -----------*- C++ -*-===//
//
// A device's wave ends when its slowest message does. Where links are unequal,
// one message may take as long as all waves of the other devices; a device that
// has it in one wave and something short from a neighbour in the next waits for
// both. In the later wave they go side by side, if its ports are free there.
//
//   3 -> 7 takes 190 us, 5 -> 7 is a forward inside the node, 10 us
//
//   wave    as it was         afterwards
//   0       0 -> 4  3 -> 7    0 -> 4
//   1       4 -> 5            4 -> 5
//   2       5 -> 7            5 -> 7  3 -> 7
//   us      200               190
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_SCHEDULING_LATERWAVES_H
#define DT_LIB_SCHEDULING_LATERWAVES_H

#include "dt/Scheduling/WaveProblem.h"

namespace dt {

/// Moves messages of a sound schedule to later waves, one at a time, as long as
/// that saves seconds; returns those of the result. Leaves schedules alone that
/// have many messages, or none of links that differ.
double delayMessages(const WaveProblem &problem, WaveSchedule &schedule,
                     double seconds);

} // namespace dt

#endif // DT_LIB_SCHEDULING_LATERWAVES_H
