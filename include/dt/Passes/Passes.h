//===- Passes.h - The passes of dt-opt --------------------------*- C++ -*-===//

#ifndef DT_PASSES_PASSES_H
#define DT_PASSES_PASSES_H

#include "dt/Proof/Solver.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace dt {

#define GEN_PASS_DECL
#include "dt/Passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "dt/Passes/Passes.h.inc"

struct Replan;

/// Passes of a compilation that starts from an old plan (Replan.h).
std::unique_ptr<mlir::Pass> createRouteTransfers(std::shared_ptr<Replan> from);
std::unique_ptr<mlir::Pass> createScheduleWaves(std::shared_ptr<Replan> from);
std::unique_ptr<mlir::Pass> createEmitPlan(EmitPlanOptions options,
                                           std::shared_ptr<Replan> from);

} // namespace dt

#endif // DT_PASSES_PASSES_H
