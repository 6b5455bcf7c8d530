//===- Simulation.h - How long messages take --------------------*- C++ -*-===//
//
// The one place that turns a schedule into seconds: the scheduler compares
// schedules by it, plans state its result, and dt-plan draws it. Knows
// messages, and neither who chose their ends nor who chose their waves.
//
// Each device runs three lanes side by side: its NIC and its island port, which
// carry the group of a wave, and a copy lane, which packs the next group's
// messages while a group is on the wire and unpacks those of the group before.
// A group starts when the groups before it on both ends of each message have
// ended, its own messages are packed, the slots of the group before last are
// unpacked, and it is launched; a message takes latency + bytes / rate of the
// pair; a group ends with its last message. Where a port carries several
// messages at once, none of them ends before the port has had time for all.
// Where devices share a NIC, their messages take turns in the order in which
// they stand.
//
// What a device copies on itself beside a group follows the unpacks of the
// group before, and the next group waits for both. What it copies between two
// groups stands between them: after the unpacks of the first, before the
// second. Other local work goes beside all of this and takes no time.
//
// What a device sends on of its last group cannot be packed beside that: the
// next group waits until all of the last one is unpacked, and then the forwards
// are packed. 0 -> 1 -> 2, packed, with m for a message and c for a copy of it:
//
//   wave            0        1                0   1        2   (1 waits)
//   device 0   c    m                    c    m
//   device 1        m   c c  m                m   c        m
//   device 2                 m   c                         m   c
//   forward in wave 1: 2 m + 4 c         in wave 2, with other messages in
//                                        wave 1: its copies are hidden
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_COST_SIMULATION_H
#define DTRT_COST_SIMULATION_H

#include "dtrt/cost/Cluster.h"

#include <array>
#include <map>

namespace dtrt {

/// What one device sends another in one wave.
struct TimedMessage {
  int32_t wave = 0;
  int64_t source = 0;
  int64_t destination = 0;
  int64_t bytes = 0;
  /// Whether it is copied into a slot before it is sent, and out of one after
  /// it has come.
  bool isPacked = true, isUnpacked = true;
  /// Whether it has bytes that the sender's group before brought.
  bool isForward = false;
  /// Latencies that it takes: of a library's ring, one for each step.
  double steps = 1;
  /// What is packed for it; -1: all of it.
  int64_t packBytes = -1;

  int64_t packedBytes() const { return packBytes < 0 ? bytes : packBytes; }
};

/// What a device copies on itself between two of its groups: before its first
/// of `wave` or a later one, and after those before. Or beside its group of
/// `wave`.
struct TimedCopy {
  int32_t wave = 0;
  int64_t device = 0;
  int64_t bytes = 0;
  bool isBeside = false;
};

/// Seconds until the last byte is in its place. `messages` are sorted by wave,
/// and so are `copies`.
double predictSeconds(const std::vector<TimedMessage> &messages,
                      const Cluster &cluster,
                      const std::vector<TimedCopy> &copies = {});

enum class Lane { NicOut, NicIn, IslandOut, IslandIn, Pack, Unpack, Local };
constexpr size_t kNumLanes = 7;

struct Span {
  double begin = 0, end = 0; // seconds
  double busy = 0;           // of it, bytes on the wire or copied
};

struct DeviceTimeline {
  std::array<std::vector<Span>, kNumLanes> lanes;
  double latency = 0; // of its groups together, with their launches
  double end = 0;     // its last byte is in place
};

struct Timeline {
  std::map<int64_t, DeviceTimeline> devices;
  double seconds = 0; // what predictSeconds says
};

/// What every port does when.
Timeline drawTimeline(const std::vector<TimedMessage> &messages,
                      const Cluster &cluster,
                      const std::vector<TimedCopy> &copies = {});

/// Seconds that the busiest port of each level carries bytes: what messages
/// cost if waves lost nothing.
struct PortSeconds {
  double nic = 0, island = 0;
};
PortSeconds busiestPorts(const std::vector<TimedMessage> &messages,
                         const Cluster &cluster);

} // namespace dtrt

#endif // DTRT_COST_SIMULATION_H
