//===- OldPlan.h - A plan that was made before ------------------*- C++ -*-===//
//
// Reads from a plan file what moved and when, as the flows of another
// transition of the same model have it. Devices that have another's place in a
// world of the same size take over its part.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_PASSES_OLDPLAN_H
#define DT_LIB_PASSES_OLDPLAN_H

#include "TransitionAnalysis.h"
#include "dt/Routing/OldRoute.h"
#include "dtrt/format/PlanReader.h"

namespace dt {

/// Fails, with an error, where the plan is damaged or of another model. Empty
/// lists where its tensors form other families.
mlir::FailureOr<OldMoves> readOldMoves(const TransitionInfo &info,
                                       const dtrt::PlanReader &plan);

} // namespace dt

#endif // DT_LIB_PASSES_OLDPLAN_H
