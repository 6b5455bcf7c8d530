//===- TensorView.cpp - A side's own tensor as a part of a param ----------===//

#include "dt/Geometry/TensorView.h"

#include "LocalIntervals.h"

#include <algorithm>
#include <utility>

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

/// Finds rows that all have the same within, in elements of rows that follow
/// each other.
class Rows {
public:
  explicit Rows(int64_t size) : size(size) {}

  /// Elements behind those before.
  bool take(Interval elements) {
    while (!elements.empty()) {
      int64_t row = elements.lo / size, start = elements.lo % size;
      int64_t whole = start == 0 ? elements.size() / size : 0;
      if ((whole > 0 || row != current) && !endRow())
        return false;
      if (whole > 0 && !take({row, row + whole}, {{0, size}}))
        return false;
      Interval part = {start, std::min(size, elements.hi - row * size)};
      if (whole == 0)
        appendMerged(part, ofCurrent);
      current = row;
      elements.lo += whole > 0 ? whole * size : part.size();
    }
    return true;
  }

  /// The row in part, if there is one, has all that it gets.
  bool endRow() {
    if (ofCurrent.empty())
      return true;
    return take({current, current + 1}, std::exchange(ofCurrent, {}));
  }

  std::vector<Interval> rows, within;

private:
  bool take(Interval more, const std::vector<Interval> &inside) {
    if (!rows.empty() && inside != within)
      return false;
    within = inside;
    appendMerged(more, rows);
    return true;
  }

  int64_t size;
  int64_t current = -1;
  std::vector<Interval> ofCurrent;
};

/// The first ones.
std::string textOf(const std::vector<Interval> &intervals) {
  constexpr size_t kMost = 4;
  std::string text;
  for (size_t i = 0; i < std::min(intervals.size(), kMost); ++i)
    text += (text.empty() ? "" : ", ") + textOf(intervals[i]);
  return text + (intervals.size() > kMost ? ", ..." : "");
}

std::string textOf(const std::vector<int64_t> &sizes, const char *between) {
  std::string text;
  for (int64_t size : sizes)
    text += (text.empty() ? "" : between) + std::to_string(size);
  return text;
}

/// Carries a shard of a view to its param.
class Carrier {
public:
  Carrier(const TensorView &view, const std::vector<int64_t> &shape)
      : view(view), shape(shape), own(view.ownDims()) {}

  /// What is wrong, in half a sentence; empty: nothing.
  std::string carry(Shard &shard) {
    auto leading = shard.dims.begin() + shard.numLeading;
    std::vector<std::vector<Interval>> inner(leading, shard.dims.end());
    shard.dims.erase(leading, shard.dims.end());
    for (const ViewDim &dim : view.dims)
      shard.dims.push_back(dim.isIndex ? dim.intervals
                                       : std::vector<Interval>());
    shard.order = view.order;
    for (unsigned i = 0; i < own.size(); ++i) {
      std::string problem = carryDim(i, inner[i], shard);
      if (!problem.empty())
        return problem;
    }
    return "";
  }

private:
  /// What the shard has of own dim `i`, to the dims that this is made of.
  std::string carryDim(unsigned i, const std::vector<Interval> &intervals,
                       Shard &shard) {
    std::vector<int64_t> sizes;
    for (unsigned dim : own[i])
      sizes.push_back(view.dims[dim].size());
    auto parts = sizes.size() == 1
                     ? std::vector<std::vector<Interval>>{intervals}
                     : unflattened(intervals, sizes);
    if (!parts)
      return "has " + textOf(intervals) + " of dim " + std::to_string(i) +
             ", which is not the same part of each row of its " +
             textOf(sizes, " x ") + " elements";
    for (unsigned part = 0; part < sizes.size(); ++part) {
      unsigned dim = own[i][part];
      auto carried = throughDim(view.dims[dim], shape[dim], (*parts)[part]);
      if (!carried)
        return "pads dim " + std::to_string(i) +
               " of a view that does not have all of the param's in its order";
      shard.dims[shard.numLeading + dim] = std::move(*carried);
    }
    return "";
  }

  const TensorView &view;
  const std::vector<int64_t> &shape;
  std::vector<std::vector<unsigned>> own;
};

} // namespace

std::vector<int64_t> TensorView::shape() const {
  std::vector<int64_t> out;
  for (const std::vector<unsigned> &own : ownDims()) {
    out.push_back(1);
    for (unsigned dim : own)
      out.back() *= dims[dim].size();
  }
  return out;
}

bool TensorView::isWhole(const std::vector<int64_t> &shape) const {
  for (unsigned d = 0; d < dims.size(); ++d)
    if (dims[d].isIndex ||
        dims[d].intervals != std::vector<Interval>{{0, shape[d]}})
      return false;
  return order.isIdentity() && parts.empty() && fill.empty();
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
  size_t numOwn = dtrt::ownDims(view.dims, view.order).size();
  if (!dtrt::areParts(view.parts, numOwn))
    return "has dims of [" +
           textOf(std::vector<int64_t>(view.parts.begin(), view.parts.end()),
                  ", ") +
           "] of its " + std::to_string(numOwn) + " dims";
  return "";
}

std::optional<std::vector<std::vector<Interval>>>
unflattened(const std::vector<Interval> &flat,
            const std::vector<int64_t> &sizes) {
  std::vector<std::vector<Interval>> out;
  std::vector<Interval> rest = flat;
  int64_t below = 1;
  for (int64_t size : sizes)
    below *= size;
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    below /= sizes[i];
    Rows rows(below);
    for (Interval interval : rest)
      if (!rows.take(interval))
        return std::nullopt;
    if (!rows.endRow())
      return std::nullopt;
    rest = rows.rows.empty() ? std::vector<Interval>{{0, below}}
                             : std::move(rows.within);
    out.push_back(std::move(rows.rows));
  }
  out.push_back(std::move(rest));
  return out;
}

std::optional<std::vector<Holding>>
throughView(const TensorView &view, const std::vector<int64_t> &shape,
            std::vector<Holding> holdings, std::string &error) {
  Carrier carrier(view, shape);
  for (Holding &holding : holdings) {
    error = carrier.carry(holding.shard);
    if (!error.empty())
      return std::nullopt;
  }
  return holdings;
}

} // namespace dt
