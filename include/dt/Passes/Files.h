//===- Files.h - What the compiler reads and writes -------------*- C++ -*-===//

#ifndef DT_PASSES_FILES_H
#define DT_PASSES_FILES_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

#include <memory>
#include <string>
#include <vector>

namespace dt {

/// The whole of a file, or of stdin for "-", of at most kMaxInputBytes. Null,
/// with `error` set, where it cannot be read or is larger: a device or a pipe
/// does not say how large it is.
std::unique_ptr<llvm::MemoryBuffer> readInput(llvm::StringRef path,
                                              std::string &error);

/// Bytes of a line that asks for a plan: a larger request is a file.
constexpr size_t kMaxLineBytes = size_t(1) << 26;

/// The lines of a file or, for "-", of stdin, as they come: a pipe's other end
/// may wait for what becomes of one line before it writes the next.
class InputLines {
public:
  /// Null, with `error` set, where it cannot be opened.
  static std::unique_ptr<InputLines> open(llvm::StringRef path,
                                          std::string &error);
  ~InputLines();

  enum class Got { Line, TooLong, End, Failure };
  /// The next one, without its end. One of more than `most` bytes is passed
  /// over, and what it had is not kept. On failure sets `error`.
  Got next(size_t most, std::string &line, std::string &error);

private:
  InputLines(llvm::sys::fs::file_t file, llvm::StringRef path);
  bool fill(std::string &error);

  llvm::sys::fs::file_t file;
  std::string path;
  std::vector<char> buffer;
  size_t at = 0, end = 0; // of what is in the buffer and not taken
};

/// What MLIR's parser, which is recursive, cannot be given: brackets, or signs
/// of an affine expression, that nest deeper than kMaxBracketDepth. Empty:
/// nothing. One sentence that names the line.
std::string problemOfNesting(llvm::StringRef module);

/// Writes out what is buffered and keeps the file. False, with `error` set,
/// where it is not all written: then the file goes with `file`.
bool keepOutput(llvm::ToolOutputFile &file, std::string &error);

} // namespace dt

#endif // DT_PASSES_FILES_H
