//===- OutputFolder.h - A folder that appears when whole --------*- C++ -*-===//

#ifndef DTRT_FORMAT_OUTPUTFOLDER_H
#define DTRT_FORMAT_OUTPUTFOLDER_H

#include "dtrt/types/Status.h"

#include <set>
#include <string>
#include <vector>

namespace dtrt {

/// What an OutputFile is for a file. Files are written below `path()`, a
/// temporary folder beside the one that is meant, which takes its name at the
/// end and is removed, with what is in it, on any failure. Errors name the
/// folder and say what the system says.
class OutputFolder {
public:
  /// The files in a folder that may go when another takes its place. A folder
  /// that is there and has others in it is never replaced.
  using Replaceable = std::set<std::string> (*)(const std::string &folder);

  /// Fails where `target` is there and cannot be replaced.
  static Result<OutputFolder> create(const std::string &target,
                                     Replaceable replaceable);

  OutputFolder(OutputFolder &&other) noexcept;
  OutputFolder &operator=(OutputFolder &&) = delete;
  ~OutputFolder();

  /// Where to write, without a slash at the end.
  const std::string &path() const { return temporary; }
  /// Once. The old folder and the new one change places in one step: whoever
  /// opens the folder finds the one or the other.
  Status publish();

private:
  OutputFolder() = default;

  Replaceable replaceable = nullptr;
  std::string target;
  std::string temporary; // empty: published
};

/// Names of what is in a folder, ascending, but for "." and "..".
Result<std::vector<std::string>> namesIn(const std::string &folder);

/// Whether there is a folder of this name, a symbolic link followed.
bool isFolder(const std::string &path);

} // namespace dtrt

#endif // DTRT_FORMAT_OUTPUTFOLDER_H
