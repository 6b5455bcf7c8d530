//===- ProblemFile.h - Where a pass writes its problem ----------*- C++ -*-===//

#ifndef DT_PASSES_PROBLEMFILE_H
#define DT_PASSES_PROBLEMFILE_H

#include "dt/Dialect/Ops.h"

namespace dt {

/// The file of a pass option `write-problem`, which has place for one problem.
class ProblemFile {
public:
  /// Emits a diagnostic at the transition when the file cannot be written, or
  /// has been.
  mlir::LogicalResult write(TransitionOp transition, llvm::StringRef path,
                            llvm::StringRef text);

private:
  bool isWritten = false;
};

} // namespace dt

#endif // DT_PASSES_PROBLEMFILE_H
