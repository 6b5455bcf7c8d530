//===- TensorView.h - A side's own tensor as a part of a param --*- C++ -*-===//
//
// Two frameworks cut one model into different tensors: one has q, k and v
// apart, the other in one tensor, group by group. A param is what both are made
// of, and a side's own tensor is a view of it: per dim a list of intervals, in
// the order in which the tensor has them.
//
//   k of 2 groups of 4 rows of q, 1 of k, 1 of v    dim 0: [4:5), [10:11)
//   expert 5 of [8, f, h]                           dim 0: index 5
//   8 rows of padding after [100, h]                dim 0: [0:100), [100:108)
//   the same, of -1 in bf16                         fill [0xbf80]
//   [in, out] of a linear layer's [out, in]         permute [1, 0]
//   [2 f] of [2, f]: gate, then up                  parts [2]
//   [2 f] of [2, f]: columns of both in turns       permute [1, 0], parts [2]
//
// Interval lists are closed under composition: the part of a view that a rank
// holds is a shard of the param, with the same storage. So what is below the
// layout level knows shards only. A dim that is made of several of the param's
// changes no element's place; what a rank has of it must be a product of
// intervals of these.
//
//===----------------------------------------------------------------------===//

#ifndef DT_GEOMETRY_TENSORVIEW_H
#define DT_GEOMETRY_TENSORVIEW_H

#include "dt/Geometry/Placement.h"
#include "dtrt/types/ViewDim.h"

#include <optional>
#include <string>
#include <vector>

namespace dt {

using dtrt::ViewDim;

struct TensorView {
  std::vector<ViewDim> dims; // of the param, without its leading dims
  /// Which dim stands at which place; an index dim, which the view does not
  /// have, at its own.
  Permutation order = {};
  /// Which of the dims that it has are one dim of its tensor.
  dtrt::DimParts parts = {};
  /// What an element of its padding holds, by state of the param: bits. Empty:
  /// zeros.
  std::vector<uint64_t> fill = {};

  /// The dims that each of its own is made of, slowest first.
  std::vector<std::vector<unsigned>> ownDims() const {
    return dtrt::flattenedDims(dims, order, parts);
  }
  /// The view's own shape, in elements; index dims are left out.
  std::vector<int64_t> shape() const;
  /// It is the param: all of its elements, each where it is, row-major, and
  /// zeros behind them.
  bool isWhole(const std::vector<int64_t> &shape) const;
};

/// The boxes of a param of `shape` (inner dims) that a view has, padding left
/// out.
std::vector<Box> regions(const TensorView &view,
                         const std::vector<int64_t> &shape);

/// What is wrong with a view of a param of `shape` (inner dims) by itself, in
/// half a sentence: "has [4:6) of dim 0 twice". Empty: nothing.
std::string problemOf(const TensorView &view,
                      const std::vector<int64_t> &shape);

/// Intervals of dims of these sizes that are flattened into one, as intervals
/// of each; nothing where they are no product of such. What follows each other
/// may be merged.
std::optional<std::vector<std::vector<Interval>>>
unflattened(const std::vector<Interval> &flat,
            const std::vector<int64_t> &sizes);

/// Shards of a view as shards of its param, of `shape` (inner dims): the same
/// storage, element for element. The view has no problem; leading dims are
/// those of the param. Padding beyond the view's own shape is carried where the
/// view has all of the param's dim in its order. Else, or where a shard's part
/// of a dim is no product of intervals of the dims that this is made of, this
/// is nullopt and `error` says so in half a sentence.
std::optional<std::vector<Holding>>
throughView(const TensorView &view, const std::vector<int64_t> &shape,
            std::vector<Holding> holdings, std::string &error);

} // namespace dt

#endif // DT_GEOMETRY_TENSORVIEW_H
