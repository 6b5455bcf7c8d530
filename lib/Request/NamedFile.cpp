//===- NamedFile.cpp - JSON files that a request names --------------------===//

#include "NamedFile.h"

#include "dt/Geometry/Limits.h"

#include <cerrno>
#include <cstring>
#include <fstream>

namespace dt::request {

namespace {

std::string readFile(const std::string &path, const std::string &what) {
  auto refuse = [&](const std::string &why) {
    fail(what + " cannot be read: " + why);
  };
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  // A device or a pipe does not say how long it is.
  std::vector<char> part(1 << 20);
  while (file && int64_t(text.size()) <= kMaxInputBytes) {
    file.read(part.data(), std::streamsize(part.size()));
    text.append(part.data(), size_t(file.gcount()));
  }
  if (int64_t(text.size()) > kMaxInputBytes)
    refuse("it has more than the limit of " + std::to_string(kMaxInputBytes) +
           " bytes");
  if (!file.eof() || file.bad())
    refuse(std::strerror(errno ? errno : EISDIR));
  return text;
}

} // namespace

std::string readNamedText(const std::string &path, const std::string &directory,
                          const std::string &what) {
  bool absolute = !path.empty() && path[0] == '/';
  std::string full =
      absolute || directory.empty() ? path : directory + "/" + path;
  return readFile(full, what);
}

Json readNamedFile(const std::string &path, const std::string &directory,
                   const std::string &what) {
  return parseJson(readNamedText(path, directory, what), what);
}

} // namespace dt::request
