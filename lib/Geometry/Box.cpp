//===- Box.cpp - Intervals and boxes of integer coordinates ---------------===//

#include "dt/Geometry/Box.h"

#include <algorithm>

namespace dt {

Box Box::whole(const std::vector<int64_t> &shape) {
  Box box(shape.size());
  for (unsigned dim = 0; dim < box.rank(); ++dim)
    box[dim] = {0, shape[dim]};
  return box;
}

Box Box::fromOffsetSize(const std::vector<int64_t> &offset,
                        const std::vector<int64_t> &size) {
  Box box(offset.size());
  for (unsigned dim = 0; dim < box.rank(); ++dim)
    box[dim] = {offset[dim], offset[dim] + size[dim]};
  return box;
}

bool Box::contains(const Box &other) const {
  if (other.empty())
    return true;
  for (unsigned dim = 0; dim < rank_; ++dim)
    if (!(*this)[dim].contains(other[dim]))
      return false;
  return true;
}

bool operator<(const Box &a, const Box &b) {
  if (a.rank_ != b.rank_)
    return a.rank_ < b.rank_;
  for (unsigned dim = 0; dim < a.rank_; ++dim)
    if (a[dim].lo != b[dim].lo)
      return a[dim].lo < b[dim].lo;
  for (unsigned dim = 0; dim < a.rank_; ++dim)
    if (a[dim].hi != b[dim].hi)
      return a[dim].hi < b[dim].hi;
  return false;
}

Box intersect(const Box &a, const Box &b) {
  Box result(a.rank());
  for (unsigned dim = 0; dim < a.rank(); ++dim)
    result[dim] = intersect(a[dim], b[dim]);
  return result;
}

void subtract(const Box &a, const Box &b, std::vector<Box> &out) {
  if (a.empty())
    return;
  if (!overlaps(a, b)) {
    out.push_back(a);
    return;
  }
  // Invariant: `rest` equals the part of `a` that is inside `b` in the dims
  // before `dim`, and is not yet covered by `out` or `b`.
  Box rest = a;
  for (unsigned dim = 0; dim < a.rank(); ++dim) {
    Interval inside = intersect(a[dim], b[dim]);
    Box piece = rest;
    piece[dim] = {a[dim].lo, inside.lo};
    if (!piece[dim].empty())
      out.push_back(piece);
    piece[dim] = {inside.hi, a[dim].hi};
    if (!piece[dim].empty())
      out.push_back(piece);
    rest[dim] = inside;
  }
}

namespace {

/// Splits a flat range of the dims from `dim` on; `box` holds the dims before.
/// `strides[d]` is the number of elements of one step in dim d.
void splitFrom(unsigned dim, Interval range, Box &box,
               const std::vector<int64_t> &shape,
               const std::array<int64_t, kMaxRank> &strides,
               std::vector<Box> &out) {
  if (range.empty())
    return;
  if (dim == box.rank()) {
    out.push_back(box);
    return;
  }
  int64_t stride = strides[dim];
  int64_t first = range.lo / stride;
  int64_t last = (range.hi - 1) / stride;
  auto partial = [&](int64_t index, Interval inner) {
    box[dim] = {index, index + 1};
    splitFrom(dim + 1, inner, box, shape, strides, out);
  };
  if (first == last && range.size() < stride)
    return partial(first,
                   {range.lo - first * stride, range.hi - first * stride});
  // A part of the first step, whole steps, a part of the last step.
  Interval steps = {(range.lo + stride - 1) / stride, range.hi / stride};
  if (range.lo % stride)
    partial(first, {range.lo % stride, stride});
  if (!steps.empty()) {
    box[dim] = steps;
    for (unsigned inner = dim + 1; inner < box.rank(); ++inner)
      box[inner] = {0, shape[inner]};
    out.push_back(box);
  }
  if (range.hi % stride)
    partial(last, {0, range.hi % stride});
}

/// Orders boxes so that those which differ only in `dim` stand together.
bool lessButFor(unsigned dim, const Box &a, const Box &b) {
  for (unsigned other = 0; other < a.rank(); ++other)
    if (other != dim && a[other] != b[other])
      return a[other] < b[other];
  return a[dim] < b[dim];
}

bool equalButFor(unsigned dim, const Box &a, const Box &b) {
  for (unsigned other = 0; other < a.rank(); ++other)
    if (other != dim && a[other] != b[other])
      return false;
  return true;
}

/// Merges boxes that touch in `dim`; true when any did.
bool mergeAlong(unsigned dim, std::vector<Box> &boxes) {
  std::sort(boxes.begin(), boxes.end(),
            [&](const Box &a, const Box &b) { return lessButFor(dim, a, b); });
  size_t kept = 0;
  for (size_t i = 1; i < boxes.size(); ++i) {
    Box &last = boxes[kept];
    if (equalButFor(dim, last, boxes[i]) && last[dim].hi == boxes[i][dim].lo)
      last[dim].hi = boxes[i][dim].hi;
    else
      boxes[++kept] = boxes[i];
  }
  bool merged = kept + 1 < boxes.size();
  boxes.resize(kept + 1);
  return merged;
}

} // namespace

std::vector<Box> splitFlatRange(const std::vector<int64_t> &shape,
                                Interval range) {
  std::array<int64_t, kMaxRank> strides = {};
  int64_t numElements = 1;
  for (unsigned dim = shape.size(); dim-- > 0;) {
    strides[dim] = numElements;
    numElements *= shape[dim];
  }
  std::vector<Box> out;
  Box box(shape.size());
  range = intersect(range, {0, numElements});
  splitFrom(0, range, box, shape, strides, out);
  return out;
}

std::vector<Box> mergeAdjacent(std::vector<Box> boxes) {
  boxes.erase(std::remove_if(boxes.begin(), boxes.end(),
                             [](const Box &box) { return box.empty(); }),
              boxes.end());
  if (boxes.empty())
    return boxes;
  // Inner dims first: what merges there becomes contiguous in memory.
  for (bool merged = true; merged && boxes.size() > 1;) {
    merged = false;
    for (unsigned dim = boxes.front().rank(); dim-- > 0;)
      merged |= mergeAlong(dim, boxes);
  }
  std::sort(boxes.begin(), boxes.end());
  return boxes;
}

std::string toString(const Box &box) {
  std::string text;
  for (unsigned dim = 0; dim < box.rank(); ++dim) {
    if (dim)
      text += 'x';
    text += '[' + std::to_string(box[dim].lo) + ':' +
            std::to_string(box[dim].hi) + ')';
  }
  return text.empty() ? "[]" : text;
}

} // namespace dt
