//===- Traffic.cpp - Who sends how much to whom, when ---------------------===//

#include "dtrt/report/DeviceTraffic.h"
#include "dtrt/format/Collectives.h"
#include "dtrt/format/ShardView.h"
#include "dtrt/format/StayingStates.h"

#include <algorithm>

namespace dtrt {

namespace {

/// Of the longest of its edges.
double secondsOf(const TimedCollective &call, const Cluster &cluster) {
  std::vector<TimedMessage> edges;
  addCollective(call, cluster, edges);
  double seconds = 0;
  for (const TimedMessage &edge : edges)
    seconds =
        std::max(seconds, edge.steps * cluster.latencySeconds() +
                              cluster.wireSeconds(edge.source, edge.destination,
                                                  edge.bytes));
  return seconds;
}

/// A member's part in a call.
void addCall(const PlanCommon &common, uint32_t device,
             const Instruction &group, PlanTraffic &traffic) {
  const GroupCollective &from = *group.collective;
  WaveTraffic &wave = traffic.waves[group.wave];
  CallTraffic &call = wave.calls[from.members];
  call.kind = from.kind;
  call.root = from.root;
  call.seconds =
      secondsOf(timedCollective(common, group.wave, from), common.cluster);
  wave.seconds = std::max(wave.seconds, call.seconds);
  for (const Message &message : group.messages) {
    if (message.receive)
      continue;
    traffic.edges[{device, message.peer}] += message.bytes;
    call.bytes += message.bytes;
    wave.bytes += message.bytes;
    wave.interNode +=
        common.cluster.sameNode(device, message.peer) ? 0 : message.bytes;
  }
}

void addGroup(const Cluster &cluster, uint32_t device, const Instruction &group,
              PlanTraffic &traffic) {
  WaveTraffic &wave = traffic.waves[group.wave];
  for (const Message &message : group.messages) {
    if (message.receive)
      continue;
    traffic.edges[{device, message.peer}] += message.bytes;
    wave.bytes += message.bytes;
    wave.interNode +=
        cluster.sameNode(device, message.peer) ? 0 : message.bytes;
    ++wave.messages;
    double wire =
        cluster.wireSeconds(device, message.peer, int64_t(message.bytes));
    wave.seconds = std::max(wave.seconds, cluster.latencySeconds() + wire);
  }
}

} // namespace

DeviceTraffic trafficOf(const PlanCommon &common, const RankProgram &program) {
  DeviceTraffic device;
  for (const ShardRecord &shard : program.source)
    device.sourceBytes +=
        shardBytes(common.families[shard.family], shard, Side::Source);
  for (const ShardRecord &shard : program.destination)
    device.destinationBytes +=
        shardBytes(common.families[shard.family], shard, Side::Destination);
  device.stagingBytes = program.stagingBytes;
  device.peakBytes = peakBytes(common, program);
  std::vector<uint64_t> staying = stayingMasks(common, program);
  device.instructions = program.instructions.size();
  for (const Instruction &instruction : program.instructions) {
    if (instruction.op == Opcode::Copy)
      for (size_t i = 1; i < instruction.segments.size(); i += 2) {
        const Segment &to = instruction.segments[i];
        device.copied +=
            storedBytes(common.families[to.family], movedPart(to, staying));
      }
    for (const Message &message : instruction.messages)
      (message.receive ? device.received : device.sent) += message.bytes;
    device.messages += instruction.messages.size();
  }
  return device;
}

Result<PlanTraffic> collectTraffic(const PlanReader &plan) {
  PlanTraffic traffic;
  for (uint32_t device : plan.devices()) {
    auto program = plan.program(device);
    DTRT_RETURN_IF_ERROR(program);
    traffic.devices[device] = trafficOf(plan.common(), *program);
    for (const Instruction &instruction : program->instructions)
      if (instruction.collective)
        addCall(plan.common(), device, instruction, traffic);
      else if (instruction.op == Opcode::Group)
        addGroup(plan.common().cluster, device, instruction, traffic);
  }
  return traffic;
}

} // namespace dtrt
