//===- ProofInput.h - A staged transition as the prover sees it -*- C++ -*-===//

#ifndef DT_PASSES_PROOFINPUT_H
#define DT_PASSES_PROOFINPUT_H

#include "TransitionAnalysis.h"
#include "dt/Proof/Certificate.h"

namespace dt {

struct ProofInput {
  std::vector<mlir::Operation *> ops; // by the number that faults name
  std::vector<ProofPiece> pieces;
  std::vector<ProofSlot> slots;
  Wanted wanted;
  /// Flows, then the padding of each.
  std::vector<std::string> flowNames;
};

/// Reads the ops, and checks on the way what needs the layouts: pieces lie
/// inside what their device wants, local ones where it holds them, and nothing
/// is read after its release. Emits a diagnostic on failure.
mlir::FailureOr<ProofInput> readProofInput(const TransitionInfo &info);

} // namespace dt

#endif // DT_PASSES_PROOFINPUT_H
