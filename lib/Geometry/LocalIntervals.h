//===- LocalIntervals.h - Concatenated interval lists -----------*- C++ -*-===//
//
// A list of intervals is also a local coordinate space: position p of the
// concatenation. Shared by placements, which cut that space.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_GEOMETRY_LOCALINTERVALS_H
#define DT_LIB_GEOMETRY_LOCALINTERVALS_H

#include "dt/Geometry/Box.h"

namespace dt {

inline int64_t extentOf(const std::vector<Interval> &intervals) {
  int64_t extent = 0;
  for (Interval interval : intervals)
    extent += interval.size();
  return extent;
}

/// Appends an interval; one that touches the last is merged with it.
inline void appendMerged(Interval interval, std::vector<Interval> &out) {
  if (interval.empty())
    return;
  if (!out.empty() && out.back().hi == interval.lo)
    out.back().hi = interval.hi;
  else
    out.push_back(interval);
}

/// [2:6) of the concatenation of [0:4), [8:12) -> [2:4), [8:10). `local` is
/// ascending.
inline std::vector<Interval> selected(const std::vector<Interval> &held,
                                      const std::vector<Interval> &local) {
  std::vector<Interval> out;
  int64_t position = 0;
  size_t next = 0;
  for (Interval interval : held) {
    Interval own = {position, position + interval.size()};
    position = own.hi;
    for (; next < local.size() && local[next].lo < own.hi; ++next) {
      Interval part = intersect(local[next], own);
      int64_t shift = interval.lo - own.lo;
      if (!part.empty())
        appendMerged({part.lo + shift, part.hi + shift}, out);
      if (local[next].hi > own.hi)
        break; // goes on in the next interval
    }
  }
  return out;
}

} // namespace dt

#endif // DT_LIB_GEOMETRY_LOCALINTERVALS_H
