//===- Box.h - Intervals and boxes of integer coordinates -------*- C++ -*-===//
//
// The atoms of the Virtual Parameter Space. A box is a product of half-open
// intervals in elements; every region that is ever sent is one box of one
// param. Inner loops hold millions of them: few dims take no memory beside the
// box.
//
//===----------------------------------------------------------------------===//

#ifndef DT_GEOMETRY_BOX_H
#define DT_GEOMETRY_BOX_H

#include "dtrt/types/Interval.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace dt {

using dtrt::intersect;
using dtrt::Interval;

/// Most dims of a param, leading dims (layers, experts) included. Importers
/// report it as an error.
constexpr unsigned kMaxRank = 8;

/// A product of intervals, one per dim. Rank 0 is a scalar: one element.
class Box {
public:
  Box() = default;
  explicit Box(unsigned rank) : rank_(rank) {
    if (!isInline())
      many = new Interval[rank];
  }
  Box(const Box &from) : Box(from.rank_) {
    if (isInline())
      few = from.few;
    else
      std::copy(from.many, from.many + rank_, many);
  }
  Box(Box &&from) noexcept { take(from); }
  ~Box() { free(); }
  Box &operator=(const Box &from) {
    if (!isInline() || !from.isInline())
      return *this = Box(from);
    few = from.few;
    rank_ = from.rank_;
    return *this;
  }
  Box &operator=(Box &&from) noexcept {
    if (this != &from) {
      free();
      take(from);
    }
    return *this;
  }
  /// The whole of a shape: [0:shape[d]) in every dim.
  static Box whole(const std::vector<int64_t> &shape);
  static Box fromOffsetSize(const std::vector<int64_t> &offset,
                            const std::vector<int64_t> &size);

  unsigned rank() const { return rank_; }
  Interval &operator[](unsigned dim) { return data()[dim]; }
  const Interval &operator[](unsigned dim) const { return data()[dim]; }

  /// Number of elements; 0 when any dim is empty.
  int64_t volume() const {
    int64_t volume = 1;
    const Interval *dims = data();
    for (unsigned dim = 0; dim < rank_; ++dim)
      volume *= dims[dim].size();
    return volume;
  }
  bool empty() const { return volume() == 0; }
  bool contains(const Box &other) const;

  friend bool operator==(const Box &a, const Box &b) {
    if (a.rank_ != b.rank_)
      return false;
    for (unsigned dim = 0; dim < a.rank_; ++dim)
      if (a[dim] != b[dim])
        return false;
    return true;
  }
  friend bool operator!=(const Box &a, const Box &b) { return !(a == b); }
  /// Lexicographic by the intervals' lower ends, then upper ends: a total
  /// order, used wherever output must be deterministic.
  friend bool operator<(const Box &a, const Box &b);

private:
  /// Layer, expert, row, column.
  static constexpr unsigned kInline = 4;

  bool isInline() const { return rank_ <= kInline; }
  Interval *data() { return isInline() ? few.data() : many; }
  const Interval *data() const { return isInline() ? few.data() : many; }
  void free() {
    if (!isInline())
      delete[] many;
  }
  /// What is many is this box's then, and the other one is a scalar; what was
  /// here is freed already.
  void take(Box &from) {
    rank_ = from.rank_;
    if (isInline()) {
      few = from.few;
      return;
    }
    many = from.many;
    from.few = {};
    from.rank_ = 0;
  }

  union {
    std::array<Interval, kInline> few = {};
    Interval *many;
  };
  unsigned rank_ = 0;
};

/// Elementwise intersection; empty when the boxes do not meet.
Box intersect(const Box &a, const Box &b);
inline bool overlaps(const Box &a, const Box &b) {
  for (unsigned dim = 0; dim < a.rank(); ++dim)
    if (intersect(a[dim], b[dim]).empty())
      return false;
  return true;
}

/// Appends `a` minus `b` to `out` as at most 2 * rank disjoint boxes. Cuts dim
/// by dim from the outermost, so the pieces stay as contiguous as possible.
void subtract(const Box &a, const Box &b, std::vector<Box> &out);

/// Splits a row-major flat range of a tensor of `shape` into at most
/// 2 * rank - 1 disjoint boxes, in flat order.
///   shape 3x4, [2:9) -> [0:1)x[2:4), [1:2)x[0:4), [2:3)x[0:1)
std::vector<Box> splitFlatRange(const std::vector<int64_t> &shape,
                                Interval range);

/// Two boxes that share all intervals but one dim, where they touch, become
/// one. Merges until nothing changes; the input order does not matter, the
/// output is sorted.
std::vector<Box> mergeAdjacent(std::vector<Box> boxes);

/// "[0:4)x[2:6)"
std::string toString(const Box &box);

} // namespace dt

#endif // DT_GEOMETRY_BOX_H
