//===- MadeStates.h - Source shards of states that are made -----*- C++ -*-===//

#ifndef DT_EMIT_MADESTATES_H
#define DT_EMIT_MADESTATES_H

#include "dtrt/PlanModel.h"

namespace dt {

/// A state that only the destination has is read where another one lies. Joins
/// the source shards of such states with those that hold the other: they are
/// the same bytes, and are released once.
void joinMadeStates(const std::vector<dtrt::Family> &families,
                    dtrt::RankProgram &program);

} // namespace dt

#endif // DT_EMIT_MADESTATES_H
