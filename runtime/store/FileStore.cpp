//===- FileStore.cpp - A store in a folder that all ranks see -------------===//

#include "dtrt/store/FileStore.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sys/file.h>
#include <unistd.h>

namespace dtrt {

namespace {

/// While it lives no other process is between reading a key and setting it.
class FolderLock {
public:
  explicit FolderLock(const std::string &folder)
      : file(::open((folder + "/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC,
                    0600)) {
    while (file >= 0 && flock(file, LOCK_EX) != 0)
      if (errno != EINTR) {
        int why = errno;
        close(file);
        file = -1;
        errno = why;
      }
  }
  ~FolderLock() {
    if (file >= 0)
      close(file);
  }
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;

  Status status(const std::string &folder) const {
    if (file >= 0)
      return {};
    return makeError(ErrorCode::System, "cannot lock ", folder, ": ",
                     strerror(errno));
  }

private:
  int file;
};

} // namespace

/// Keys may have parts, files of one folder may not.
std::string FileStore::pathOf(std::string key) const {
  std::replace(key.begin(), key.end(), '/', '+');
  return folder + "/" + key;
}

/// With the lock held; who reads sees the old value or the new one.
Status FileStore::write(const std::string &key,
                        const std::string &value) const {
  std::string path = pathOf(key);
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  std::string temporary =
      path + "." + host + "." + std::to_string(getpid()) + ".part";
  {
    std::ofstream file(temporary, std::ios::binary);
    file << value;
    if (!file.flush())
      return makeError(ErrorCode::System, "cannot write ", temporary, ": ",
                       strerror(errno));
  }
  if (rename(temporary.c_str(), path.c_str()) != 0)
    return makeError(ErrorCode::System, "cannot rename ", temporary, ": ",
                     strerror(errno));
  return {};
}

Status FileStore::set(const std::string &key, const std::string &value) {
  FolderLock lock(folder);
  DTRT_RETURN_IF_ERROR(lock.status(folder));
  return write(key, value);
}

Result<std::optional<std::string>> FileStore::get(const std::string &key) {
  std::ifstream file(pathOf(key), std::ios::binary);
  if (!file)
    return std::optional<std::string>();
  return std::optional<std::string>(
      std::string(std::istreambuf_iterator<char>(file), {}));
}

Result<std::string> FileStore::compareAndSet(const std::string &key,
                                             const std::string &expected,
                                             const std::string &desired) {
  FolderLock lock(folder);
  DTRT_RETURN_IF_ERROR(lock.status(folder));
  auto found = get(key);
  DTRT_RETURN_IF_ERROR(found);
  std::string now = found->value_or("");
  if (now != expected)
    return now;
  DTRT_RETURN_IF_ERROR(write(key, desired));
  return desired;
}

Result<int64_t> FileStore::add(const std::string &key, int64_t amount) {
  FolderLock lock(folder);
  DTRT_RETURN_IF_ERROR(lock.status(folder));
  auto found = get(key);
  DTRT_RETURN_IF_ERROR(found);
  int64_t sum = strtoll(found->value_or("0").c_str(), nullptr, 10) + amount;
  DTRT_RETURN_IF_ERROR(write(key, std::to_string(sum)));
  return sum;
}

Status FileStore::remove(const std::string &key) {
  FolderLock lock(folder);
  DTRT_RETURN_IF_ERROR(lock.status(folder));
  if (unlink(pathOf(key).c_str()) != 0 && errno != ENOENT)
    return makeError(ErrorCode::System, "cannot remove ", pathOf(key), ": ",
                     strerror(errno));
  return {};
}

} // namespace dtrt
