//===- Overlap.h - Work for the time on the wire ----------------*- C++ -*-===//

#ifndef DTRT_CORE_OVERLAP_H
#define DTRT_CORE_OVERLAP_H

#include "dtrt/format/PlanModel.h"

namespace dtrt {

/// Whether it is a pack or an unpack.
inline bool isStaged(const Instruction &instruction) {
  return instruction.op == Opcode::Pack || instruction.op == Opcode::Unpack;
}

/// Looks at other instructions that a search through `instructions` of them may
/// take: far more than plans of the compiler do.
inline uint64_t mostLooks(size_t instructions) {
  return (uint64_t(1) << 20) + 1024 * uint64_t(instructions);
}

/// For each instruction that is a group: neighbouring instructions that may run
/// while its messages are under way, in the order in which they then run.
/// These are unpacks and copies from before it and packs from after it, up to
/// the next group on either side. Packs and unpacks are those that share no
/// staging byte with it or with what they change places with, and no bytes of
/// the destination: what a group brings is unpacked, then packed to be sent on.
/// Copies are those of its wave. Each instruction stands in one list at most.
std::vector<std::vector<size_t>> overlapsOf(const RankProgram &program);

/// Whether a pack or group sends what the program has brought to a destination
/// shard.
bool readsDestination(const Instruction &instruction);

} // namespace dtrt

#endif // DTRT_CORE_OVERLAP_H
