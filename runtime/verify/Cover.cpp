//===- Cover.cpp - Is every element of a shard written once? --------------===//

#include "Cover.h"

#include "dtrt/format/ShardView.h"

#include <algorithm>

namespace dtrt {

namespace {

/// Where coordinates of a dim lie in the shard's local tensor.
class LocalDim {
public:
  explicit LocalDim(const std::vector<Interval> &intervals) {
    int64_t start = 0;
    for (const Interval &interval : intervals) {
      if (interval.size() > 0)
        parts.push_back({interval, start});
      start += interval.size();
    }
    std::sort(parts.begin(), parts.end(), [](const Part &a, const Part &b) {
      return a.range.lo < b.range.lo;
    });
  }

  /// Of a coordinate that an interval holds.
  int64_t local(int64_t coordinate) const {
    auto after = std::upper_bound(
        parts.begin(), parts.end(), coordinate,
        [](int64_t at, const Part &part) { return at < part.range.lo; });
    const Part &part = *std::prev(after);
    return part.start + coordinate - part.range.lo;
  }
  /// The other way round: only for a fault.
  int64_t coordinate(int64_t local) const {
    const Part *last = &parts.front(); // that starts no later
    for (const Part &part : parts)
      if (part.start <= local &&
          (last->start > local || last->start < part.start))
        last = &part;
    return last->range.lo + local - last->start;
  }

private:
  struct Part {
    Interval range;
    int64_t start = 0;
  };
  std::vector<Part> parts;
};

class Cover {
public:
  Cover(const Family &family, const ShardRecord &shard, Steps &steps)
      : family(family), shard(shard), extents(localShape(shard)), steps(steps) {
    for (const auto &intervals : shard.dims)
      dims.emplace_back(intervals);
  }

  std::optional<CoverFault> findFault(const BoxList &boxes) {
    items.reserve(boxes.count() + 1);
    lows.reserve((boxes.count() + 1) * extents.size());
    highs.reserve((boxes.count() + 1) * extents.size());
    for (size_t box = 0; box < boxes.count(); ++box) {
      for (size_t dim = 0; dim < extents.size(); ++dim) {
        int64_t low = dims[dim].local(boxes.low(box)[dim]);
        int64_t size = boxes.high(box)[dim] - boxes.low(box)[dim];
        lows.push_back(low);
        highs.push_back(low + size);
      }
      items.push_back({0, uint32_t(box), 1});
    }
    addRegion();
    findCutDims();
    levels.resize(cut.size());
    place.resize(cut.size());
    if (cancel(0, items.data(), items.data() + items.size()))
      return std::nullopt;
    return fault();
  }

private:
  /// A corner in one dim: `sign` elements more from `at` on.
  struct Corner {
    int64_t at = 0;
    uint32_t box = 0;
    int32_t sign = 0;
  };

  int64_t low(uint32_t box, size_t dim) const {
    return lows[box * extents.size() + dim];
  }
  int64_t high(uint32_t box, size_t dim) const {
    return highs[box * extents.size() + dim];
  }

  /// All that the shard stores, counted the other way.
  void addRegion() {
    if (std::count(extents.begin(), extents.end(), 0) > 0)
      return;
    DimVector start(extents.size());
    if (!shard.flat)
      addRegionBox(start, extents);
    else if (shard.range.size() > 0)
      addRange(0, start, shard.range);
  }

  /// The inner dim at a place of the local tensor.
  unsigned dimAt(unsigned place) const {
    return family.numLeading() + shard.order[place];
  }

  void addRegionBox(const DimVector &from, const DimVector &to) {
    lows.insert(lows.end(), from.begin(), from.end());
    highs.insert(highs.end(), to.begin(), to.end());
    items.push_back({0, uint32_t(items.size()), -1});
  }

