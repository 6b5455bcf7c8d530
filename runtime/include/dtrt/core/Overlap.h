//===- Overlap.h - Work for the time on the wire ----------------*- C++ -*-===//

#ifndef DTRT_CORE_OVERLAP_H
#define DTRT_CORE_OVERLAP_H

#include "dtrt/format/PlanModel.h"

namespace dtrt {

/// For each instruction that is a group: neighbouring instructions that may run
/// while its messages are under way, in the order in which they then run.
/// These are unpacks from before it and packs from after it, up to the next
/// group on either side, that share no staging byte with it or with what they
/// change places with, and no bytes of the destination. Each instruction stands
/// in one list at most.
std::vector<std::vector<size_t>> overlapsOf(const RankProgram &program);

/// Whether a pack or group sends what the program has brought to a destination
/// shard.
bool readsDestination(const Instruction &instruction);

} // namespace dtrt

#endif // DTRT_CORE_OVERLAP_H
