//===- Traffic.cpp - Who sends how much to whom, when ---------------------===//

#include "dtrt/Report.h"
#include "dtrt/ShardView.h"

#include <algorithm>

namespace dtrt {

namespace {

/// Seconds that one device needs for one direction of its group.
struct LinkLoad {
  uint64_t intra = 0, inter = 0;
  double seconds(const ClusterInfo &cluster) const {
    return std::max(double(intra) / (cluster.intraNodeGBps * 1e9),
                    double(inter) / (cluster.interNodeGBps * 1e9));
  }
};

void addGroup(const PlanCommon &common, const RankProgram &program,
              const Instruction &group, PlanTraffic &traffic) {
  const ClusterInfo &cluster = common.cluster;
  uint64_t perNode = uint64_t(cluster.devicesPerNode);
  WaveTraffic &wave = traffic.waves[group.wave];
  LinkLoad loads[2];
  for (const Message &message : group.messages) {
    bool inter = program.device / perNode != message.peer / perNode;
    LinkLoad &load = loads[message.receive];
    (inter ? load.inter : load.intra) += message.bytes;
    if (message.receive)
      continue;
    traffic.edges[{program.device, message.peer}] += message.bytes;
    wave.bytes += message.bytes;
    wave.interNode += inter ? message.bytes : 0;
    ++wave.messages;
  }
  double busy = std::max(loads[0].seconds(cluster), loads[1].seconds(cluster));
  wave.seconds = std::max(wave.seconds, busy + cluster.latencyUs * 1e-6);
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
  device.instructions = program.instructions.size();
  for (const Instruction &instruction : program.instructions) {
    if (instruction.op == Opcode::Copy)
      for (size_t i = 1; i < instruction.segments.size(); i += 2) {
        const Segment &segment = instruction.segments[i];
        device.copied += storedBytes(common.families[segment.family], segment);
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
      if (instruction.op == Opcode::Group)
        addGroup(plan.common(), *program, instruction, traffic);
  }
  return traffic;
}

} // namespace dtrt
