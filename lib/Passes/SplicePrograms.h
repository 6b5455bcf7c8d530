//===- SplicePrograms.h - Programs of the devices that change ---*- C++ -*-===//

#ifndef DT_LIB_PASSES_SPLICEPROGRAMS_H
#define DT_LIB_PASSES_SPLICEPROGRAMS_H

#include "SpliceRoute.h"

namespace dt {

/// Makes the programs of `devices`: those that change, and all that one of them
/// exchanges with what it did not, or does no more. Says why that cannot be.
std::optional<std::string>
splicePrograms(const TransitionInfo &info, const ChangedPlaces &places,
               OldPrograms &programs, const std::set<int64_t> &devices,
               const SplicedRoute &route, const SplicedWaves &waves,
               std::map<int64_t, dtrt::RankProgram> &out);

/// Whether two programs have the same ranks and shards.
bool haveSameShards(const dtrt::RankProgram &a, const dtrt::RankProgram &b);

} // namespace dt

#endif // DT_LIB_PASSES_SPLICEPROGRAMS_H
