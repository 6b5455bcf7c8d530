//===- ProgramReading.h - dt.program as the runtime's program ---*- C++ -*-===//

#ifndef DT_PASSES_PROGRAMREADING_H
#define DT_PASSES_PROGRAMREADING_H

#include "TransitionAnalysis.h"

namespace dt {

/// The program that an op writes down, as a plan file would hold it: the
/// reverse of --dt-specialize. `op` is of the transition of `info`.
struct ProgramReading {
  ProgramReading(ProgramOp op, const TransitionInfo &info);

  dtrt::RankProgram program;
  /// The op of each instruction.
  std::vector<mlir::Operation *> ops;
};

} // namespace dt

#endif // DT_PASSES_PROGRAMREADING_H
