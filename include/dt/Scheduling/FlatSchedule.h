//===- FlatSchedule.h - Waves and copies of flat memory ---------*- C++ -*-===//
//
// Half of the limit is for slots, half for what is on both sides at once. All
// work is put in one order (FlatOrder.h), which has as many phases as storage
// needs; each phase is scheduled like a transition of its own.
//
//===----------------------------------------------------------------------===//

#ifndef DT_SCHEDULING_FLATSCHEDULE_H
#define DT_SCHEDULING_FLATSCHEDULE_H

#include "dt/Scheduling/WaveSolver.h"

namespace dt {

/// Fails without a storage part, and names the smallest limit that works where
/// that of the problem is too small, to one part in sixteen.
std::optional<std::string> scheduleFlat(const WaveProblem &problem,
                                        const WaveOptions &options,
                                        WaveSchedule &schedule);

} // namespace dt

#endif // DT_SCHEDULING_FLATSCHEDULE_H
