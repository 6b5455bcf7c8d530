//===- Status.h - Errors of the runtime -------------------------*- C++ -*-===//
//
// No exception crosses an API of the runtime. A function that can fail returns
// a `Status`, or a `Result<T>` when it has something to give; the text says
// what was found and what was expected, in lower case, without a full stop. The
// code says what a caller may do about it, whatever the text.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TYPES_STATUS_H
#define DTRT_TYPES_STATUS_H

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace dtrt {

/// What kind of error it is: in Python, which class of exception.
enum class ErrorCode {
  /// A plan, a tensor or a call cannot be used as it is. Trying again does not
  /// help.
  Invalid,
  /// The ranks do not have the same plan, tag or tensors.
  Mismatch,
  /// A rank did not come, or did not answer, in time.
  Timeout,
  /// The connection to a rank is gone: most often its process is.
  PeerLost,
  /// The store does not answer, or is gone.
  StoreLost,
  OutOfMemory,
  /// A rank has stopped the work: its trainer, a signal, an error of its own.
  Cancelled,
  /// Whether the switch was committed cannot be learnt.
  Undecided,
  /// The operating system or a library refused.
  System,
  /// What a lost process held is nowhere else.
  LostState,
};

/// In lower case with underscores, as in "peer_lost".
inline const char *errorCodeName(ErrorCode code) {
  constexpr const char *names[] = {
      "invalid",       "mismatch",  "timeout",   "peer_lost", "store_lost",
      "out_of_memory", "cancelled", "undecided", "system",    "lost_state"};
  return names[size_t(code)];
}
constexpr size_t kNumErrorCodes = size_t(ErrorCode::LostState) + 1;

/// Ranks that are gone or do not answer: a part of an error that is not in its
/// text.
struct GoneRanks {
  std::vector<uint32_t> ranks;
};

class [[nodiscard]] Status {
public:
  Status() = default;
  static Status failure(ErrorCode code, std::string message,
                        GoneRanks gone = {}) {
    Status status;
    status.failed = true;
    status.kind = code;
    status.text = std::move(message);
    status.gone = std::move(gone);
    return status;
  }
  bool ok() const { return !failed; }
  const std::string &message() const { return text; }
  /// Of an error.
  ErrorCode code() const { return kind; }
  bool is(ErrorCode code) const { return failed && kind == code; }
  /// Of an error that comes from them, as far as they are known.
  const GoneRanks &goneRanks() const { return gone; }

private:
  bool failed = false;
  ErrorCode kind = ErrorCode::Invalid;
  std::string text;
  GoneRanks gone;
};

namespace detail {
/// What the parts of an error say beside its text.
struct ErrorFacts {
  std::optional<ErrorCode> code;
  GoneRanks gone;
};
inline void addPart(std::ostringstream &, ErrorFacts &facts,
                    const GoneRanks &part) {
  if (facts.gone.ranks.empty())
    facts.gone = part;
}
inline void addPart(std::ostringstream &out, ErrorFacts &facts,
                    const Status &part) {
  facts.code = facts.code.value_or(part.code());
  addPart(out, facts, part.goneRanks());
  out << part.message();
}
inline void addPart(std::ostringstream &, ErrorFacts &facts, ErrorCode part) {
  facts.code = facts.code.value_or(part);
}
template <typename Part>
void addPart(std::ostringstream &out, ErrorFacts &, const Part &part) {
  out << part;
}
} // namespace detail

/// An error whose text is the parts, streamed one after the other. A part that
/// is a code, or the error that caused this one, gives the code; without one
/// something given is invalid. Ranks that are gone are passed on likewise.
template <typename... Parts> Status makeError(const Parts &...parts) {
  std::ostringstream stream;
  detail::ErrorFacts facts;
  (detail::addPart(stream, facts, parts), ...);
  return Status::failure(facts.code.value_or(ErrorCode::Invalid), stream.str(),
                         std::move(facts.gone));
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

#endif // DTRT_TYPES_STATUS_H
