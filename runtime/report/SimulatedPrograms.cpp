//===- SimulatedPrograms.cpp - A plan file as it is simulated -------------===//

#include "dtrt/report/SimulatedPrograms.h"

#include "dtrt/core/Overlap.h"
#include "dtrt/format/Collectives.h"
#include "dtrt/format/LocalWork.h"
#include "dtrt/format/StayingStates.h"

namespace dtrt {

namespace {

using Kind = DeviceStep::Kind;

Kind kindOf(Opcode op) {
  switch (op) {
  case Opcode::Pack:
    return Kind::Pack;
  case Opcode::Unpack:
    return Kind::Unpack;
  case Opcode::Group:
    return Kind::Group;
  default:
    return Kind::Local;
  }
}

class Builder {
public:
  Builder(const PlanCommon &common, const RankProgram &program)
      : common(common), program(program),
        localStays(common.summary.mode == MemoryMode::Flat),
        staying(stayingMasks(common, program)), besideOf(overlapsOf(program)) {}

  std::vector<DeviceStep> run() {
    std::vector<bool> isBeside(program.instructions.size());
    for (const std::vector<size_t> &beside : besideOf)
      for (size_t i : beside)
        isBeside[i] = true;
    for (size_t i = 0; i < program.instructions.size(); ++i)
      if (!isBeside[i])
        add(i);
    return std::move(steps);
  }

private:
  void add(size_t index) {
    const Instruction &instruction = program.instructions[index];
    // Nobody has measured what pages cost; what is relayed stays where it is.
    if (instruction.op == Opcode::Create || instruction.op == Opcode::Release ||
        instruction.op == Opcode::Relay)
      return;
    DeviceStep step;
    step.kind = kindOf(instruction.op);
    step.wave = instruction.wave;
    if (step.kind == Kind::Group)
      addGroup(index, step);
    else if (step.kind == Kind::Local)
      step.bytes = localBytes(common, instruction, staying);
    else
      step.bytes = int64_t(instruction.bytes);
    bool isLocal = step.kind == Kind::Local;
    if (isLocal && step.bytes == 0)
      return;
    step.afterLocal =
        !isLocal && hasLocal && (localStays || readsDestination(instruction));
    hasLocal = isLocal || (hasLocal && !step.afterLocal);
    append(std::move(step));
  }

  void addGroup(size_t index, DeviceStep &group) {
    for (size_t other : besideOf[index]) {
      const Instruction &beside = program.instructions[other];
      if (beside.op == Opcode::Copy)
        group.localBytes += localBytes(common, beside, staying);
      else
        (beside.op == Opcode::Pack ? group.packBytes : group.unpackBytes) +=
            int64_t(beside.bytes);
    }
    if (program.instructions[index].collective)
      return addCall(program.instructions[index], group);
    for (const Message &message : program.instructions[index].messages)
      group.messages.push_back(
          {message.receive, message.peer, int64_t(message.bytes)});
  }

  /// The ends, at this device, of messages that take as long.
  void addCall(const Instruction &instruction, DeviceStep &group) {
    std::vector<TimedMessage> edges;
    addCollective(
        timedCollective(common, instruction.wave, *instruction.collective),
        common.cluster, edges);
    for (const TimedMessage &edge : edges) {
      if (edge.source == program.device)
        group.messages.push_back(
            {false, edge.destination, edge.bytes, edge.steps});
      if (edge.destination == program.device)
        group.messages.push_back({true, edge.source, edge.bytes, edge.steps});
    }
  }

  void append(DeviceStep step) {
    bool joins = !steps.empty() && step.kind != Kind::Group &&
                 steps.back().kind == step.kind && !step.afterLocal;
    if (joins)
      steps.back().bytes += step.bytes;
    else
      steps.push_back(std::move(step));
  }

  const PlanCommon &common;
  const RankProgram &program;
  const bool localStays;
  const std::vector<uint64_t> staying;             // stayingMasks
  const std::vector<std::vector<size_t>> besideOf; // groups, by instruction
  bool hasLocal = false; // that no step has waited for
  std::vector<DeviceStep> steps;
};

} // namespace

std::vector<DeviceStep> stepsOf(const PlanCommon &common,
                                const RankProgram &program) {
  return Builder(common, program).run();
}

Result<SimulatedPlan> readSimulatedPlan(const PlanReader &plan) {
  SimulatedPlan out;
  for (uint32_t device : plan.devices()) {
    auto program = plan.program(device);
    DTRT_RETURN_IF_ERROR(program);
    out.addDevice(device, stepsOf(plan.common(), *program));
  }
  DTRT_RETURN_IF_ERROR(out.finish());
  return out;
}

} // namespace dtrt
