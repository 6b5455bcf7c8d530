//===- LocalWork.h - What a device copies between its groups ----*- C++ -*-===//
//
// Copies and zeros of a device go beside its groups, and take no time of their
// own, unless storage comes and goes (flat memory): there they stay at their
// place, between two groups, but for copies that have a wave. These run while
// the group of that wave does, which waits for them; what they read is there
// until it has ended.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_FORMAT_LOCALWORK_H
#define DTRT_FORMAT_LOCALWORK_H

#include "dtrt/cost/Simulation.h"
#include "dtrt/format/PlanModel.h"

namespace dtrt {

/// Whether it runs beside the next group of its program.
inline bool isCopiedBeside(const Instruction &instruction) {
  return instruction.op == Opcode::Copy && instruction.wave >= 0;
}

/// Bytes that a Copy or Zero writes, without what is there already
/// (stayingMasks).
int64_t localBytes(const PlanCommon &common, const Instruction &instruction,
                   const std::vector<uint64_t> &staying);

/// What a program copies between its groups and beside them, in its order; what
/// comes after the last group has the wave INT32_MAX.
std::vector<TimedCopy> localWork(const PlanCommon &common,
                                 const RankProgram &program);

} // namespace dtrt

#endif // DTRT_FORMAT_LOCALWORK_H
