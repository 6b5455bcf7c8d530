//===- Parallel.h - Loops on the threads of the caller ----------*- C++ -*-===//
//
// Libraries that know nothing of MLIR, and own no threads, get their caller's:
// the passes hand in MLIR's pool. Results do not depend on it.
//
//===----------------------------------------------------------------------===//

#ifndef DT_GEOMETRY_PARALLEL_H
#define DT_GEOMETRY_PARALLEL_H

#include <cstddef>
#include <functional>

namespace dt {

/// Calls `body` with 0 to n - 1, each once, in any order and on any threads,
/// and returns when all are done.
using ParallelFor =
    std::function<void(size_t n, const std::function<void(size_t)> &body)>;

/// One after the other, on the caller's thread.
inline void serialFor(size_t n, const std::function<void(size_t)> &body) {
  for (size_t i = 0; i < n; ++i)
    body(i);
}

} // namespace dt

#endif // DT_GEOMETRY_PARALLEL_H
