//===- OutputFile.h - A file that appears when whole ------------*- C++ -*-===//

#ifndef DTRT_FORMAT_OUTPUTFILE_H
#define DTRT_FORMAT_OUTPUTFILE_H

#include "dtrt/types/Status.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iosfwd>
#include <memory>

namespace dtrt {

/// Nothing is visible at the path before `publish` has succeeded, and what is
/// there stays as it is until then: the bytes go to a temporary file beside it,
/// which is renamed at the end and removed on any failure. A symbolic link is
/// followed. Devices and pipes, and "-", which is standard output, get the
/// bytes at the end. Errors name the path and say what the system says.
class OutputFile {
public:
  static Result<OutputFile> create(const std::string &path);

  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&) = delete;
  ~OutputFile();

  /// At the end of what has been written.
  Status write(const void *data, size_t size);
  /// Again, what is there already.
  Status rewrite(uint64_t offset, const void *data, size_t size);
  /// Takes back what was written from `size` on.
  Status truncate(uint64_t size);
  /// Where what was written can be read before it is published.
  Result<std::string> readablePath();
  /// Once, and nothing after it.
  Status publish();

private:
  OutputFile() = default;
  Status systemError(const char *what) const;
  Status openTemporary();
  Status copyTo(FILE *out);

  std::string path;      // as given
  std::string target;    // what takes the file's place, links followed
  std::string temporary; // empty: the file has no name, and is copied
  FILE *file = nullptr;
};

/// Writes a file as text: `text` writes to a stream; what it returns, or that
/// the stream has failed, is the error.
Status writeTextFile(const std::string &path,
                     const std::function<Status(std::ostream &)> &text);

/// What a tool has printed, to `std::cout` or `stdout`, has arrived: the disk
/// behind it may be full. The error says what the system says.
Status flushStandardOutput();

} // namespace dtrt

#endif // DTRT_FORMAT_OUTPUTFILE_H
