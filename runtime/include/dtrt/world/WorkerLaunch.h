//===- WorkerLaunch.h - A plan as real processes ----------------*- C++ -*-===//
//
// Starts a process per device of a plan through torch's own launcher, or one
// process where a launcher has started this one. The processes run the worker
// module of the Python package.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_WORLD_WORKERLAUNCH_H
#define DTRT_WORLD_WORKERLAUNCH_H

#include "dtrt/types/Status.h"

#include <vector>

namespace dtrt {

struct WorkerOptions {
  std::string plan; // a path
  size_t devices = 1;
  /// The interpreter that has torch and dynatrain.
  std::string python;
  /// Folder that holds the package where it is not installed; may be empty.
  std::string packages;
  /// What the worker module is given after the plan.
  std::vector<std::string> arguments;
};

/// The interpreter of the checkout that this program was built in, else the
/// one on PATH; and that build's package.
void findPython(WorkerOptions &options);

/// The exit code of the run.
Result<int> runWorkers(const WorkerOptions &options);

} // namespace dtrt

#endif // DTRT_WORLD_WORKERLAUNCH_H
