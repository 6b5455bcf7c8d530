//===- TransportReading.h - Bodies of transitions in numbers ----*- C++ -*-===//
//
// One reading of what routing or scheduling wrote, for all that look at it: the
// verify passes, the prover, staging, emission. What is proved and what is
// emitted is the same struct.
//
//===----------------------------------------------------------------------===//

#ifndef DT_PASSES_TRANSPORTREADING_H
#define DT_PASSES_TRANSPORTREADING_H

#include "TransitionAnalysis.h"
#include "dt/Proof/Certificate.h"
#include "mlir/Pass/AnalysisManager.h"

namespace dt {

/// A transition's body, and the ops that its numbers stand for.
struct TransitionReading {
  const TransitionInfo *info = nullptr;
  TransportPlan plan;
  std::vector<mlir::Operation *> ops;

  /// Emits what is wrong, at the op that is at fault. Fails where there is a
  /// fault.
  mlir::LogicalResult report(const MaybeFault &fault) const;
};

/// All transitions of a module at one level. What derives from it is an
/// analysis: passes that change no body preserve it.
class TransitionReadings {
public:
  /// Fails where a body is wrong, and where `fn` fails.
  mlir::LogicalResult
  forEach(llvm::function_ref<mlir::LogicalResult(const TransitionReading &)> fn)
      const;

protected:
  std::vector<TransitionReading> readings;
  bool areRight = true;
};

/// At the transport level. Transitions of which there are programs, and no
/// body, are left out.
class TransportReading : public TransitionReadings {
public:
  /// Emits a diagnostic where a body is not at the transport level, or a piece
  /// is not where it can be.
  TransportReading(mlir::Operation *module, mlir::AnalysisManager &analyses);

  /// For a pass that has written slots or storage, and has left all else as it
  /// was: reads these, so that it may preserve this analysis.
  mlir::LogicalResult readAgain();

  /// The reading of one transition; null where there is none.
  const TransitionReading *find(TransitionOp op) const;
};

/// At the routing level: hops in place of waves, one step for each, with pieces
/// in the order of the ops.
class RoutingReading : public TransitionReadings {
public:
  /// Emits a diagnostic as above.
  RoutingReading(mlir::Operation *module, mlir::AnalysisManager &analyses);
};

/// All flows as the transport level has them; `info` must outlive them.
std::vector<PlanFlow> planFlowsOf(const TransitionInfo &info);

/// Pieces of a message come in ascending order of this, by their bytes: how
/// many halvings of 16 B, the widest unit of a copy, lie between that and what
/// divides them.
int narrowness(int64_t bytes);

} // namespace dt

#endif // DT_PASSES_TRANSPORTREADING_H
