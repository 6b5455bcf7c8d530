//===- SplicePlan.h - A plan from the sections of an old one ----*- C++ -*-===//

#ifndef DT_LIB_PASSES_SPLICEPLAN_H
#define DT_LIB_PASSES_SPLICEPLAN_H

#include "TransitionAnalysis.h"
#include "dt/Passes/Replan.h"

#include "mlir/Pass/PassManager.h"

#include <memory>

namespace dt {

/// Writes the plan of a transition that differs from `from.plan` in the devices
/// of a few destination ranks: programs of devices that neither change nor meet
/// one that does are copied as they are stored. Says why that cannot be, or is
/// not worth it; then nothing is written, and `from` is as it was, but for the
/// reason to make the plan from zero.
std::optional<std::string> splicePlan(const TransitionInfo &info, Replan &from,
                                      const std::string &output);

/// Splices the plan of the module to `output` where that can be; elsewhere runs
/// the passes that make a plan around the old one.
std::unique_ptr<mlir::Pass> createSplicePlan(std::shared_ptr<Replan> from,
                                             const std::string &output,
                                             const mlir::OpPassManager &whole);

} // namespace dt

#endif // DT_LIB_PASSES_SPLICEPLAN_H
