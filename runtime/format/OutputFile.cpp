//===- OutputFile.cpp - A file that appears when it is whole --------------===//

#include "dtrt/format/OutputFile.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <ostream>
#include <streambuf>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace dtrt {

namespace {

/// Temporary files that a process which was killed has left may have any name
/// that is tried.
constexpr int kMostTries = 100;

/// A device or a pipe is written to: a new file in its place would be no use to
/// who reads from it.
bool isStream(const std::string &path) {
  struct stat found;
  return path == "-" || (stat(path.c_str(), &found) == 0 &&
                         !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode));
}

/// What a symbolic link names; else the path itself.
std::string followed(const std::string &path) {
  struct stat found;
  if (lstat(path.c_str(), &found) != 0 || !S_ISLNK(found.st_mode))
    return path;
  char *real = realpath(path.c_str(), nullptr);
  std::string out = real ? real : path;
  free(real);
  return out;
}

} // namespace

OutputFile::OutputFile(OutputFile &&other) noexcept
    : path(std::move(other.path)), target(std::move(other.target)),
      temporary(std::exchange(other.temporary, {})),
      file(std::exchange(other.file, nullptr)) {}

OutputFile::~OutputFile() {
  if (file)
    fclose(file);
  if (!temporary.empty())
    unlink(temporary.c_str());
}

Status OutputFile::systemError(const char *what) const {
  std::string name = path == "-" ? "standard output" : "'" + path + "'";
  return makeError("cannot ", what, " ", name, ": ", strerror(errno));
}

Status OutputFile::openTemporary() {
  std::string stem = target + ".tmp." + std::to_string(getpid()) + ".";
  int opened = -1;
  for (int i = 0; opened < 0 && i < kMostTries; ++i) {
    temporary = stem + std::to_string(i);
    opened =
        open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (opened < 0 && errno != EEXIST)
      break;
  }
  file = opened < 0 ? nullptr : fdopen(opened, "w+b");
  if (file)
    return {};
  if (opened >= 0)
    close(opened);
  else
    temporary.clear(); // it is another's
  return systemError("create");
}

Result<OutputFile> OutputFile::create(const std::string &path) {
  OutputFile out;
  out.path = path;
  if (!isStream(path)) {
    out.target = followed(path);
    DTRT_RETURN_IF_ERROR(out.openTemporary());
    return out;
  }
  out.file = tmpfile();
  if (!out.file)
    return makeError("cannot create a temporary file: ", strerror(errno));
  return out;
}

Status OutputFile::write(const void *data, size_t size) {
  return fwrite(data, 1, size, file) == size ? Status() : systemError("write");
}

Status OutputFile::rewrite(uint64_t offset, const void *data, size_t size) {
  if (fseeko(file, off_t(offset), SEEK_SET) != 0 ||
      fwrite(data, 1, size, file) != size || fseeko(file, 0, SEEK_END) != 0)
    return systemError("write");
  return {};
}

Status OutputFile::truncate(uint64_t size) {
  if (fflush(file) != 0 || ftruncate(fileno(file), off_t(size)) != 0 ||
      fseeko(file, off_t(size), SEEK_SET) != 0)
    return systemError("write");
  return {};
}

Result<std::string> OutputFile::readablePath() {
  if (fflush(file) != 0)
    return systemError("write");
  return temporary.empty() ? "/proc/self/fd/" + std::to_string(fileno(file))
                           : temporary;
}

Status OutputFile::copyTo(FILE *out) {
  std::vector<char> buffer(1 << 20);
  rewind(file);
  while (size_t read = fread(buffer.data(), 1, buffer.size(), file))
    if (fwrite(buffer.data(), 1, read, out) != read)
      return systemError("write");
  if (ferror(file) || fflush(out) != 0)
    return systemError("write");
  return {};
}

Status OutputFile::publish() {
  if (fflush(file) != 0)
    return systemError("write");
  if (path == "-")
    return copyTo(stdout);
  if (temporary.empty()) {
    FILE *out = fopen(path.c_str(), "wb");
    if (!out)
      return systemError("open");
    Status status = copyTo(out);
    if (fclose(out) != 0 && status.ok())
      return systemError("write");
    return status;
  }
  if (fclose(std::exchange(file, nullptr)) != 0)
    return systemError("write");
  if (rename(temporary.c_str(), target.c_str()) != 0)
    return systemError("create");
  temporary.clear();
  return {};
}

namespace {

/// A stream into an output file; keeps the first error.
class FileBuffer : public std::streambuf {
public:
  explicit FileBuffer(OutputFile &file) : file(file) {}
  Status status;

private:
  int overflow(int c) override {
    if (c == EOF)
      return 0;
    char byte = char(c);
    return xsputn(&byte, 1) == 1 ? c : EOF;
  }
  std::streamsize xsputn(const char *data, std::streamsize size) override {
    if (status.ok())
      status = file.write(data, size_t(size));
    return status.ok() ? size : 0;
  }

  OutputFile &file;
};

} // namespace

Status writeTextFile(const std::string &path,
                     const std::function<Status(std::ostream &)> &text) {
  auto file = OutputFile::create(path);
  DTRT_RETURN_IF_ERROR(file);
  FileBuffer buffer(*file);
  std::ostream out(&buffer);
  DTRT_RETURN_IF_ERROR(text(out));
  DTRT_RETURN_IF_ERROR(buffer.status);
  return file->publish();
}

Status flushStandardOutput() {
  bool flushed = bool(std::cout.flush());
  if (fflush(stdout) == 0 && !ferror(stdout) && flushed)
    return {};
  return makeError("cannot write standard output",
                   errno ? std::string(": ") + strerror(errno) : "");
}

} // namespace dtrt
