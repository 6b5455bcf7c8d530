//===- PlanCertificate.h - What a look at every piece finds -----*- C++ -*-===//

#ifndef DT_PASSES_PLANCERTIFICATE_H
#define DT_PASSES_PLANCERTIFICATE_H

#include "TransportReading.h"
#include "dt/Proof/PlanClasses.h"

#include <vector>

namespace dt {

/// Whether the module's transitions keep the rules of the transport level,
/// which the lemmas suppose (dt/Proof), checked piece by piece, and the classes
/// that the pieces form. Programs in the module are executed step by step. An
/// analysis, so that --mlir-timing shows this check, which takes as long as
/// there are pieces, apart from the proof, which does not; and so that
/// --dt-verify-transport and --dt-prove accept the same.
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
