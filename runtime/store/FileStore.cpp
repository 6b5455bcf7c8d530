//===- FileStore.cpp - A store in a folder that all ranks see -------------===//

#include "dtrt/FileStore.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <unistd.h>

namespace dtrt {

/// Keys may have parts, files of one folder may not.
std::string FileStore::pathOf(std::string key) const {
  std::replace(key.begin(), key.end(), '/', '+');
  return folder + "/" + key;
}

Status FileStore::set(const std::string &key, const std::string &value) {
  std::string path = pathOf(key);
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  std::string temporary =
      path + "." + host + "." + std::to_string(getpid()) + ".part";
  {
    std::ofstream file(temporary, std::ios::binary);
    file << value;
    if (!file.flush())
      return makeError("cannot write ", temporary, ": ", strerror(errno));
  }
  if (rename(temporary.c_str(), path.c_str()) != 0)
    return makeError("cannot rename ", temporary, ": ", strerror(errno));
  return {};
}

Result<std::optional<std::string>> FileStore::get(const std::string &key) {
  std::ifstream file(pathOf(key), std::ios::binary);
  if (!file)
    return std::optional<std::string>();
  return std::optional<std::string>(
      std::string(std::istreambuf_iterator<char>(file), {}));
}

} // namespace dtrt
