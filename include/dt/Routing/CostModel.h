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

/// Seconds that the busiest port of each level carries bytes: what the routes
/// cost if waves lost nothing.
struct PortSeconds {
  double nic = 0, island = 0;
};
PortSeconds busiestPorts(const std::vector<ScheduledMove> &scheduled,
                         const std::vector<Flow> &flows,
                         const Cluster &cluster);

/// What no algorithm can go below. The bytes hold for all algorithms. The
/// seconds hold for all that meet both byte bounds, that is, that bring no byte
/// to a device that does not want it and none twice into a node (a relay over
/// idle NICs of bystanders could be faster, at the price of more traffic).
struct Bounds {
  int64_t destinationBytes = 0; // wanted by all devices
  /// Bytes that devices want and do not hold.
  int64_t wireBytes = 0;
  /// Per node, the union of the bytes that its devices want and none holds.
  int64_t interNodeBytes = 0;
  /// One latency (when anything moves) and the largest of:
  ///   - per device: bytes that its node holds and it lacks, over its island
  ///     port; bytes that it alone in its node wants and the node lacks, over
  ///     its NIC;
  ///   - per node: union of the bytes it lacks, over the NICs of the devices
  ///     that want some;
  ///   - per set of devices that alone hold some bytes: those bytes that other
  ///     nodes lack, once, over the NICs of the set; and likewise per set
  ///     inside a node, over its island ports.
  double seconds = 0;
};
Bounds computeBounds(const std::vector<Flow> &flows, const Cluster &cluster);

} // namespace dt

#endif // DT_ROUTING_COSTMODEL_H
