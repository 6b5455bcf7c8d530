//===- Views.cpp - Tensors of one side, in their own coordinates ----------===//

#include "dtrt/format/Views.h"

#include "PlanCheck.h"

#include "dtrt/format/ShardView.h"
#include "dtrt/format/Text.h"

#include <algorithm>

namespace dtrt {

namespace {

/// Ends of intervals stay below this, so that sums never overflow.
constexpr int64_t kMaxEnd = int64_t(1) << 61;

/// The view has all of the dim, each element at its place: what pads the dim
/// pads the view.
bool keepsPlaces(const ViewDim &dim, int64_t size) {
  return dim.intervals.size() == 1 && dim.intervals.front().lo == 0 &&
         dim.intervals.front().hi >= size;
}

/// Walks along a view's intervals. What is asked for ascends in the view.
class Walk {
public:
  Walk(const ViewDim &dim, int64_t size)
      : intervals(dim.intervals), keepsAll(keepsPlaces(dim, size)) {}

  /// Where the elements of the interval are in the view; nothing where they do
  /// not follow each other there, or are not behind what was asked for before.
  std::optional<Interval> next(Interval wanted) {
    int64_t start = wanted.lo;
    if (!keepsAll) {
      while (at < intervals.size() && !isIn(wanted.lo))
        before += intervals[at++].size();
      if (at == intervals.size())
        return std::nullopt;
      start = before + wanted.lo - intervals[at].lo;
      while (at + 1 < intervals.size() && intervals[at].hi < wanted.hi &&
             intervals[at + 1].lo == intervals[at].hi)
        before += intervals[at++].size();
      if (intervals[at].hi < wanted.hi)
        return std::nullopt;
    }
    if (start < end)
      return std::nullopt;
    end = start + wanted.size();
    return Interval{start, end};
  }

private:
  bool isIn(int64_t element) const {
    return intervals[at].lo <= element && element < intervals[at].hi;
  }

  const std::vector<Interval> &intervals;
  bool keepsAll;
  size_t at = 0;
  int64_t before = 0; // elements in the intervals before `at`
  int64_t end = 0;    // of what was asked for, in the view
};

Status checkDim(const ViewDim &dim, int64_t size) {
  std::vector<Interval> sorted = dim.intervals;
  for (const Interval &interval : sorted)
    if (interval.lo < 0 || interval.hi <= interval.lo || interval.hi > kMaxEnd)
      return makeError("has interval [", interval.lo, ", ", interval.hi, ")");
  if (sorted.empty())
    return makeError("has no interval");
  if (dim.isIndex && (sorted.size() != 1 || sorted.front().size() != 1 ||
                      sorted.front().hi > size))
    return makeError("has no single index below ", size);
  std::sort(sorted.begin(), sorted.end(),
            [](const Interval &a, const Interval &b) { return a.lo < b.lo; });
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i].lo < sorted[i - 1].hi)
      return makeError("has element ", sorted[i].lo, " twice");
  return {};
}

