//===- Looks.h - A wait for a GPU or for other ranks ------------*- C++ -*-===//

#ifndef DTRT_LIB_CUDA_LOOKS_H
#define DTRT_LIB_CUDA_LOOKS_H

#include <algorithm>
#include <chrono>
#include <thread>

namespace dtrt {

/// The pauses between looks at what comes soon, as a rule, but nobody tells of:
/// at first they only let others run, so that a short wait ends at once. Later
/// they are a small share of the time so far, so that a long one is hardly
/// longer and costs no core.
class Looks {
public:
  using Clock = std::chrono::steady_clock;

  /// A pause is at most one in so many parts of the wait.
  explicit Looks(int parts = 100) : parts(parts) {}

  void pause() const {
    auto passed = Clock::now() - begin;
    if (passed < kSpin)
      return std::this_thread::yield();
    std::this_thread::sleep_for(
        std::clamp<Clock::duration>(passed / parts, kShortest, kLongest));
  }

  const Clock::time_point begin = Clock::now();

private:
  const int parts;
  static constexpr std::chrono::microseconds kSpin{200}, kShortest{20},
      kLongest{2000};
};

} // namespace dtrt

#endif // DTRT_LIB_CUDA_LOOKS_H
