//===- PlanCertificate.h - What a look at every piece finds -----*- C++ -*-===//

#ifndef DT_PASSES_PLANCERTIFICATE_H
#define DT_PASSES_PLANCERTIFICATE_H

#include "dt/Dialect/Ops.h"
#include "dt/Proof/PlanClasses.h"
#include "mlir/Pass/AnalysisManager.h"

#include <vector>

namespace dt {

/// Whether the module's transitions keep the rules that the lemmas suppose
/// (dt/Proof), checked piece by piece, and the classes that the pieces form.
/// Programs in the module are run in thought. An analysis, so that
/// --mlir-timing shows this check, which takes as long as there are pieces,
/// apart from the proof, which does not.
struct PlanCertificate {
  /// Emits a diagnostic when a rule is broken.
  PlanCertificate(mlir::Operation *module, mlir::AnalysisManager &analyses);

  bool holds = false;
  /// Of the transitions with something to move, up to one that breaks a rule.
  std::vector<PlanClasses> classes;
  TransitionOp last; // of these; null when there is none
  size_t numPieces = 0, numSlots = 0;
};

} // namespace dt

#endif // DT_PASSES_PLANCERTIFICATE_H
