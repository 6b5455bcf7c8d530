//===- ProofResult.h - What is proved of a module ---------------*- C++ -*-===//

#ifndef DT_PASSES_PROOFRESULT_H
#define DT_PASSES_PROOFRESULT_H

#include "mlir/IR/Operation.h"

#include <string>

namespace dt {

/// Set by --dt-prove, read by --dt-emit. An analysis and no attribute: IR text
/// cannot claim it, and a pass that changes the IR loses it.
struct ProofResult {
  explicit ProofResult(mlir::Operation *) {}
  /// The solver has proved the lemmas of each claim, and refuted nothing that
  /// it implies of this plan. That the plan keeps the rules which the lemmas
  /// suppose is checked exactly.
  bool coverage = false, deadlockFree = false, memorySafe = false;
  /// "z3 4.8.12", and how many classes of the plan it proved where that is not
  /// all of them.
  std::string solver;
  /// What it might spend on each obligation; 0: it did not run.
  uint64_t solverSteps = 0;
};

} // namespace dt

#endif // DT_PASSES_PROOFRESULT_H
