//===- Lull.h - A wait for what others do -----------------------*- C++ -*-===//

#ifndef DTRT_TEST_LULL_H
#define DTRT_TEST_LULL_H

#include <algorithm>
#include <chrono>

namespace dtrt::test {

/// How long to wait for what does not go on: at each look longer, so that what
/// takes seconds does not keep a core busy.
class Lull {
public:
  std::chrono::microseconds next() {
    std::chrono::microseconds pause = length;
    length = std::min(length * 2, kLongest);
    return pause;
  }

private:
  static constexpr std::chrono::microseconds kLongest{2000};
  std::chrono::microseconds length{50};
};

} // namespace dtrt::test

#endif // DTRT_TEST_LULL_H
