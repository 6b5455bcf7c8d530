//===- CostModel.h - How long a schedule takes, and must take ---*- C++ -*-===//
//
// The one place that turns bytes into seconds.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_COSTMODEL_H
#define DT_ROUTING_COSTMODEL_H

#include "dt/Routing/Staging.h"

namespace dt {

/// Seconds until the last byte is in its place. Each device runs three lanes
/// side by side: its NIC and its island port, which carry the group of a wave,
/// and a copy lane, which packs the next group's messages while a group is on
/// the wire and unpacks those of the group before. A group starts when the
/// groups before it on both ends of each message have ended, its own messages
/// are packed and the slots of the group before last are unpacked; a message
/// takes latency + bytes / rate of the pair; a group ends with its last
/// message. Direct messages need no pack, or no unpack. `messages` are sorted
/// by wave, as `formMessages` leaves them.
double predictSeconds(const std::vector<Message> &messages,
                      const Cluster &cluster);

/// The same before slots are assigned, with every message packed.
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
  ///     inside a node, over its island ports;
  ///   - with unequal links, per device and set of devices that may send to it
  ///     (or that it may send to): those bytes, over these links together.
  /// A port's rate is that of its fastest link on that level.
  double seconds = 0;
};
Bounds computeBounds(const std::vector<Flow> &flows, const Cluster &cluster);

} // namespace dt

#endif // DT_ROUTING_COSTMODEL_H
