//===- PeakParts.cpp - What a device holds when it holds most -------------===//

#include "PeakParts.h"

#include "dtrt/format/ShardView.h"
#include "dtrt/format/StayingStates.h"

namespace dtrt {

namespace {

uint64_t bytesOf(const PlanCommon &common,
                 const std::vector<ShardRecord> &shards, Side side) {
  uint64_t bytes = 0;
  for (const ShardRecord &shard : shards)
    bytes += shardBytes(common.families[shard.family], shard, side);
  return bytes;
}

uint64_t bytesOf(const PlanCommon &common, const Instruction &instruction) {
  uint64_t bytes = 0;
  for (const Segment &segment : instruction.segments)
    bytes += storageBytes(common.families[segment.family], segment);
  return bytes;
}

} // namespace

PeakParts peakPartsOf(const PlanCommon &common, const RankProgram &program) {
  PeakParts now;
  now.staging = program.stagingBytes;
  now.source = bytesOf(common, program.source, Side::Source);
  now.destination = bytesOf(common, program.destination, Side::Destination) -
                    stayingBytes(common, program);
  for (const Instruction &instruction : program.instructions)
    if (instruction.op == Opcode::Create)
      now.destination -= bytesOf(common, instruction);
  PeakParts most = now;
  for (const Instruction &instruction : program.instructions) {
    if (instruction.op == Opcode::Create)
      now.destination += bytesOf(common, instruction);
    else if (instruction.op == Opcode::Release)
      now.source -= bytesOf(common, instruction);
    if (now.sum() > most.sum())
      most = now;
  }
  return most;
}

Result<GpuPeak> gpuPeakOf(const PlanReader &plan) {
  GpuPeak most;
  for (uint32_t device : plan.devices()) {
    auto program = plan.program(device);
    DTRT_RETURN_IF_ERROR(program);
    auto beside = gpuPartsOf(plan.common(), *program);
    DTRT_RETURN_IF_ERROR(beside);
    GpuPeak own{device, peakPartsOf(plan.common(), *program), *beside};
    if (device == plan.devices().front() || own.sum() > most.sum())
      most = own;
  }
  return most;
}

} // namespace dtrt
