//===- CostModel.h - How long a schedule takes, and must take ---*- C++ -*-===//
//
// The one place that turns bytes into seconds.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_COSTMODEL_H
#define DT_ROUTING_COSTMODEL_H

#include "dt/Routing/Schedule.h"

namespace dt {

/// Seconds until the last message has arrived. A device starts its group of a
/// wave when its group before has ended; a message starts when both its ends
/// have started, and takes latency + bytes / port rate; a group ends with its
/// last message. `scheduled` is sorted by wave, as `schedule` leaves it.
double predictSeconds(const std::vector<ScheduledMove> &scheduled,
                      const std::vector<Flow> &flows, const Cluster &cluster);

/// Seconds that no algorithm can beat in this cluster: the largest of
///   - per device: bytes that it wants and lacks, over all its ports at once;
///   - per device: bytes that only it holds and others want, likewise;
///   - per node: union of the bytes it wants and lacks, over all its NICs;
///   - per node: bytes that only it holds and other nodes want, likewise;
/// plus one latency when anything moves. Copies may be made anywhere and on
/// the way: each bound only counts a byte once into or out of a place.
double boundSeconds(const std::vector<Flow> &flows, const Cluster &cluster);

} // namespace dt

#endif // DT_ROUTING_COSTMODEL_H
