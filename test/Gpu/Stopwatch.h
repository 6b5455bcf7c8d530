//===- Stopwatch.h - Seconds less those of a busy machine -------*- C++ -*-===//

#ifndef DTRT_TEST_STOPWATCH_H
#define DTRT_TEST_STOPWATCH_H

#include <chrono>
#include <map>
#include <string>

namespace dtrt::test {

/// Limits of tests are held against it: other work on the machine may delay a
/// process as long as it likes.
class Stopwatch {
public:
  Stopwatch();

  /// Since it was made, less what the threads of this process that still run
  /// have waited for a core, one after the other. All of it on an idle machine;
  /// never below 0.
  double seconds() const;

private:
  using Waited = std::map<std::string, double>; // seconds, by thread

  /// From /proc/self/task/*/schedstat.
  static Waited waited();

  Waited before;
  std::chrono::steady_clock::time_point begin;
};

} // namespace dtrt::test

#endif // DTRT_TEST_STOPWATCH_H
