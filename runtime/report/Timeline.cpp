//===- Timeline.cpp - What every port does when ---------------------------===//

#include "Timeline.h"

#include <algorithm>

namespace dtrt {

namespace {

/// A message as its sender's group names it.
struct Sent {
  uint32_t source = 0, target = 0;
  uint64_t bytes = 0;
};

/// What a device packs before a wave's group and unpacks after it.
struct Staged {
  uint64_t pack = 0, unpack = 0;
};

struct Wave {
  std::vector<Sent> messages;
  std::map<uint32_t, Staged> devices;
};

Result<std::map<int32_t, Wave>> readWaves(const PlanReader &plan) {
  std::map<int32_t, Wave> waves;
  for (uint32_t device : plan.devices()) {
    auto program = plan.program(device);
    DTRT_RETURN_IF_ERROR(program);
    for (const Instruction &instruction : program->instructions) {
      if (instruction.op != Opcode::Group)
        continue;
      Wave &wave = waves[instruction.wave];
      Staged &staged = wave.devices[device];
      for (const Message &message : instruction.messages) {
        if (!message.direct)
          (message.receive ? staged.unpack : staged.pack) += message.bytes;
        if (!message.receive)
          wave.messages.push_back({device, message.peer, message.bytes});
      }
    }
  }
  return waves;
}

/// When the lanes of one device are free.
struct Clock {
  double started = 0, ended = 0, unpacked = 0, copy = 0;
  uint64_t toUnpack = 0;
};

class Simulation {
public:
  Simulation(const ClusterInfo &cluster, Timeline &timeline)
      : cluster(cluster), timeline(timeline) {}

  void run(const Wave &wave);
  void finish();

private:
  struct Group {
    double ready = 0, begin = 0, end = 0;
  };

  double copySeconds(uint64_t bytes) const {
    return cluster.packLaunchUs * 1e-6 + bytes / (cluster.packGBps * 1e9);
  }
  std::vector<Span> &lane(uint32_t device, Lane which) {
    return timeline.devices[device].lanes[size_t(which)];
  }
  double prepare(uint32_t device, uint64_t packBytes);
  void unpack(uint32_t device);
  void send(const Sent &message, Group &sender, Group &receiver);

  const ClusterInfo &cluster;
  Timeline &timeline;
  std::map<uint32_t, Clock> clocks;
  std::map<uint64_t, double> nicOut, nicIn; // when shared NICs are free
};

/// Packs beside the last group, then unpacks what it brought. Returns when the
/// next group may start.
double Simulation::prepare(uint32_t device, uint64_t packBytes) {
  Clock &clock = clocks[device];
  double start = std::max(clock.ended, clock.unpacked);
  if (packBytes > 0) {
    double begin = std::max(clock.copy, clock.started);
    clock.copy = begin + copySeconds(packBytes);
    lane(device, Lane::Pack).push_back({begin, clock.copy, clock.copy - begin});
    start = std::max(start, clock.copy);
  }
  unpack(device);
  return start;
}

void Simulation::unpack(uint32_t device) {
  Clock &clock = clocks[device];
  if (clock.toUnpack == 0)
    return;
  double begin = std::max(clock.copy, clock.ended);
  clock.copy = clock.unpacked = begin + copySeconds(clock.toUnpack);
  clock.toUnpack = 0;
  lane(device, Lane::Unpack).push_back({begin, clock.copy, clock.copy - begin});
}

void Simulation::send(const Sent &message, Group &sender, Group &receiver) {
  bool inter = cluster.node(message.source) != cluster.node(message.target);
  double wire =
      message.bytes / (cluster.GBps(message.source, message.target) * 1e9);
  double begin = std::max(sender.ready, receiver.ready);
  bool waitsForNics = inter && cluster.devicesPerNic > 1;
  double &out = nicOut[message.source / cluster.devicesPerNic];
  double &in = nicIn[message.target / cluster.devicesPerNic];
  if (waitsForNics)
    begin = std::max({begin, out, in});
  double end = begin + cluster.latencyUs * 1e-6 + wire;
  if (waitsForNics)
    out = in = end;
  lane(message.source, inter ? Lane::NicOut : Lane::IslandOut)
      .push_back({begin, end, wire});
  lane(message.target, inter ? Lane::NicIn : Lane::IslandIn)
      .push_back({begin, end, wire});
  for (Group *group : {&sender, &receiver}) {
    group->begin = std::max(group->begin, begin);
    group->end = std::max(group->end, end);
  }
}

void Simulation::run(const Wave &wave) {
  std::map<uint32_t, Group> groups;
  for (const auto &[device, staged] : wave.devices)
    groups[device].ready = groups[device].begin = prepare(device, staged.pack);
  for (const Sent &message : wave.messages)
    send(message, groups[message.source], groups[message.target]);
  for (const auto &[device, group] : groups) {
    Clock &clock = clocks[device];
    clock.started = group.begin;
    clock.ended = group.end;
    auto staged = wave.devices.find(device);
    clock.toUnpack = staged == wave.devices.end() ? 0 : staged->second.unpack;
    timeline.devices[device].latency += cluster.latencyUs * 1e-6;
  }
}

void Simulation::finish() {
  for (auto &[device, clock] : clocks) {
    unpack(device);
    DeviceTimeline &out = timeline.devices[device];
    out.end = std::max(clock.ended, clock.unpacked);
    timeline.seconds = std::max(timeline.seconds, out.end);
  }
}

} // namespace

Result<Timeline> buildTimeline(const PlanReader &plan) {
  auto waves = readWaves(plan);
  DTRT_RETURN_IF_ERROR(waves);
  Timeline timeline;
  Simulation simulation(plan.common().cluster, timeline);
  for (const auto &[number, wave] : *waves)
    simulation.run(wave);
  simulation.finish();
  return timeline;
}

} // namespace dtrt
