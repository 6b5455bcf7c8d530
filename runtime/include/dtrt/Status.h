//===- Status.h - Errors of the runtime -------------------------*- C++ -*-===//
//
// No exception crosses an API of the runtime. A function that can fail returns
// a `Status`, or a `Result<T>` when it has something to give; the text says
// what was found and what was expected, in lower case, without a full stop.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_STATUS_H
#define DTRT_STATUS_H

#include <optional>
#include <sstream>
#include <string>
#include <utility>

namespace dtrt {

class [[nodiscard]] Status {
public:
  Status() = default;
  static Status failure(std::string message) {
    Status status;
    status.failed = true;
    status.text = std::move(message);
    return status;
  }
  bool ok() const { return !failed; }
  const std::string &message() const { return text; }

private:
  bool failed = false;
  std::string text;
};

/// An error whose text is the parts, streamed one after the other.
template <typename... Parts> Status makeError(const Parts &...parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return Status::failure(stream.str());
}

/// A value, or the error that kept it from being made.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : held(std::move(value)) {}
  Result(Status status) : why(std::move(status)) {}
  bool ok() const { return held.has_value(); }
  const Status &status() const { return why; }
  T &operator*() { return *held; }
  const T &operator*() const { return *held; }
  T *operator->() { return &*held; }
  const T *operator->() const { return &*held; }

private:
  std::optional<T> held;
  Status why;
};

inline const Status &statusOf(const Status &status) { return status; }
template <typename T> const Status &statusOf(const Result<T> &result) {
  return result.status();
}

} // namespace dtrt

/// Leaves the function with the error of `expr`, a Status or a Result.
#define DTRT_RETURN_IF_ERROR(expr)                                             \
  do {                                                                         \
    auto &&dtrtOutcome = (expr);                                               \
    if (!dtrtOutcome.ok())                                                     \
      return ::dtrt::statusOf(dtrtOutcome);                                    \
  } while (false)

#endif // DTRT_STATUS_H
