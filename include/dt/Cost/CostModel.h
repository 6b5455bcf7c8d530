//===- CostModel.h - How long messages take ---------------------*- C++ -*-===//
//
// The one place that turns bytes into seconds. Knows messages, and neither who
// chose their ends nor who chose their waves.
//
//===----------------------------------------------------------------------===//

#ifndef DT_COST_COSTMODEL_H
#define DT_COST_COSTMODEL_H

#include "dt/Cost/Cluster.h"

namespace dt {

/// What one device sends another in one wave.
struct TimedMessage {
  int32_t wave = 0;
  int64_t source = 0;
  int64_t destination = 0;
  int64_t bytes = 0;
  /// Whether it is copied into a slot before it is sent, and out of one after
  /// it has come.
  bool isPacked = true, isUnpacked = true;
};

/// Seconds until the last byte is in its place. Each device runs three lanes
/// side by side: its NIC and its island port, which carry the group of a wave,
/// and a copy lane, which packs the next group's messages while a group is on
/// the wire and unpacks those of the group before. A group starts when the
/// groups before it on both ends of each message have ended, its own messages
/// are packed and the slots of the group before last are unpacked; a message
/// takes latency + bytes / rate of the pair; a group ends with its last
/// message. `messages` are sorted by wave.
double predictSeconds(const std::vector<TimedMessage> &messages,
                      const Cluster &cluster);

/// Seconds that the busiest port of each level carries bytes: what messages
/// cost if waves lost nothing.
struct PortSeconds {
  double nic = 0, island = 0;
};
PortSeconds busiestPorts(const std::vector<TimedMessage> &messages,
                         const Cluster &cluster);

} // namespace dt

#endif // DT_COST_COSTMODEL_H
