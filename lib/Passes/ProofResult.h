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
  bool proved = false; // coverage, freedom from deadlock and memory safety
  std::string solver;  // "z3 4.8.12"
};

} // namespace dt

#endif // DT_PASSES_PROOFRESULT_H
