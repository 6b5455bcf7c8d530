//===- LocalWork.cpp - What a device copies between its groups ------------===//

#include "dtrt/format/LocalWork.h"

#include "dtrt/format/ShardView.h"

namespace dtrt {

int64_t localBytes(const PlanCommon &common, const Instruction &instruction) {
  size_t step = instruction.op == Opcode::Copy ? 2 : 1;
  uint64_t bytes = 0;
  for (size_t i = step - 1; i < instruction.segments.size(); i += step)
    bytes += storedBytes(common.families[instruction.segments[i].family],
                         instruction.segments[i]);
  return int64_t(bytes);
}

std::vector<TimedCopy> localWork(const PlanCommon &common,
                                 const RankProgram &program) {
  std::vector<TimedCopy> out;
  if (common.summary.mode != MemoryMode::Flat)
    return out;
  int64_t bytes = 0;
  auto close = [&](int32_t wave) {
    if (bytes > 0)
      out.push_back({wave, program.device, bytes});
    bytes = 0;
  };
  for (const Instruction &instruction : program.instructions)
    if (instruction.op == Opcode::Group)
      close(instruction.wave);
    else if (instruction.op == Opcode::Copy || instruction.op == Opcode::Zero)
      bytes += localBytes(common, instruction);
  close(INT32_MAX);
  return out;
}

} // namespace dtrt
