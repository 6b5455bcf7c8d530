//===- EventSimulation.h - A transition, event by event ---------*- C++ -*-===//
//
// What a plan's programs take where each device goes its own way. It is a
// second opinion on predictSeconds (dtrt/cost/Simulation.h) and shares nothing
// with it but the cluster. Events happen in the order of time, ties in that of
// their numbers, so that one input has one result.
//
// A device runs its steps in their order, one group at a time. It offers the
// messages of a group when it has come to it and launched it. A message begins
// when both of its ends have offered it; after the latency its bytes flow. A
// group has ended when its messages have, and the copies that run beside it and
// its launch. Local work has a lane of its own, for which only those steps wait
// that say so.
//
// Ports, NICs and copy engines are resources that what is under way shares by
// max-min fairness: nobody gets more without taking from one that has no more.
// It is the model of SimGrid's networks (Casanova et al., "Versatile, scalable,
// and accurate simulation of distributed applications and platforms", JPDC 74,
// 2014), chosen as network cards serve queue pairs in turn, packet by packet
// (Velho et al., "On the validity of flow-level TCP network models", TOMACS 23,
// 2013, say when flows tell the truth: for messages far above the latency).
// What is shared is a port's time: a message that has a port for itself goes
// at the full rate of its pair, and with half of the port's time at half. Where
// the channels of a pair do not fill its port, it has a part of the port's time
// at most.
//
// Time is O((M + S) log (M + S)) for M messages and S steps where a port's
// messages are few at once, as the port rule of plans has it.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_COST_EVENTSIMULATION_H
#define DTRT_COST_EVENTSIMULATION_H

#include "dtrt/cost/SimulatedPlan.h"

namespace dtrt {

/// A device that is slower than it should be: its ports, its copies and its
/// launches take `factor` times as long.
struct SlowDevice {
  int64_t device = 0;
  double factor = 1; // at least 1
};
/// Likewise what goes from one device to another.
struct SlowLink {
  int64_t from = 0, to = 0;
  double factor = 1;
};

struct SimulationOptions {
  double latencyUs = 10; // per message
  /// Per group and device, before it offers the messages.
  double launchUs = 0;
  /// Each message's and each copy's time is multiplied by a factor of its own,
  /// drawn evenly from [1 - jitter, 1 + jitter]. At least 0, less than 1.
  double jitter = 0;
  uint64_t seed = 1; // of what is drawn
  std::vector<SlowDevice> slowDevices;
  std::vector<SlowLink> slowLinks;
};

/// Seconds, by what they went into.
struct SpentSeconds {
  double wire = 0;    // bytes at the full rate of their pair
  double latency = 0; // of messages
  double launch = 0;  // of groups
  double copies = 0;  // packs, unpacks and local work, alone on the engine
  double sharing = 0; // more, as others had a part of port or engine
  double slow = 0;    // more, as a device or a link is slow
  double jitter = 0;  // more or less, by what was drawn
  double total() const {
    return wire + latency + launch + copies + sharing + slow + jitter;
  }
  SpentSeconds &operator+=(const SpentSeconds &other);
};

/// A message or a copy of the chain that decides the end. Each begins when the
/// one before it has ended, but for its launch.
struct PathStep {
  DeviceStep::Kind kind = DeviceStep::Kind::Group; // Group: a message
  int32_t wave = -1;
  int64_t device = 0; // that sends or copies
  int64_t peer = -1;  // that receives
  double begin = 0, end = 0;
  SpentSeconds spent; // begin to end, and the launch before it
};

struct WaveSeconds {
  int32_t wave = 0;
  double begin = 0, end = 0; // of its first and last message
  uint64_t messages = 0;
  int64_t bytes = 0;
  /// Of the critical path, what is of this wave.
  SpentSeconds onPath;
};

struct DeviceSeconds {
  int64_t device = 0;
  double carrying = 0; // at least one message of its own is under way
  double copying = 0;  // its copy engine is at work
  /// In groups, for the peer of the message that ended them to offer it.
  double waiting = 0;
  /// The peer that it waited for longest; -1: none.
  int64_t waitedFor = -1;
  double waitedForSeconds = 0;
  /// How long others waited for it.
  double keptWaiting = 0;
  double end = 0; // its last step is done
};

struct SimulationResult {
  double seconds = 0;
  SpentSeconds spent;                 // the critical path's, together `seconds`
  std::vector<PathStep> path;         // in the order of time
  std::vector<WaveSeconds> waves;     // ascending
  std::vector<DeviceSeconds> devices; // as in the plan
};

/// Runs the programs. Fails where devices wait for each other for ever, and
/// where more share ports at once than anybody could look at.
Result<SimulationResult> simulateEvents(const SimulatedPlan &plan,
                                        const Cluster &cluster,
                                        const SimulationOptions &options);

} // namespace dtrt

#endif // DTRT_COST_EVENTSIMULATION_H
