//===- Stopwatch.cpp - Seconds without those of a busy machine ------------===//

#include "Stopwatch.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>

namespace dtrt::test {

Stopwatch::Stopwatch()
    : before(waited()), begin(std::chrono::steady_clock::now()) {}

double Stopwatch::seconds() const {
  std::chrono::duration<double> passed =
      std::chrono::steady_clock::now() - begin;
  double seconds = passed.count();
  for (const auto &[thread, inAll] : waited()) {
    auto known = before.find(thread);
    seconds -= known == before.end() ? inAll : inAll - known->second;
  }
  return std::max(seconds, 0.0);
}

Stopwatch::Waited Stopwatch::waited() {
  constexpr double kNanosecond = 1e-9;
  Waited found;
  std::error_code error; // a thread may end meanwhile
  for (const auto &thread :
       std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream file(thread.path() / "schedstat");
    uint64_t ran = 0, waits = 0;
    if (file >> ran >> waits)
      found[thread.path().filename()] = double(waits) * kNanosecond;
  }
  return found;
}

} // namespace dtrt::test
