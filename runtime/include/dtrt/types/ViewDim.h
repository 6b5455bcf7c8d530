//===- ViewDim.h - One dim of a tensor that is a view -----------*- C++ -*-===//

#ifndef DTRT_TYPES_VIEWDIM_H
#define DTRT_TYPES_VIEWDIM_H

#include "dtrt/types/Interval.h"
#include "dtrt/types/Permutation.h"

#include <cstdint>
#include <vector>

namespace dtrt {

/// What a view has of one dim: disjoint intervals in the view's order, none
/// empty. What is beyond the size of the dim is padding.
struct ViewDim {
  std::vector<Interval> intervals = {};
  /// The view does not have the dim: the intervals are one index.
  bool isIndex = false;

  /// Elements along the dim.
  int64_t size() const {
    int64_t size = 0;
    for (const Interval &interval : intervals)
      size += interval.size();
    return size;
  }
  friend bool operator==(const ViewDim &a, const ViewDim &b) {
    return a.isIndex == b.isIndex && a.intervals == b.intervals;
  }
};

/// The dims that a view has, in its order: which of all each is.
inline std::vector<unsigned> ownDims(const std::vector<ViewDim> &dims,
                                     Permutation order) {
  std::vector<unsigned> out;
  for (unsigned place = 0; place < dims.size(); ++place)
    if (!dims[order[place]].isIndex)
      out.push_back(order[place]);
  return out;
}

/// How many of those dims, neighbours in the view's order, each dim of its
/// tensor is made of, row-major: [1, 2] flattens the last two of three into
/// one. Empty: each is one.
using DimParts = std::vector<uint8_t>;

/// The dims that each dim of the view's tensor is made of.
inline std::vector<std::vector<unsigned>>
flattenedDims(const std::vector<ViewDim> &dims, Permutation order,
              const DimParts &parts) {
  std::vector<std::vector<unsigned>> out;
  std::vector<unsigned> own = ownDims(dims, order);
  auto next = own.begin();
  if (parts.empty())
    for (unsigned dim : own)
      out.push_back({dim});
  for (unsigned count : parts) {
    out.emplace_back(next, next + count);
    next += count;
  }
  return out;
}

/// Whether the parts are of that many dims, and not each one of its own.
inline bool areParts(const DimParts &parts, size_t numDims) {
  size_t sum = 0;
  for (unsigned count : parts) {
    if (count == 0)
      return false;
    sum += count;
  }
  return parts.empty() || (sum == numDims && parts.size() < numDims);
}

} // namespace dtrt

#endif // DTRT_TYPES_VIEWDIM_H
