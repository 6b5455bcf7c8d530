//===- ShardBoxes.cpp - A shard as boxes of its family --------------------===//

#include "ShardBoxes.h"

#include "dtrt/format/ShardView.h"

#include <algorithm>

namespace dtrt {

namespace {

class Boxes {
public:
  Boxes(const Family &family, const ShardRecord &shard, BoxList &out,
        Steps &steps)
      : family(family), shard(shard), out(out), steps(steps),
        extents(localShape(shard)), local(family.rank()), pieces(family.rank()),
        offset(family.rank()), size(family.rank()) {}

  void append() {
    for (unsigned dim = 0; dim < family.rank(); ++dim)
      local[dim] = {0, extents[dim]};
    for (unsigned dim = 0; dim < family.numLeading(); ++dim)
      if (!take(dim))
        return;
    if (shard.flat)
      appendRange(0, shard.range);
    else
      appendLocal(0);
  }

private:
  /// The inner dim at a place of the local tensor.
  unsigned dimAt(unsigned place) const {
    return family.numLeading() + shard.order[place];
  }

  /// The elements `range` of the local tensor's places from `place` on, in
  /// order.
  void appendRange(unsigned place, Interval range) {
    if (range.size() == 0 || steps.spent())
      return;
    unsigned places = unsigned(family.shape.size());
    if (place == places)
      return appendLocal(place); // a scalar
    unsigned dim = dimAt(place);
    int64_t below = 1;
    for (unsigned p = place + 1; p < places; ++p)
      below *= extents[dimAt(p)];
    Interval rows = {range.lo / below, range.hi / below};
    int64_t head = range.lo % below, tail = range.hi % below;
    auto part = [&](int64_t row, Interval inside) {
      local[dim] = {row, row + 1};
      if (take(dim))
        appendRange(place + 1, inside);
    };
    if (rows.lo == rows.hi)
      return part(rows.lo, {head, tail});
    if (head > 0)
      part(rows.lo++, {head, below});
    if (rows.size() > 0) {
      local[dim] = rows;
      for (unsigned p = place + 1; p < places; ++p)
        local[dimAt(p)] = {0, extents[dimAt(p)]};
      if (take(dim))
        appendLocal(place + 1);
    }
    if (tail > 0)
      part(rows.hi, {0, tail});
  }

  /// Local extents at the places from `place` on; those before have been taken.
  void appendLocal(unsigned place) {
    for (; place < family.shape.size(); ++place)
      if (!take(dimAt(place)))
        return;
    appendProduct(0);
  }

  /// Where a dim's local extent lies in the family; false: in padding.
  bool take(unsigned dim) {
    bool leading = dim < family.numLeading();
    int64_t limit = leading ? family.leading[dim].count
                            : family.shape[dim - family.numLeading()];
    pieces[dim].clear();
    int64_t before = 0;
    for (const Interval &interval : shard.dims[dim]) {
      Interval piece = {
          interval.lo + std::max<int64_t>(local[dim].lo - before, 0),
          std::min({interval.hi, interval.lo + local[dim].hi - before, limit})};
      if (piece.size() > 0)
        pieces[dim].push_back(piece);
      before += interval.size();
    }
    return !pieces[dim].empty();
  }

  void appendProduct(unsigned dim) {
    if (dim == family.rank()) {
      if (steps.take())
        out.add(offset, size);
      return;
    }
    for (const Interval &piece : pieces[dim]) {
      if (steps.spent())
        return;
      offset[dim] = piece.lo;
      size[dim] = piece.size();
      appendProduct(dim + 1);
    }
  }

  const Family &family;
  const ShardRecord &shard;
  BoxList &out;
  Steps &steps;
  DimVector extents;
  std::vector<Interval> local;               // of each dim, elements
  std::vector<std::vector<Interval>> pieces; // the same, in the family
  DimVector offset, size;
};

} // namespace

void appendBoxes(const Family &family, const ShardRecord &shard, BoxList &out,
                 Steps &steps) {
  Boxes(family, shard, out, steps).append();
}

} // namespace dtrt
