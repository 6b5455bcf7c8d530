//===- ProgramReading.h - dt.program as the runtime's program ---*- C++ -*-===//

#ifndef DT_PASSES_PROGRAMREADING_H
#define DT_PASSES_PROGRAMREADING_H

#include "TransitionAnalysis.h"

namespace dt {

/// The programs that a module has of a transition.
mlir::SmallVector<ProgramOp> programsOf(mlir::ModuleOp module,
                                        const TransitionInfo &info);

/// The member sets of all calls of some programs, as a plan numbers them.
std::vector<std::vector<uint32_t>>
memberSetsOf(mlir::ArrayRef<ProgramOp> programs);

/// The program that an op writes down, as a plan file would hold it: the
/// reverse of --dt-specialize. `op` is of the transition of `info`, its calls
/// are of `memberSets`.
struct ProgramReading {
  ProgramReading(ProgramOp op, const TransitionInfo &info,
                 const std::vector<std::vector<uint32_t>> &memberSets);

  dtrt::RankProgram program;
  /// The op of each instruction.
  std::vector<mlir::Operation *> ops;
};

} // namespace dt

#endif // DT_PASSES_PROGRAMREADING_H
