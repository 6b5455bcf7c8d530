//===- VerifyOnce.cpp - A plan is verified before it runs -----------------===//

#include "dtrt/verify/VerifyOnce.h"

#include "dtrt/verify/Verifier.h"

#include <cerrno>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace dtrt {

namespace {

/// A descriptor that is closed.
class File {
public:
  explicit File(int number) : number(number) {}
  File(File &&other) noexcept : number(std::exchange(other.number, -1)) {}
  File &operator=(File &&) = delete;
  ~File() {
    if (number >= 0)
      close(number);
  }
  bool isOpen() const { return number >= 0; }
  operator int() const { return number; }

private:
  int number;
};

/// Whether nobody but this user can have written what is open.
bool isOwn(const File &file, mode_t type) {
  struct stat found;
  return file.isOpen() && fstat(file, &found) == 0 &&
         (found.st_mode & S_IFMT) == type && found.st_uid == geteuid() &&
         (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// The folder and those that it lies in, as far as they can be made.
void makeFolders(const std::string &path) {
  for (size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    mkdir(path.substr(0, at).c_str(), 0700);
    if (at == std::string::npos)
      return;
  }
}

/// Which plans were verified. Does nothing where its folder is not the user's.
class Markers {
public:
  explicit Markers(const std::string &path) : folder(openFolder(path)) {}

  bool isUsable() const { return isOwn(folder, S_IFDIR); }

  bool has(const std::string &name) const {
    File file(openat(folder, name.c_str(),
                     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    return isOwn(file, S_IFREG);
  }

  void add(const std::string &name) const {
    forgetIfMany();
    File file(openat(folder, name.c_str(),
                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                     0600));
  }

  /// Held until it is closed, or its process ends.
  File lock(const std::string &name) const {
    File file(openat(folder, name.c_str(),
                     O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                     0600));
    if (isOwn(file, S_IFREG))
      while (flock(file, LOCK_EX) != 0 && errno == EINTR) {
      }
    return file;
  }

  void remove(const std::string &name) const {
    unlinkat(folder, name.c_str(), 0);
  }

private:
  static File openFolder(const std::string &path) {
    if (path.empty())
      return File(-1);
    makeFolders(path);
    return File(
        open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  }

  void forgetIfMany() const {
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? nullptr : fdopendir(copy);
    if (!list) {
      if (copy >= 0)
        close(copy);
      return;
    }
    std::vector<std::string> names;
    while (dirent *entry = readdir(list))
      if (entry->d_name[0] != '.')
        names.push_back(entry->d_name);
    closedir(list);
    if (names.size() >= kMostVerified)
      for (const std::string &name : names)
        remove(name);
  }

  File folder;
};

Status verified(const PlanReader &plan) {
  Status status = verifyPlan(plan);
  if (status.ok())
    return status;
  return makeError("the plan is wrong, and nothing was moved: ", status);
}

} // namespace

std::string verifiedFolder() {
  auto absolute = [](const char *name) -> std::string {
    const char *path = getenv(name);
    return path && path[0] == '/' ? path : "";
  };
  std::string cache = absolute("XDG_CACHE_HOME");
  if (cache.empty() && !absolute("HOME").empty())
    cache = absolute("HOME") + "/.cache";
  return cache.empty() ? "" : cache + "/dynatrain/verified";
}

Status verifyOnce(const PlanReader &plan, const std::string &folder) {
  Markers markers(folder);
  if (!markers.isUsable())
    return verified(plan);
  std::string name = digestText(plan.digest()) + "-" + kVerifierVersion;
  if (markers.has(name))
    return {};
  std::string lockName = name + ".lock";
  File lock = markers.lock(lockName);
  Status status;
  if (!markers.has(name)) { // by who had the lock before
    status = verified(plan);
    if (status.ok())
      markers.add(name);
  }
  // Who waits for this lock has it open, and sees the marker. It may have been
  // removed since, and made anew here: so whoever had it removes it.
  markers.remove(lockName);
  return status;
}

} // namespace dtrt