  /// A range of elements, flattened from `place` on, where the inner dims
  /// before it are at `at`: a row in part, whole rows, a row in part.
  void addRange(unsigned place, DimVector at, Interval range) {
    unsigned places = unsigned(family.shape.size());
    if (place == places) // scalars
      return addRegionBox(at, extents);
    unsigned dim = dimAt(place);
    int64_t below = 1;
    for (unsigned inner = place + 1; inner < places; ++inner)
      below *= extents[dimAt(inner)];
    int64_t row = range.lo / below, last = range.hi / below;
    auto addPart = [&](int64_t which, Interval part) {
      at[dim] = which;
      addRange(place + 1, at, part);
    };
    if (row == last && row * below < range.lo)
      return addPart(row, {range.lo % below, range.hi % below});
    if (range.lo % below > 0)
      addPart(row++, {range.lo % below, below});
    if (range.hi % below > 0)
      addPart(last, {0, range.hi % below});
    if (row == last)
      return;
    DimVector to = extents;
    for (unsigned outer = 0; outer < place; ++outer)
      to[dimAt(outer)] = at[dimAt(outer)] + 1;
    at[dim] = row;
    to[dim] = last;
    addRegionBox(at, to);
  }

  /// The dims in which not every box spans the whole.
  void findCutDims() {
    for (size_t dim = 0; dim < extents.size(); ++dim)
      if (std::any_of(items.begin(), items.end(), [&](const Corner &item) {
            return low(item.box, dim) > 0 || high(item.box, dim) < extents[dim];
          }))
        cut.push_back(dim);
  }

  bool cancel(size_t level, const Corner *first, const Corner *last);
  bool areAlike(size_t level, const Corner &a, const Corner &b) const;

  CoverFault fault() const {
    CoverFault out;
    out.times = net + 1; // the shard counts every element of it as -1
    DimVector local(extents.size());
    for (size_t level = 0; level < cut.size(); ++level)
      local[cut[level]] = place[level];
    for (size_t dim = 0; dim < extents.size(); ++dim)
      out.element.push_back(dims[dim].coordinate(local[dim]));
    return out;
  }

  const Family &family;
  const ShardRecord &shard;
  const DimVector extents;
  Steps &steps;
  std::vector<LocalDim> dims;
  std::vector<int64_t> lows, highs; // local, a number per box and dim
  std::vector<Corner> items;        // the boxes, then what they shall cover
  std::vector<size_t> cut;
  std::vector<std::vector<Corner>> levels; // corners in one cut dim each
  std::vector<int64_t> place;              // where corners do not cancel
  int64_t net = 0;
};

/// Whether two corners take each other's place in the dims that are left.
bool Cover::areAlike(size_t level, const Corner &a, const Corner &b) const {
  if (a.sign + b.sign != 0)
    return false;
  for (; level < cut.size(); ++level)
    if (low(a.box, cut[level]) != low(b.box, cut[level]) ||
        high(a.box, cut[level]) != high(b.box, cut[level]))
      return false;
  return true;
}

/// Whether the boxes of the corners, each counted by its sign, add up to
/// nothing in the cut dims from `level` on. If not, `place` is the first place
/// where they do not, and `net` what is there.
bool Cover::cancel(size_t level, const Corner *first, const Corner *last) {
  if (last - first == 2 && areAlike(level, first[0], first[1]))
    return true;
  if (level == cut.size()) {
    net = 0;
    for (; first != last; ++first)
      net += first->sign;
    return net == 0;
  }
  std::vector<Corner> &corners = levels[level];
  corners.resize(2 * (last - first));
  Corner *next = corners.data();
  for (; first != last; ++first) {
    *next++ = {low(first->box, cut[level]), first->box, first->sign};
    *next++ = {high(first->box, cut[level]), first->box, -first->sign};
  }
  if (!steps.take(corners.size()))
    return true; // who asked looks at the steps
  std::sort(corners.begin(), corners.end(),
            [](const Corner &a, const Corner &b) { return a.at < b.at; });
  for (size_t i = 0, end = 0; i < corners.size(); i = end) {
    while (end < corners.size() && corners[end].at == corners[i].at)
      ++end;
    place[level] = corners[i].at;
    if (!cancel(level + 1, &corners[i], &corners[i] + (end - i)))
      return false;
  }
  return true;
}

} // namespace

std::optional<CoverFault> findCoverFault(const Family &family,
                                         const ShardRecord &shard,
                                         const BoxList &boxes, Steps &steps) {
  return Cover(family, shard, steps).findFault(boxes);
}

} // namespace dtrt
