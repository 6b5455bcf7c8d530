//===- SameSeconds.h - Predicted times that are compared ------------------===//

#ifndef DT_COST_SAMESECONDS_H
#define DT_COST_SAMESECONDS_H

namespace dt {

/// What sums of the same seconds in another order may differ by, as a part of
/// them. Predicted times as close as this count as one.
constexpr double kSameSeconds = 1e-12;

/// Whether `seconds` is less than `others` in more than the order of a sum.
inline bool isFaster(double seconds, double others) {
  return seconds < others * (1 - kSameSeconds);
}

} // namespace dt

#endif // DT_COST_SAMESECONDS_H
