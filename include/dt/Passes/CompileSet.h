//===- CompileSet.h - A folder of plans from one request --------*- C++ -*-===//

#ifndef DT_PASSES_COMPILESET_H
#define DT_PASSES_COMPILESET_H

#include "dt/Request/RequestSet.h"

#include "mlir/Support/LLVM.h"

#include <functional>

namespace dt {

struct SetOptions {
  std::string file;   // the request's, for locations
  std::string folder; // what is written
  /// Plans that are made at the same time. What is written does not depend on
  /// it; memory does.
  unsigned threads = 1;
  /// One plan after the other: each has copies of the programs of the one
  /// before, where they differ in few devices (Replan.h), and is made from zero
  /// elsewhere.
  bool isChained = false;
};

/// Where words for people go.
struct SetOutput {
  /// One line, complete but for its end: "warning: 'a': ...".
  std::function<void(const std::string &)> say;
  /// Plans that are done, and all of them; from any thread.
  std::function<void(size_t, size_t)> progress;
};

/// Compiles every transition of a request to NAME.dtplan and writes an index of
/// them (dtrt/format/PlanSet.h). The folder appears when all of it is there; a
/// mistake in any transition leaves nothing, and is said once: that of the
/// first transition at fault. Each plan has the bytes that it would have alone,
/// unless the set is chained.
mlir::LogicalResult compileSet(const RequestSet &set, const SetOptions &options,
                               const SetOutput &output);

} // namespace dt

#endif // DT_PASSES_COMPILESET_H
