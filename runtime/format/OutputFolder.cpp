//===- OutputFolder.cpp - A folder that appears when it is whole ----------===//

#include "dtrt/format/OutputFolder.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace dtrt {

namespace {

/// Temporary folders that a process which was killed has left may have any name
/// that is tried.
constexpr int kMostFolderTries = 100;

Status systemError(const char *what, const std::string &path) {
  return makeError("cannot ", what, " '", path, "': ", strerror(errno));
}

std::string withoutSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  return path;
}

/// What a symbolic link names; else the path itself.
std::string followedFolder(const std::string &path) {
  char *real = realpath(path.c_str(), nullptr);
  std::string out = real ? real : path;
  free(real);
  return out;
}

/// A folder of files, as they are made here; what is in deeper ones stays, and
/// the folder with it.
void removeFolder(const std::string &path) {
  auto names = namesIn(path);
  if (names.ok())
    for (const std::string &name : *names)
      unlink((path + "/" + name).c_str());
  rmdir(path.c_str());
}

bool exists(const std::string &path) {
  struct stat found;
  return lstat(path.c_str(), &found) == 0;
}

/// The first thing in a folder that may not go.
Status checkReplaceable(const std::string &path,
                        OutputFolder::Replaceable replaceable) {
  if (!exists(path))
    return {};
  if (!isFolder(path))
    return makeError("'", path, "' is there and is no folder");
  auto names = namesIn(path);
  DTRT_RETURN_IF_ERROR(names);
  std::set<std::string> mayGo = replaceable(path);
  for (const std::string &name : *names)
    if (!mayGo.count(name))
      return makeError("'", path, "' is there and holds '", name,
                       "', which is no part of a set of plans: name a folder "
                       "that is new, empty or a set");
  return {};
}

} // namespace

bool isFolder(const std::string &path) {
  struct stat found;
  return stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

Result<std::vector<std::string>> namesIn(const std::string &folder) {
  DIR *open = opendir(folder.c_str());
  if (!open)
    return systemError("open", folder);
  std::vector<std::string> names;
  while (const dirent *entry = readdir(open)) {
    std::string name = entry->d_name;
    if (name != "." && name != "..")
      names.push_back(std::move(name));
  }
  closedir(open);
  std::sort(names.begin(), names.end());
  return names;
}

OutputFolder::OutputFolder(OutputFolder &&other) noexcept
    : replaceable(other.replaceable), target(std::move(other.target)),
      temporary(std::exchange(other.temporary, {})) {}

OutputFolder::~OutputFolder() {
  if (!temporary.empty())
    removeFolder(temporary);
}

Result<OutputFolder> OutputFolder::create(const std::string &target,
                                          Replaceable replaceable) {
  OutputFolder out;
  out.replaceable = replaceable;
  out.target = followedFolder(withoutSlashes(target));
  DTRT_RETURN_IF_ERROR(checkReplaceable(out.target, replaceable));
  std::string stem = out.target + ".tmp." + std::to_string(getpid()) + ".";
  for (int i = 0; i < kMostFolderTries; ++i) {
    std::string name = stem + std::to_string(i);
    if (mkdir(name.c_str(), 0777) == 0) {
      out.temporary = name;
      return out;
    }
    if (errno != EEXIST)
      break;
  }
  return systemError("create", target);
}

Status OutputFolder::publish() {
  DTRT_RETURN_IF_ERROR(checkReplaceable(target, replaceable));
  // An empty folder gives way to another by itself.
  if (rename(temporary.c_str(), target.c_str()) == 0) {
    temporary.clear();
    return {};
  }
  if (errno != ENOTEMPTY && errno != EEXIST)
    return systemError("create", target);
#ifdef RENAME_EXCHANGE
  if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(),
                RENAME_EXCHANGE) != 0)
    return systemError("replace", target);
  return {}; // what was there goes with this object
#else
  return makeError("cannot replace '", target,
                   "' on this system: remove it first");
#endif
}

} // namespace dtrt
