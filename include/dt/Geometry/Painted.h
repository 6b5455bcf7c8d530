//===- Painted.h - Which parts of a range are new ---------------*- C++ -*-===//

#ifndef DT_GEOMETRY_PAINTED_H
#define DT_GEOMETRY_PAINTED_H

#include "dt/Geometry/Box.h"

#include <algorithm>
#include <map>

namespace dt {

/// Intervals that were seen before.
class Painted {
public:
  /// Calls fn(Interval) for each part of `range` that is new, ascending.
  template <typename Fn> void add(Interval range, Fn fn) {
    auto at = runs.upper_bound(range.lo);
    if (at != runs.begin() && std::prev(at)->second >= range.lo)
      --at;
    int64_t lo = range.lo, hi = range.hi, next = range.lo;
    while (at != runs.end() && at->first <= range.hi) {
      if (next < at->first)
        fn(Interval{next, at->first});
      next = std::max(next, at->second);
      lo = std::min(lo, at->first);
      hi = std::max(hi, at->second);
      at = runs.erase(at);
    }
    if (next < range.hi)
      fn(Interval{next, range.hi});
    runs[lo] = hi;
  }

private:
  std::map<int64_t, int64_t> runs; // disjoint, not touching
};

/// Pages, in bytes, that are larger than any buffer: buffers come and go whole.
constexpr int64_t kWholeBuffers = int64_t(1) << 60;

/// The pages, of `page` elements, that hold `range`, cut off at `end`.
inline Interval wholePages(Interval range, int64_t page, int64_t end) {
  return {range.lo / page * page,
          std::min(end, (range.hi + page - 1) / page * page)};
}

} // namespace dt

#endif // DT_GEOMETRY_PAINTED_H
