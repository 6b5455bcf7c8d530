//===- LocalWork.cpp - What a device copies between its groups ------------===//

#include "dtrt/format/LocalWork.h"

#include "dtrt/format/ShardView.h"
#include "dtrt/format/StayingStates.h"

namespace dtrt {

int64_t localBytes(const PlanCommon &common, const Instruction &instruction,
                   const std::vector<uint64_t> &staying) {
  bool isCopy = instruction.op == Opcode::Copy;
  size_t step = isCopy ? 2 : 1;
  uint64_t bytes = 0;
  for (size_t i = step - 1; i < instruction.segments.size(); i += step) {
    const Segment &to = instruction.segments[i];
    bytes += storedBytes(common.families[to.family],
                         isCopy ? movedPart(to, staying) : to);
  }
  return int64_t(bytes);
}

std::vector<TimedCopy> localWork(const PlanCommon &common,
                                 const RankProgram &program) {
  std::vector<TimedCopy> out;
  if (common.summary.mode != MemoryMode::Flat)
    return out;
  std::vector<uint64_t> staying = stayingMasks(common, program);
  int64_t between = 0, beside = 0;
  auto close = [&](int32_t wave) {
    if (between > 0)
      out.push_back({wave, program.device, between});
    if (beside > 0)
      out.push_back({wave, program.device, beside, /*isBeside=*/true});
    between = beside = 0;
  };
  for (const Instruction &instruction : program.instructions)
    if (instruction.op == Opcode::Group)
      close(instruction.wave);
    else if (instruction.op == Opcode::Copy || instruction.op == Opcode::Zero)
      (isCopiedBeside(instruction) ? beside : between) +=
          localBytes(common, instruction, staying);
  close(INT32_MAX);
  return out;
}

} // namespace dtrt
