//===- BestSchedule.h - The best of several schedules -----------*- C++ -*-===//
//
// What suits a transition shows only when its time is predicted: several chunk
// sizes are scheduled, as far as the number of moves allows, and small cases
// exactly.
//
//===----------------------------------------------------------------------===//

#ifndef DT_SCHEDULING_BESTSCHEDULE_H
#define DT_SCHEDULING_BESTSCHEDULE_H

#include "dt/Scheduling/ChunkSizes.h"
#include "dt/Scheduling/WaveSolver.h"

namespace dt {

/// A schedule, and which candidate gave it.
struct ChunkChoice {
  std::vector<ScheduledMove> moves;
  double seconds = 0;
  size_t candidate = 0;
};

/// Schedules with one candidate after the other, at least one, until more than
/// `options.effort` pieces have been scheduled, or one has more than
/// `options.mostPieces`, or the fastest takes less than `enough` times what its
/// busiest port carries. Tries by itself what holding forwards gains.
ChunkChoice fastestOf(const WaveProblem &problem,
                      const std::vector<ChunkBytes> &candidates,
                      const WaveOptions &options, double enough);

/// Schedules with all candidate chunk sizes, as far as `options.effort` goes,
/// and with all orders of waves where these are few, and keeps the fastest.
std::optional<std::string> scheduleBest(const WaveProblem &problem,
                                        const WaveOptions &options,
                                        WaveSchedule &schedule);

} // namespace dt

#endif // DT_SCHEDULING_BESTSCHEDULE_H
