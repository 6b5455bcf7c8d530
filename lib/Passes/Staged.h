//===- Staged.h - A fully lowered transition, for emission ------*- C++ -*-===//

#ifndef DT_PASSES_STAGED_H
#define DT_PASSES_STAGED_H

#include "TransitionAnalysis.h"
#include "dt/Emit/Programs.h"

namespace dt {

/// Reads a transition whose staging is allocated. Families of the plan are the
/// params in order. Emits a diagnostic when a level is missing.
mlir::FailureOr<ScheduledTransition> readStaged(const TransitionInfo &info,
                                                bool computeCells);

/// Rank of each device in both worlds.
Worlds worldsOf(const TransitionInfo &info);
/// Device of each rank of a layout.
std::vector<int64_t> devicesOf(LayoutOp layout,
                               mlir::SymbolTableCollection &tables);

} // namespace dt

#endif // DT_PASSES_STAGED_H
