//===- ExactSchedule.h - The best waves of few messages ---------*- C++ -*-===//
//
// All orders of waves are tried, with one message per ordered pair of devices,
// so that no schedule of whole messages is faster by the cost model.
//
//===----------------------------------------------------------------------===//

#ifndef DT_SCHEDULING_EXACTSCHEDULE_H
#define DT_SCHEDULING_EXACTSCHEDULE_H

#include "dt/Scheduling/WaveSolver.h"

namespace dt {

/// Most ordered pairs of devices whose waves are all tried.
constexpr size_t kExactPairs = 6;

/// Fails on more pairs, on messages that do not fit slots as wholes, and where
/// two pairs wait for each other, so that their messages have to be cut.
std::optional<std::string> scheduleExactly(const WaveProblem &problem,
                                           const WaveOptions &options,
                                           WaveSchedule &schedule);

} // namespace dt

#endif // DT_SCHEDULING_EXACTSCHEDULE_H
