//===- Painted.h - Which parts of a range are new ---------------*- C++ -*-===//

#ifndef DT_GEOMETRY_PAINTED_H
#define DT_GEOMETRY_PAINTED_H

#include "dt/Geometry/Box.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>

namespace dt {

/// Intervals that were seen before. Mostly they are one run, which takes no
/// memory beside the object's.
class Painted {
public:
  /// Calls fn(Interval) for each part of `range` that is new, ascending.
  template <typename Fn> void add(Interval range, Fn fn) {
    if (range.empty())
      return;
    if (!runs.empty())
      return addToRuns(range, fn);
    if (only.empty()) {
      only = range;
      return fn(range);
    }
    if (range.hi < only.lo || only.hi < range.lo) {
      runs.emplace(only.lo, only.hi);
      return addToRuns(range, fn);
    }
    Interval before = {range.lo, only.lo}, behind = {only.hi, range.hi};
    only = {std::min(only.lo, range.lo), std::max(only.hi, range.hi)};
    if (!before.empty())
      fn(before);
    if (!behind.empty())
      fn(behind);
  }

private:
  template <typename Fn> void addToRuns(Interval range, Fn &fn) {
    auto at = runs.upper_bound(range.lo);
    if (at != runs.begin() && std::prev(at)->second >= range.lo)
      --at;
    auto first = at;
    int64_t lo = range.lo, hi = range.hi, next = range.lo;
    for (; at != runs.end() && at->first <= range.hi; ++at) {
      if (next < at->first)
        fn(Interval{next, at->first});
      next = std::max(next, at->second);
      lo = std::min(lo, at->first);
      hi = std::max(hi, at->second);
    }
    if (next < range.hi)
      fn(Interval{next, range.hi});
    if (first == at) {
      runs.emplace_hint(at, lo, hi);
      return;
    }
    // Mostly one run grows, which keeps its place and its memory.
    auto rest = runs.erase(std::next(first), at);
    auto grown = runs.extract(first);
    grown.key() = lo;
    grown.mapped() = hi;
    runs.insert(rest, std::move(grown));
  }

  Interval only;                   // where there is one run at most
  std::map<int64_t, int64_t> runs; // disjoint, not touching; of several
};

/// Pages, in bytes, that are larger than any buffer: buffers come and go whole.
constexpr int64_t kWholeBuffers = int64_t(1) << 60;

/// Elements of a page: as many of every state, so that states come and go
/// together. `buffers`: of the states of a tensor, with the `width` of an
/// element in bytes; a page of the narrowest has `pageBytes`.
template <typename Buffers>
int64_t pageElements(const Buffers &buffers, int64_t pageBytes) {
  int64_t narrowest = std::numeric_limits<int64_t>::max();
  for (const auto &own : buffers)
    narrowest = std::min(narrowest, own.width);
  return std::max<int64_t>(1, pageBytes / narrowest);
}

/// The pages, of `page` elements, that hold `range`, cut off at `end`.
inline Interval wholePages(Interval range, int64_t page, int64_t end) {
  return {range.lo / page * page,
          std::min(end, (range.hi + page - 1) / page * page)};
}

} // namespace dt

#endif // DT_GEOMETRY_PAINTED_H
