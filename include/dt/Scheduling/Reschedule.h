//===- Reschedule.h - Around the waves of an old plan -----------*- C++ -*-===//

#ifndef DT_SCHEDULING_RESCHEDULE_H
#define DT_SCHEDULING_RESCHEDULE_H

#include "dt/Scheduling/WaveSolver.h"

namespace dt {

struct KeptSchedule {
  WaveSchedule schedule;
  int64_t bytesInWave = 0; // of messages that kept their wave
};

/// Keeps the waves of `options.old` where they can be kept. Where that is not
/// near `options.lowerBound`, all is scheduled from zero too, and taken where
/// that is clearly faster. Beside `options.around` nothing is scheduled from
/// zero.
std::optional<std::string> reschedule(const WaveProblem &problem,
                                      const WaveOptions &options,
                                      KeptSchedule &kept);

/// Bytes that have the wave in which they went before, where both count alike.
int64_t bytesInOldWaves(const WaveProblem &problem, const OldMoves &old,
                        const std::vector<ScheduledMove> &moves);

} // namespace dt

#endif // DT_SCHEDULING_RESCHEDULE_H