uint64_t times(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

void appendMerged(Interval interval, std::vector<Interval> &out) {
  if (!out.empty() && out.back().hi == interval.lo)
    out.back().hi = interval.hi;
  else if (interval.size() > 0)
    out.push_back(interval);
}

/// What a shard has of a dim, in the coordinates of the view.
std::vector<Interval> partOf(const ViewDim &dim, int64_t size,
                             const std::vector<Interval> &intervals) {
  std::vector<Interval> out;
  Walk walk(dim, size);
  for (const Interval &interval : intervals)
    if (auto place = interval.empty() ? Interval() : walk.next(interval))
      out.push_back(*place);
  return out;
}

/// What it has of the dims that are one of the tensor, of each by itself.
struct FlattenedParts {
  std::vector<int64_t> sizes;
  std::vector<std::vector<Interval>> parts; // merged where they touch

  FlattenedParts(const NamedView &view, const Family &family,
                 const ShardRecord &shard, const std::vector<unsigned> &dims) {
    for (unsigned d : dims) {
      sizes.push_back(view.dims[d].size());
      parts.emplace_back();
      for (const Interval &place : partOf(view.dims[d], family.shape[d],
                                          shard.dims[family.numLeading() + d]))
        appendMerged(place, parts.back());
    }
  }
  bool isWhole(size_t i) const {
    return parts[i] == std::vector<Interval>{{0, sizes[i]}};
  }
  /// No fewer than the intervals that these are.
  uint64_t most() const {
    uint64_t rows = 1, most = 1;
    for (size_t i = 0; i < parts.size(); ++i) {
      uint64_t held = 0;
      for (const Interval &interval : parts[i])
        held += uint64_t(interval.size());
      if (i == 0 || !isWhole(i))
        most = times(rows, parts[i].size());
      rows = times(rows, held);
    }
    return most;
  }
  /// As intervals of the one dim.
  std::vector<Interval> joined() const {
    std::vector<Interval> out = parts.front();
    for (size_t i = 1; i < parts.size(); ++i)
      out = withinRows(out, i);
    return out;
  }

private:
  std::vector<Interval> withinRows(const std::vector<Interval> &rows,
                                   size_t i) const {
    std::vector<Interval> out;
    int64_t size = sizes[i];
    for (const Interval &some : rows) {
      if (isWhole(i)) {
        appendMerged({some.lo * size, some.hi * size}, out);
        continue;
      }
      for (int64_t row = some.lo; row < some.hi; ++row)
        for (const Interval &part : parts[i])
          appendMerged({row * size + part.lo, row * size + part.hi}, out);
    }
    return out;
  }
};

/// The box that boxes along some dims are of the dim that these are together;
/// nothing where it is none.
std::optional<Interval> flattenedBox(const NamedView &view,
                                     const std::vector<unsigned> &dims,
                                     const std::vector<Interval> &places) {
  Interval out = {0, 1};
  for (unsigned d : dims) {
    int64_t size = view.dims[d].size();
    if (out.size() > 1 && places[d] != Interval{0, size})
      return std::nullopt;
    int64_t first = out.lo * size;
    out = out.size() > 1 ? Interval{first, out.hi * size}
                         : Interval{first + places[d].lo, first + places[d].hi};
  }
  return out;
}

/// A box of a view, of which `places` is along each dim, in its tensor.
OwnBox boxIn(const NamedView &view, const std::vector<Interval> &places) {
  OwnBox box = {&view, {}, {}, {}};
  auto append = [&](Interval interval) {
    box.offset.push_back(interval.lo);
    box.size.push_back(interval.size());
  };
  for (const auto &dims : flattenedDims(view.dims, view.order, view.parts)) {
    auto flat = flattenedBox(view, dims, places);
    if (!flat)
      break;
    append(*flat);
  }
  if (view.parts.empty() || box.offset.size() == view.parts.size())
    return box;
  box = {&view, {}, {}, {}};
  for (unsigned d : ownDims(view.dims, view.order)) {
    append(places[d]);
    box.reshape.push_back(view.dims[d].size());
  }
  return box;
}

/// Fails unless the tensor's dims are all of the view's, and can be counted.
Status checkParts(const NamedView &view) {
  size_t own = ownDims(view.dims, view.order).size();
  if (!areParts(view.parts, own))
    return makeError("has ", view.parts.size(), " dims made of its ", own,
                     " dims, expected these all, and two in one");
  for (const auto &dims : flattenedDims(view.dims, view.order, view.parts)) {
    uint64_t size = 1;
    for (unsigned d : dims)
      size = times(size, uint64_t(view.dims[d].size()));
    if (size > uint64_t(kMaxEnd))
      return makeError("has a dim of more than ", kMaxEnd, " elements");
  }
  return {};
}

/// Fails unless it has a value for each state, which that one's dtype has room
/// for, and not all are zeros.
Status checkFill(const Family &family, const NamedView &view) {
  if (view.fill.empty())
    return {};
  if (view.fill.size() != family.states.size())
    return makeError("has fills of ", view.fill.size(), " states, expected ",
                     family.states.size());
  uint64_t any = 0;
  for (size_t state = 0; state < view.fill.size(); ++state) {
    uint64_t bits = view.fill[state];
    int64_t width = byteWidth(dtypeOf(family, unsigned(state), view.side));
    if (width < 8 && bits >> (8 * width) != 0)
      return makeError("has the fill ", hexText(bits), " of state '",
                       shortened(family.states[state].name), "', which has ",
                       width, " bytes");
    any |= bits;
  }
  return any ? Status() : makeError("has fills of zeros alone");
}

Status checkNumbers(const Family &family, const NamedView &view) {
  size_t holes = 0;
  for (size_t at = view.name.find("{}"); at != std::string::npos;
       at = view.name.find("{}", at + 2))
    ++holes;
  if (holes != family.leading.size() ||
      view.leading.size() != family.leading.size())
    return makeError("has ", holes, " '{}' in its name and ",
                     view.leading.size(), " numbers for ",
                     family.leading.size(), " leading dims");
  for (size_t dim = 0; dim < view.leading.size(); ++dim) {
    const LeadingDim &own = view.leading[dim];
    if (own.count != family.leading[dim].count || !checkLeading(own).ok())
      return makeError("has numbers from ", own.first, " step ", own.step, ", ",
                       own.count, " of them, for ", family.leading[dim].count,
                       " members");
  }
  return {};
}

} // namespace

