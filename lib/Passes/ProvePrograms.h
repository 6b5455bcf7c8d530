//===- ProvePrograms.h - Programs that wait on each other -------*- C++ -*-===//

#ifndef DT_PASSES_PROVEPROGRAMS_H
#define DT_PASSES_PROVEPROGRAMS_H

#include "mlir/IR/BuiltinOps.h"

namespace dt {

/// Simulates the module's dt.programs, per transition: every message
/// meets its other end, in the same wave, and groups fit one kernel plan.
/// Messages to devices without a program are left out. Emits a diagnostic on
/// failure.
mlir::LogicalResult provePrograms(mlir::ModuleOp module);

} // namespace dt

#endif // DT_PASSES_PROVEPROGRAMS_H
