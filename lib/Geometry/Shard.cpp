//===- Shard.cpp - The part of a param that one rank holds ----------------===//

#include "dt/Geometry/Shard.h"

#include "LocalIntervals.h"

#include <tuple>

namespace dt {

namespace {

unsigned numInner(const Shard &shard) {
  return shard.rank() - shard.numLeading;
}

/// The dim of the param that stands at a place of the local tensor.
unsigned dimAt(const Shard &shard, unsigned place) {
  return shard.numLeading + shard.order[place];
}

/// The shape of one member's local tensor.
std::vector<int64_t> innerShape(const Shard &shard) {
  std::vector<int64_t> shape;
  for (unsigned place = 0; place < numInner(shard); ++place)
    shape.push_back(extentOf(shard.dims[dimAt(shard, place)]));
  return shape;
}

/// Maps boxes of local coordinates to boxes of the VPS through the shard's
/// interval lists, clipped to `bounds`, and appends them to `out`, in local
/// order.
struct RegionWalk {
  const Shard &shard;
  const Box &bounds;
  std::vector<Box> &out;
  Box local;
  Box box;

  void visit(unsigned step) {
    if (step >= shard.rank()) {
      out.push_back(box);
      return;
    }
    unsigned dim =
        step < shard.numLeading ? step : dimAt(shard, step - shard.numLeading);
    int64_t position = 0;
    for (Interval held : shard.dims[dim]) {
      Interval part = intersect(local[dim], {position, position + held.size()});
      int64_t shift = held.lo - position;
      position += held.size();
      if (part.empty())
        continue;
      box[dim] = intersect({part.lo + shift, part.hi + shift}, bounds[dim]);
      if (!box[dim].empty())
        visit(step + 1);
    }
  }
};

void appendClipped(const Shard &shard, const Box &bounds,
                   std::vector<Box> &out) {
  RegionWalk walk = {shard, bounds, out, Box(shard.rank()), Box(shard.rank())};
  for (unsigned dim = 0; dim < shard.rank(); ++dim)
    walk.local[dim] = {0, extentOf(shard.dims[dim])};
  if (!shard.range)
    return walk.visit(0);
  for (const Box &inner : splitFlatRange(innerShape(shard), *shard.range)) {
    for (unsigned place = 0; place < inner.rank(); ++place)
      walk.local[dimAt(shard, place)] = inner[place];
    walk.visit(0);
  }
}

/// Position of `wanted` in the local coordinates of a dim, or -1 when no
/// single interval has all of it.
int64_t localStart(const std::vector<Interval> &intervals, Interval wanted) {
  int64_t position = 0;
  for (Interval held : intervals) {
    if (held.contains(wanted))
      return position + wanted.lo - held.lo;
    position += held.size();
  }
  return -1;
}

} // namespace

std::vector<int64_t> Shard::localShape() const {
  std::vector<int64_t> shape;
  for (const std::vector<Interval> &intervals : dims)
    shape.push_back(extentOf(intervals));
  return shape;
}

int64_t Shard::numMembers() const {
  int64_t count = 1;
  for (unsigned dim = 0; dim < numLeading; ++dim)
    count *= extentOf(dims[dim]);
  return count;
}

int64_t Shard::elementsPerMember() const {
  if (range)
    return range->size();
  int64_t count = 1;
  for (unsigned dim = numLeading; dim < rank(); ++dim)
    count *= extentOf(dims[dim]);
  return count;
}

bool operator<(const Shard &a, const Shard &b) {
  if (a.numLeading != b.numLeading)
    return a.numLeading < b.numLeading;
  if (a.dims != b.dims)
    return a.dims < b.dims;
  return std::tie(a.range, a.view, a.order) <
         std::tie(b.range, b.view, b.order);
}

void appendRegions(const Shard &shard, const std::vector<int64_t> &shape,
                   std::vector<Box> &out) {
  appendClipped(shard, Box::whole(shape), out);
}

std::vector<Box> regions(const Shard &shard,
                         const std::vector<int64_t> &shape) {
  std::vector<Box> out;
  appendRegions(shard, shape, out);
  return out;
}

std::vector<Box> padding(const Shard &shard,
                         const std::vector<int64_t> &shape) {
  Box bounds(shard.rank());
  for (unsigned dim = 0; dim < shard.rank(); ++dim)
    for (Interval held : shard.dims[dim])
      bounds[dim].hi = held.hi > bounds[dim].hi ? held.hi : bounds[dim].hi;
  std::vector<Box> stored;
  appendClipped(shard, bounds, stored);
  std::vector<Box> out;
  for (const Box &box : stored)
    subtract(box, Box::whole(shape), out);
  return out;
}

std::optional<Interval> localSpan(const Shard &shard, const Box &box) {
  if (box.rank() != shard.rank() || box.empty())
    return std::nullopt;
  for (unsigned dim = 0; dim < shard.numLeading; ++dim)
    if (localStart(shard.dims[dim], box[dim]) < 0)
      return std::nullopt;
  int64_t first = 0, last = 0, stride = 1;
  for (unsigned place = numInner(shard); place-- > 0;) {
    unsigned dim = dimAt(shard, place);
    int64_t start = localStart(shard.dims[dim], box[dim]);
    if (start < 0)
      return std::nullopt;
    first += start * stride;
    last += (start + box[dim].size() - 1) * stride;
    stride *= extentOf(shard.dims[dim]);
  }
  if (!shard.range)
    return Interval{first, last + 1};
  if (first < shard.range->lo || last >= shard.range->hi)
    return std::nullopt;
  return Interval{first - shard.range->lo, last + 1 - shard.range->lo};
}

bool holds(const Shard &shard, const Box &box) {
  return localSpan(shard, box).has_value();
}

bool isOneRun(const Shard &shard, const Box &box) {
  for (unsigned dim = 0; dim < shard.numLeading; ++dim)
    if (box[dim].size() != 1)
      return false;
  int64_t stride = 1, expected = 1;
  unsigned next = numInner(shard); // the inner dim that came before
  for (unsigned place = numInner(shard); place-- > 0;) {
    unsigned dim = dimAt(shard, place), inner = shard.order[place];
    if (box[dim].size() > 1) {
      if (stride != expected || inner > next)
        return false;
      expected *= box[dim].size();
      next = inner;
    }
    stride *= extentOf(shard.dims[dim]);
  }
  return true;
}

std::optional<LocalView> localView(const Shard &shard, const Box &box) {
  if (box.rank() != shard.rank() || box.empty())
    return std::nullopt;
  for (unsigned dim = 0; dim < shard.numLeading; ++dim)
    if (localStart(shard.dims[dim], box[dim]) < 0)
      return std::nullopt;

  LocalView view;
  view.sizes.resize(numInner(shard));
  view.strides.resize(numInner(shard));
  int64_t stride = 1;
  int64_t last = 0; // flat index of the box's last element
  for (unsigned place = numInner(shard); place-- > 0;) {
    unsigned dim = dimAt(shard, place), inner = shard.order[place];
    int64_t start = localStart(shard.dims[dim], box[dim]);
    if (start < 0)
      return std::nullopt;
    view.sizes[inner] = box[dim].size();
    view.strides[inner] = stride;
    view.offset += start * stride;
    last += (start + box[dim].size() - 1) * stride;
    stride *= extentOf(shard.dims[dim]);
  }
  if (!shard.range)
    return view;
  if (view.offset < shard.range->lo || last >= shard.range->hi)
    return std::nullopt;
  view.offset -= shard.range->lo;
  return view;
}

} // namespace dt
