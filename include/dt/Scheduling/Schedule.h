//===- Schedule.h - Moves into contention-free waves ------------*- C++ -*-===//
//
// Preemptive open shop: with full-duplex ports the busiest port is a bound, and
// it is met when every wave keeps all ports busy that have no time to lose
// (Gonzalez and Sahni 1976). Messages are cut to the length of their wave, and
// a wave is as long as a matching for it exists (lib/Scheduling/Matching.h).
// What forwards wait for goes first. It works for any number of devices;
// nothing depends on powers of two.
//
//===----------------------------------------------------------------------===//

#ifndef DT_SCHEDULING_SCHEDULE_H
#define DT_SCHEDULING_SCHEDULE_H

#include "dt/Scheduling/ChunkSizes.h"
#include "dt/Scheduling/WaveSolver.h"

namespace dt {

/// All moves in packing order; the boxes of a message add up to at most a
/// chunk, which holds every element of its level. Empty where that takes more
/// messages than the limit, or more than `mostPieces`.
std::vector<ScheduledMove> schedule(const WaveProblem &problem,
                                    ChunkBytes chunks,
                                    int64_t mostPieces = kMaxPieces,
                                    const ParallelFor &parallel = serialFor);

/// Schedules with the most promising chunk size.
std::optional<std::string> scheduleGreedily(const WaveProblem &problem,
                                            const WaveOptions &options,
                                            WaveSchedule &schedule);

} // namespace dt

#endif // DT_SCHEDULING_SCHEDULE_H
