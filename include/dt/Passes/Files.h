//===- Files.h - What the compiler reads and writes -------------*- C++ -*-===//

#ifndef DT_PASSES_FILES_H
#define DT_PASSES_FILES_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

#include <memory>
#include <string>

namespace dt {

/// The whole of a file, or of stdin for "-", of at most kMaxInputBytes. Null,
/// with `error` set, where it cannot be read or is larger: a device or a pipe
/// does not say how large it is.
std::unique_ptr<llvm::MemoryBuffer> readInput(llvm::StringRef path,
                                              std::string &error);

/// What MLIR's parser, which is recursive, cannot be given: brackets, or signs
/// of an affine expression, that nest deeper than kMaxBracketDepth. Empty:
/// nothing. One sentence that names the line.
std::string problemOfNesting(llvm::StringRef module);

/// Writes out what is buffered and keeps the file. False, with `error` set,
/// where it is not all written: then the file goes with `file`.
bool keepOutput(llvm::ToolOutputFile &file, std::string &error);

} // namespace dt

#endif // DT_PASSES_FILES_H
