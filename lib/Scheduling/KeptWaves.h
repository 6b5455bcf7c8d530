//===- KeptWaves.h - Messages that stay in their waves ----------*- C++ -*-===//
//
//   1. A move that lies in one of the old plan's, of the same flow and pair,
//      takes its wave, if ports have room there and what it forwards has come.
//   2. Others go beside them, into waves whose ports are idle at both ends, as
//      much as lasts no longer than the wave (IdleWaves.h).
//   3. So do the parts of a forward that have come while it waits for others.
//   4. What is left is scheduled by itself, behind all these waves.
//
// Messages around these, which stay as they are, have their ports first. Where
// the moves are loose, what is not passed on keeps no wave.
//
// Ports of devices 0 to 3; 3 has taken the place of 2, and gets what 2 had:
//
//   wave   old              kept             with the rest
//   0      0->1  1->2       0->1             0->1  1->3
//   1      1->2             -                1->3
//   2                                        2->3
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_SCHEDULING_KEPTWAVES_H
#define DT_LIB_SCHEDULING_KEPTWAVES_H

#include "dt/Scheduling/Reschedule.h"

namespace dt {

/// A schedule around the waves of `options.old`; says why there is none where
/// the old plan has nothing of it, or its slots do not fit.
std::optional<std::string> scheduleKept(const WaveProblem &problem,
                                        const WaveOptions &options,
                                        KeptSchedule &kept);

} // namespace dt

#endif // DT_LIB_SCHEDULING_KEPTWAVES_H
