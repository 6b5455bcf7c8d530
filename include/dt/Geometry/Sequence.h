//===- Sequence.h - One integer for each index ------------------*- C++ -*-===//
//
// What the members of a family have by one leading dim: the numbers in their
// names, or how far they stand from the first in registration order.
//
//   0, 4, 8, 12           first 0, step 4
//   0, 1, 2, 4, 5, 6, 8   a list: layers of one kind among others
//
//===----------------------------------------------------------------------===//

#ifndef DT_GEOMETRY_SEQUENCE_H
#define DT_GEOMETRY_SEQUENCE_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dt {

struct Sequence {
  int64_t first = 0;
  int64_t step = 1;
  /// Empty: first + step * index. Not one of equal steps, and begins with
  /// `first`; the step is 0.
  std::vector<int64_t> list = {};

  int64_t at(int64_t index) const {
    return list.empty() ? first + step * index : list[size_t(index)];
  }

  /// Of values that are not none, and whose differences fit 64 bits; the step
  /// of one alone is 1.
  static Sequence of(std::vector<int64_t> values);
};

} // namespace dt

#endif // DT_GEOMETRY_SEQUENCE_H
