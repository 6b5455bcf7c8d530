//===- Failure.h - A failed Status on its way to Python ---------*- C++ -*-===//
//
// The extension module turns it into the exception of its code; nothing of the
// runtime below sees it.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TORCH_FAILURE_H
#define DTRT_TORCH_FAILURE_H

#include "dtrt/types/Status.h"

#include <stdexcept>

namespace dtrt {

/// What Python sees of a failed Status.
struct Failure : std::runtime_error {
  explicit Failure(const Status &status)
      : std::runtime_error(status.message()), code(status.code()) {}
  ErrorCode code;
};

inline void check(const Status &status) {
  if (!status.ok())
    throw Failure(status);
}

template <typename T> T take(Result<T> result) {
  check(statusOf(result));
  return std::move(*result);
}

} // namespace dtrt

#endif // DTRT_TORCH_FAILURE_H