std::string ownTensorName(const PlanCommon &common, const ShardRecord &shard,
                          const DimVector &member) {
  if (shard.view != kNoView)
    return common.views[shard.view].tensorName(member);
  return common.families[shard.family].tensorName(member);
}

OwnPart ownPart(const PlanCommon &common, const ShardRecord &shard) {
  const Family &family = common.families[shard.family];
  unsigned leading = family.numLeading();
  if (shard.view == kNoView)
    return {family.shape, {shard.dims.begin() + leading, shard.dims.end()}};
  OwnPart out;
  const NamedView &view = common.views[shard.view];
  for (const auto &dims : flattenedDims(view.dims, view.order, view.parts)) {
    if (dims.size() == 1) {
      unsigned d = dims.front();
      out.fullShape.push_back(view.dims[d].size());
      out.dims.push_back(
          partOf(view.dims[d], family.shape[d], shard.dims[leading + d]));
      continue;
    }
    FlattenedParts held(view, family, shard, dims);
    int64_t size = 1;
    for (int64_t part : held.sizes)
      size *= part;
    out.fullShape.push_back(size);
    out.dims.push_back(held.joined());
  }
  return out;
}

uint64_t mostFlattenedIntervals(const PlanCommon &common,
                                const ShardRecord &shard) {
  const NamedView &view = common.views[shard.view];
  uint64_t sum = 0;
  for (const auto &dims : flattenedDims(view.dims, view.order, view.parts)) {
    if (dims.size() == 1)
      continue;
    uint64_t most =
        FlattenedParts(view, common.families[shard.family], shard, dims).most();
    sum += std::min(most, UINT64_MAX - sum);
  }
  return sum;
}

std::optional<OwnBox> ownBox(const PlanCommon &common, Side side,
                             uint32_t family, const DimVector &offset,
                             const DimVector &size) {
  unsigned leading = common.families[family].numLeading();
  const std::vector<int64_t> &shape = common.families[family].shape;
  for (const NamedView &view : common.views) {
    if (view.side != side || view.family != family)
      continue;
    std::vector<Interval> places;
    for (unsigned d = 0; d < view.dims.size(); ++d) {
      Interval wanted = {offset[leading + d],
                         offset[leading + d] + size[leading + d]};
      auto place = Walk(view.dims[d], shape[d]).next(wanted);
      if (!place)
        break;
      places.push_back(*place);
    }
    if (places.size() != view.dims.size())
      continue;
    return boxIn(view, places);
  }
  return std::nullopt;
}

uint64_t fillOf(const PlanCommon &common, const ShardRecord &shard,
                unsigned state) {
  if (shard.view == kNoView || common.views[shard.view].fill.empty())
    return 0;
  return common.views[shard.view].fill[state];
}

Status checkView(const std::vector<Family> &families, const NamedView &view) {
  if (view.family >= families.size())
    return makeError("is of family ", view.family, " of ", families.size());
  const Family &family = families[view.family];
  DTRT_RETURN_IF_ERROR(checkName("name", view.name));
  DTRT_RETURN_IF_ERROR(checkNumbers(family, view));
  if (view.dims.size() != family.shape.size())
    return makeError("has ", view.dims.size(), " dims, expected ",
                     family.shape.size());
  for (size_t d = 0; d < view.dims.size(); ++d) {
    Status status = checkDim(view.dims[d], family.shape[d]);
    if (!status.ok())
      return makeError("dim ", d, " ", status.message());
    if (view.dims[d].isIndex && view.order[unsigned(d)] != d)
      return makeError("has dim ", d,
                       ", of which it is one index, at another place");
  }
  DTRT_RETURN_IF_ERROR(checkParts(view));
  return checkFill(family, view);
}

Status checkInView(const PlanCommon &common, const ShardRecord &shard,
                   Side side) {
  if (shard.view == kNoView)
    return shard.order.isIdentity()
               ? Status()
               : makeError("is stored in another order than its tensor");
  if (shard.view >= common.views.size())
    return makeError("names view ", shard.view, " of ", common.views.size());
  const NamedView &view = common.views[shard.view];
  std::string name = shortened(view.name);
  if (view.family != shard.family || view.side != side)
    return makeError("names view '", name, "' of another family or side");
  if (shard.order != view.order)
    return makeError("is stored in another order than view '", name, "'");
  const Family &family = common.families[shard.family];
  for (unsigned d = 0; d < view.dims.size(); ++d) {
    Walk walk(view.dims[d], family.shape[d]);
    for (const Interval &interval : shard.dims[family.numLeading() + d])
      if (!interval.empty() && !walk.next(interval))
        return makeError("has [", interval.lo, ", ", interval.hi, ") of dim ",
                         d, ", which view '", name, "' does not have there");
  }
  return {};
}

} // namespace dtrt
