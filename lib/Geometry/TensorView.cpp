//===- TensorView.cpp - A side's own tensor as a part of a param ----------===//

#include "dt/Geometry/TensorView.h"

#include "LocalIntervals.h"

#include <algorithm>

namespace dt {

namespace {

/// The positions `local` of a dim's intervals, appended to `out`. What follows
/// each other in the param but not in the view stays apart, so that a piece is
/// one box of the view too.
void appendPart(const std::vector<Interval> &intervals, Interval local,
                std::vector<Interval> &out) {
  std::vector<Interval> parts;
  int64_t position = 0;
  for (Interval interval : intervals) {
    Interval part = intersect(local, {position, position + interval.size()});
    int64_t shift = interval.lo - position;
    if (!part.empty())
      appendMerged({part.lo + shift, part.hi + shift}, parts);
    position += interval.size();
  }
  out.insert(out.end(), parts.begin(), parts.end());
}

std::string textOf(Interval interval) {
  return "[" + std::to_string(interval.lo) + ":" + std::to_string(interval.hi) +
         ")";
}

std::string problemOf(const ViewDim &dim) {
  std::vector<Interval> sorted = dim.intervals;
  for (Interval interval : sorted)
    if (interval.lo < 0 || interval.empty())
      return "has " + textOf(interval);
  if (sorted.empty())
    return "has nothing";
  if (dim.isIndex && (sorted.size() != 1 || sorted.front().size() != 1))
    return "has no single index";
  std::sort(sorted.begin(), sorted.end(),
            [](Interval a, Interval b) { return a.lo < b.lo; });
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i].lo < sorted[i - 1].hi)
      return "has " +
             textOf({sorted[i].lo, std::min(sorted[i].hi, sorted[i - 1].hi)}) +
             " twice";
  return "";
}

/// Carries a shard's intervals of one of the view's dims to the param's, whose
/// size is `paramSize`.
std::optional<std::vector<Interval>>
throughDim(const ViewDim &dim, int64_t paramSize,
           const std::vector<Interval> &own) {
  int64_t size = dim.size();
  bool keepsPlaces =
      size >= paramSize && dim.intervals == std::vector<Interval>{{0, size}};
  std::vector<Interval> out;
  for (Interval interval : own) {
    if (interval.hi <= size)
      appendPart(dim.intervals, interval, out);
    else if (keepsPlaces)
      out.push_back(interval);
    else
      return std::nullopt;
  }
  return out;
}

bool carry(const TensorView &view, const std::vector<int64_t> &shape,
           Shard &shard, std::string &error) {
  std::vector<std::vector<Interval>> dims(
      shard.dims.begin(), shard.dims.begin() + shard.numLeading);
  for (const ViewDim &dim : view.dims)
    dims.push_back(dim.isIndex ? dim.intervals : std::vector<Interval>());
  std::vector<unsigned> own = dtrt::ownDims(view.dims, view.order);
  for (unsigned i = 0; i < own.size(); ++i) {
    auto carried = throughDim(view.dims[own[i]], shape[own[i]],
                              shard.dims[shard.numLeading + i]);
    if (!carried) {
      error = "pads dim " + std::to_string(i) +
              " of a view that does not have all of the param's in its order";
      return false;
    }
    dims[shard.numLeading + own[i]] = std::move(*carried);
  }
  shard.dims = std::move(dims);
  shard.order = view.order;
  return true;
}

} // namespace

std::vector<int64_t> TensorView::shape() const {
  std::vector<int64_t> out;
  for (unsigned dim : dtrt::ownDims(dims, order))
    out.push_back(dims[dim].size());
  return out;
}

bool TensorView::isWhole(const std::vector<int64_t> &shape) const {
  for (unsigned d = 0; d < dims.size(); ++d)
    if (dims[d].isIndex ||
        dims[d].intervals != std::vector<Interval>{{0, shape[d]}})
      return false;
  return order.isIdentity();
}

std::vector<Box> regions(const TensorView &view,
                         const std::vector<int64_t> &shape) {
  Shard all;
  for (const ViewDim &dim : view.dims)
    all.dims.push_back(dim.intervals);
  return regions(all, shape);
}

std::string problemOf(const TensorView &view,
                      const std::vector<int64_t> &shape) {
  if (view.dims.size() != shape.size())
    return "has " + std::to_string(view.dims.size()) + " dims, expected " +
           std::to_string(shape.size());
  for (unsigned d = 0; d < shape.size(); ++d) {
    std::string problem = problemOf(view.dims[d]);
    if (problem.empty() && view.dims[d].isIndex &&
        view.dims[d].intervals.front().hi > shape[d])
      problem = "has " + textOf(view.dims[d].intervals.front());
    if (!problem.empty())
      return problem + " of dim " + std::to_string(d);
    if (view.dims[d].isIndex && view.order[d] != d)
      return "has dim " + std::to_string(d) + ", of which it is one index, " +
             "at another place";
  }
  return "";
}

std::optional<std::vector<Holding>>
throughView(const TensorView &view, const std::vector<int64_t> &shape,
            std::vector<Holding> holdings, std::string &error) {
  for (Holding &holding : holdings)
    if (!carry(view, shape, holding.shard, error))
      return std::nullopt;
  return holdings;
}

} // namespace dt
