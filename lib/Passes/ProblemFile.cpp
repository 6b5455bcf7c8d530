//===- ProblemFile.cpp - Where a pass writes its problem ------------------===//

#include "ProblemFile.h"

#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;

namespace dt {

LogicalResult ProblemFile::write(TransitionOp transition, llvm::StringRef path,
                                 llvm::StringRef text) {
  if (isWritten)
    return transition.emitOpError()
           << "is the second transition, expected one for write-problem";
  isWritten = true;
  std::string error;
  auto file = openOutputFile(path, &error);
  if (!file)
    return transition.emitOpError() << error;
  file->os() << text;
  file->keep();
  return success();
}

} // namespace dt
