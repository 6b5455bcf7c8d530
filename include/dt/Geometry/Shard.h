//===- Shard.h - The part of a param that one rank holds --------*- C++ -*-===//
//
// A shard is a product of interval lists, one list per dim. The local tensor
// of each member (each layer, each expert) is dense and row-major, its extent
// in a dim the sum of that dim's intervals:
//
//   gate/up packed [2f, h] at tp 1 of 2: dim 0 = [f/2:f), [3f/2:2f)
//
// and a flat range (ZeRO) keeps only local elements [lo, hi) of each member.
// Where the local tensor has the inner dims in another order, it is row-major
// in that one.
//
//===----------------------------------------------------------------------===//

#ifndef DT_GEOMETRY_SHARD_H
#define DT_GEOMETRY_SHARD_H

#include "dt/Geometry/Box.h"
#include "dtrt/types/Permutation.h"

#include <optional>

namespace dt {

using dtrt::Permutation;

struct Shard {
  /// Per dim, in local order; leading dims first. Intervals of one dim are
  /// disjoint. May reach beyond the param's shape: that part is padding.
  std::vector<std::vector<Interval>> dims;
  unsigned numLeading = 0;
  /// Elements of each member's local tensor, flattened row-major.
  std::optional<Interval> range;
  /// Which of its side's tensors it is a part of, where a side has tensors of
  /// its own (TensorView.h); none: the param.
  std::optional<uint32_t> view = {};
  /// Which inner dim stands at which place of the local tensor.
  Permutation order = {};

  unsigned rank() const { return dims.size(); }
  /// Local extent per dim of the param: sums of the interval sizes.
  std::vector<int64_t> localShape() const;
  /// Number of members held: product over the leading dims.
  int64_t numMembers() const;
  /// Local elements per member (the range's size when there is one).
  int64_t elementsPerMember() const;
  friend bool operator==(const Shard &a, const Shard &b) {
    return a.numLeading == b.numLeading && a.dims == b.dims &&
           a.range == b.range && a.view == b.view && a.order == b.order;
  }
  friend bool operator<(const Shard &a, const Shard &b);
};

/// The shard as disjoint VPS boxes, padding removed (clipped to `shape`), in
/// local order. Leading dims stay intervals: one box covers many members.
std::vector<Box> regions(const Shard &shard, const std::vector<int64_t> &shape);
/// The same, appended to `out`: for loops over millions of shards.
void appendRegions(const Shard &shard, const std::vector<int64_t> &shape,
                   std::vector<Box> &out);

/// The padding of the shard: boxes in padded coordinates outside `shape`.
std::vector<Box> padding(const Shard &shard, const std::vector<int64_t> &shape);

/// Where a box of the VPS lies in a member's local storage, as a strided view
/// in elements from the start of that storage (range start subtracted).
struct LocalView {
  int64_t offset = 0;
  std::vector<int64_t> sizes;   // inner dims only
  std::vector<int64_t> strides; // of the local tensor
};

/// The view of `box` inside `shard`; nullopt when one dim of the box is not
/// inside a single interval of the shard, or it leaves the flat range. The
/// box must cover one or more members; the view is the same for each.
std::optional<LocalView> localView(const Shard &shard, const Box &box);
/// Elements of the local tensor from the first to the last of such a view.
std::optional<Interval> localSpan(const Shard &shard, const Box &box);
/// Whether there is such a view.
bool holds(const Shard &shard, const Box &box);
/// Whether a box that the shard holds is one run of one member's storage, in
/// the order of the box's elements.
bool isOneRun(const Shard &shard, const Box &box);

} // namespace dt

#endif // DT_GEOMETRY_SHARD_H
