//===- Interval.h - Half-open ranges of integers ----------------*- C++ -*-===//
//
// Headers alone, so that the compiler's lowest layers use it as well.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TYPES_INTERVAL_H
#define DTRT_TYPES_INTERVAL_H

#include <cstdint>

namespace dtrt {

/// Half-open range [lo, hi) of integers. Empty when hi <= lo.
struct Interval {
  int64_t lo = 0;
  int64_t hi = 0;

  int64_t size() const { return hi > lo ? hi - lo : 0; }
  bool empty() const { return hi <= lo; }
  bool contains(Interval other) const {
    return other.empty() || (lo <= other.lo && other.hi <= hi);
  }
  friend bool operator==(Interval a, Interval b) {
    return a.lo == b.lo && a.hi == b.hi;
  }
  friend bool operator!=(Interval a, Interval b) { return !(a == b); }
  friend bool operator<(Interval a, Interval b) {
    return a.lo != b.lo ? a.lo < b.lo : a.hi < b.hi;
  }
};

/// [0:4) ∩ [2:6) -> [2:4)
inline Interval intersect(Interval a, Interval b) {
  return {a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
}

} // namespace dtrt

#endif // DTRT_TYPES_INTERVAL_H
