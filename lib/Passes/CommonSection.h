//===- CommonSection.h - What is not per device of a plan -------*- C++ -*-===//

#ifndef DT_PASSES_COMMONSECTION_H
#define DT_PASSES_COMMONSECTION_H

#include "TransitionAnalysis.h"
#include "dtrt/format/PlanModel.h"

namespace dt {

/// Worlds, families, cluster, layouts and limits of a transition as a plan file
/// has them. Of the summary, mode and limits are set.
dtrt::PlanCommon commonSection(const TransitionInfo &info);

} // namespace dt

#endif // DT_PASSES_COMMONSECTION_H
