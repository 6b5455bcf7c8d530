//===- ShardView.cpp - Where a box lies in a shard's storage --------------===//

#include "dtrt/format/ShardView.h"

#include "dtrt/format/StayingStates.h"
#include "dtrt/format/Text.h"

#include <algorithm>

namespace dtrt {

namespace {

/// Local position where interval `range` of the shard's dim starts, when it
/// holds [lo, lo + size).
std::optional<int64_t> localStart(const std::vector<Interval> &intervals,
                                  int64_t lo, int64_t size) {
  int64_t before = 0;
  for (const Interval &interval : intervals) {
    if (interval.lo <= lo && lo <= interval.hi && size <= interval.hi - lo)
      return before + (lo - interval.lo);
    before += interval.size();
  }
  return std::nullopt;
}

Status outside(const Family &family, const DimVector &offset,
               const DimVector &size, unsigned dim) {
  return makeError("box of tensor '", tensorOf(family, offset),
                   "' is not inside one interval of its shard: dim ", dim,
                   " spans [", offset[dim], ", ", offset[dim] + size[dim], ")");
}

/// Starts of the box in local coordinates.
Status localStarts(const Family &family, const ShardRecord &shard,
                   const DimVector &offset, const DimVector &size,
                   DimVector &starts) {
  starts.resize(offset.size());
  for (unsigned dim = 0; dim < offset.size(); ++dim) {
    auto start = localStart(shard.dims[dim], offset[dim], size[dim]);
    if (!start)
      return outside(family, offset, size, dim);
    starts[dim] = *start;
  }
  return {};
}

/// First and last element of the inner box, flattened in the local tensor.
Interval flatHull(const Family &family, Permutation order,
                  const DimVector &shape, const DimVector &starts,
                  const DimVector &size) {
  Interval hull;
  for (unsigned place = 0; place < family.shape.size(); ++place) {
    unsigned dim = family.numLeading() + order[place];
    hull.lo = hull.lo * shape[dim] + starts[dim];
    hull.hi = hull.hi * shape[dim] + starts[dim] + size[dim] - 1;
  }
  ++hull.hi;
  return hull;
}

Status checkRange(const Family &family, const ShardRecord &shard,
                  const DimVector &offset, const Interval &hull) {
  if (!shard.flat || (hull.lo >= shard.range.lo && hull.hi <= shard.range.hi))
    return {};
  return makeError("box of tensor '", tensorOf(family, offset), "' covers [",
                   hull.lo, ", ", hull.hi, ") and leaves the flat range [",
                   shard.range.lo, ", ", shard.range.hi, ") of its shard");
}

int64_t product(const DimVector &sizes, unsigned from, unsigned to) {
  int64_t result = 1;
  for (unsigned i = from; i < to; ++i)
    result *= sizes[i];
  return result;
}

/// Positions of the members of a box of leading dims, row-major.
std::vector<int64_t> memberPositions(const DimVector &shape,
                                     const DimVector &starts,
                                     const DimVector &size,
                                     unsigned numLeading) {
  std::vector<int64_t> positions = {0};
  for (unsigned dim = 0; dim < numLeading; ++dim) {
    std::vector<int64_t> next;
    next.reserve(positions.size() * size[dim]);
    for (int64_t position : positions)
      for (int64_t i = 0; i < size[dim]; ++i)
        next.push_back(position * shape[dim] + starts[dim] + i);
    positions = std::move(next);
  }
  return positions;
}

} // namespace

std::optional<int64_t> checkedProduct(int64_t a, int64_t b) {
  int64_t result = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &result))
    return std::nullopt;
  return result;
}

DimVector localShape(const ShardRecord &shard) {
  DimVector shape;
  for (const auto &intervals : shard.dims) {
    int64_t extent = 0;
    for (const Interval &interval : intervals)
      extent += interval.size();
    shape.push_back(extent);
  }
  return shape;
}

int64_t numMembers(const Family &family, const ShardRecord &shard) {
  return product(localShape(shard), 0, family.numLeading());
}

int64_t elementsPerMember(const Family &family, const ShardRecord &shard) {
  if (shard.flat)
    return shard.range.size();
  return product(localShape(shard), family.numLeading(), family.rank());
}

uint64_t shardBytes(const Family &family, const ShardRecord &shard, Side side) {
  return uint64_t(numMembers(family, shard)) *
         uint64_t(elementsPerMember(family, shard)) *
         bytesPerElement(family, shard.states, side);
}

DType dtypeOf(const Family &family, unsigned state, Side side) {
  const StateInfo &info = family.states[state];
  return side == Side::Source ? info.sourceDType : info.destinationDType;
}

uint64_t storedStates(const Family &family, uint64_t states, Side side) {
  uint64_t stored = states;
  for (size_t state = 0; state < family.states.size(); ++state)
    if (side == Side::Source && !family.states[state].inSource)
      stored &= ~(uint64_t(1) << state);
  return stored;
}

uint64_t bytesPerElement(const Family &family, uint64_t states, Side side) {
  uint64_t bytes = 0;
  for (unsigned state : statesOf(storedStates(family, states, side)))
    bytes += byteWidth(dtypeOf(family, state, side));
  return bytes;
}

int64_t segmentMembers(const Family &family, const Segment &segment) {
  return product(segment.size, 0, family.numLeading());
}

int64_t segmentElements(const Family &family, const Segment &segment) {
  return product(segment.size, family.numLeading(), family.rank());
}

Segment storageSegment(const Family &family, const Segment &members,
                       Interval range) {
  Segment out = members;
  unsigned inner = family.numLeading();
  for (unsigned dim = inner; dim < family.rank(); ++dim) {
    out.offset[dim] = dim == inner ? range.lo : 0;
    out.size[dim] = dim == inner ? range.size() : 1;
  }
  return out;
}

std::vector<Segment> wholeStorage(const Family &family,
                                  const ShardRecord &shard, Side side,
                                  uint32_t index) {
  int64_t elements = elementsPerMember(family, shard);
  if (elements == 0)
    return {};
  Segment empty = {shard.family, shard.states, side, index, {}, {}};
  empty.offset.resize(family.rank());
  empty.size.resize(family.rank());
  std::vector<Segment> segments = {
      storageSegment(family, empty, {0, elements})};
  for (unsigned dim = 0; dim < family.numLeading(); ++dim) {
    std::vector<Segment> next;
    for (const Segment &segment : segments)
      for (const Interval &choice : shard.dims[dim]) {
        if (choice.size() == 0)
          continue;
        next.push_back(segment);
        next.back().offset[dim] = choice.lo;
        next.back().size[dim] = choice.size();
      }
    segments = std::move(next);
  }
  return segments;
}

Status checkStorage(const Family &family, const ShardRecord &shard,
                    const Segment &segment) {
  unsigned inner = family.numLeading();
  for (unsigned dim = 0; dim < family.rank(); ++dim) {
    int64_t lo = segment.offset[dim], size = segment.size[dim];
    if (dim < inner) {
      if (size < 1 || !localStart(shard.dims[dim], lo, size))
        return makeError("members [", lo, ", +", size, ") in dim ", dim,
                         " of '", shortened(family.name),
                         "' are not inside one interval of the shard");
      continue;
    }
    int64_t elements = dim == inner ? elementsPerMember(family, shard) : 1;
    if (lo < 0 || size < 1 || lo >= elements || size > elements - lo)
      return makeError("storage [", lo, ", +", size, ") of '",
                       shortened(family.name), "' is outside its ", elements,
                       " elements");
  }
  return {};
}

Interval storageRange(const Family &family, const Segment &segment) {
  unsigned inner = family.numLeading();
  if (family.rank() == inner)
    return {0, 1};
  return {segment.offset[inner], segment.offset[inner] + segment.size[inner]};
}

uint64_t storageBytes(const Family &family, const Segment &segment) {
  return uint64_t(segmentMembers(family, segment)) *
         uint64_t(storageRange(family, segment).size()) *
         bytesPerElement(family, segment.states, segment.side);
}

Interval storageHull(const Family &family, const ShardRecord &shard,
                     const Segment &box) {
  DimVector starts;
  if (!localStarts(family, shard, box.offset, box.size, starts).ok())
    return {};
  Interval hull =
      flatHull(family, shard.order, localShape(shard), starts, box.size);
  int64_t first = shard.flat ? shard.range.lo : 0;
  return {hull.lo - first, hull.hi - first};
}

uint64_t resolveDerived(const Family &family, uint64_t states, Side side) {
  uint64_t out = storedStates(family, states, side);
  for (unsigned state : statesOf(states & ~out))
    out |= uint64_t(1) << unsigned(family.states[state].derivedFrom);
  return out;
}

std::vector<int64_t> membersOf(const Family &family, const ShardRecord &shard,
                               const Segment &segment) {
  unsigned numLeading = family.numLeading();
  DimVector starts(numLeading);
  for (unsigned dim = 0; dim < numLeading; ++dim)
    starts[dim] =
        localStart(shard.dims[dim], segment.offset[dim], segment.size[dim])
            .value_or(0);
  return memberPositions(localShape(shard), starts, segment.size, numLeading);
}

uint64_t segmentBytes(const Family &family, const Segment &segment) {
  uint64_t bytes = 0;
  for (unsigned state : statesOf(segment.states))
    bytes += byteWidth(wireDType(family.states[state]));
  return uint64_t(product(segment.size, 0, family.rank())) * bytes;
}

uint64_t storedBytes(const Family &family, const Segment &segment) {
  return uint64_t(product(segment.size, 0, family.rank())) *
         bytesPerElement(family, segment.states, segment.side);
}

uint64_t peakBytes(const PlanCommon &common, const RankProgram &program) {
  auto bytesOf = [&](const ShardRecord &shard, Side side) {
    return shardBytes(common.families[shard.family], shard, side);
  };
  uint64_t live = program.stagingBytes;
  for (const ShardRecord &shard : program.source)
    live += bytesOf(shard, Side::Source);
  for (const ShardRecord &shard : program.destination)
    live += bytesOf(shard, Side::Destination);
  live -= stayingBytes(common, program);
  auto bytesIn = [&](const Segment &segment) {
    return storageBytes(common.families[segment.family], segment);
  };
  for (const Instruction &instruction : program.instructions)
    if (instruction.op == Opcode::Create)
      for (const Segment &segment : instruction.segments)
        live -= bytesIn(segment);
  uint64_t peak = live;
  for (const Instruction &instruction : program.instructions) {
    if (instruction.op == Opcode::Create)
      for (const Segment &segment : instruction.segments)
        live += bytesIn(segment);
    else if (instruction.op == Opcode::Release)
      for (const Segment &segment : instruction.segments)
        live -= bytesIn(segment);
    peak = std::max(peak, live);
  }
  return peak;
}

bool ShardView::contiguous() const {
  int64_t expected = 1;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    if (sizes[dim] != 1 && strides[dim] != expected)
      return false;
    expected *= sizes[dim];
  }
  return true;
}

Status checkInside(const Family &family, const ShardRecord &shard,
                   const DimVector &offset, const DimVector &size) {
  DimVector starts;
  DTRT_RETURN_IF_ERROR(localStarts(family, shard, offset, size, starts));
  if (!shard.flat)
    return {};
  return checkRange(
      family, shard, offset,
      flatHull(family, shard.order, localShape(shard), starts, size));
}

Result<ShardView> viewOf(const Family &family, const ShardRecord &shard,
                         const DimVector &offset, const DimVector &size) {
  DimVector starts;
  DTRT_RETURN_IF_ERROR(localStarts(family, shard, offset, size, starts));
  DimVector shape = localShape(shard);
  Interval hull = flatHull(family, shard.order, shape, starts, size);
  DTRT_RETURN_IF_ERROR(checkRange(family, shard, offset, hull));
  ShardView view;
  view.offset = hull.lo - (shard.flat ? shard.range.lo : 0);
  unsigned numLeading = family.numLeading();
  view.sizes.assign(size.begin() + numLeading, size.end());
  view.strides.resize(view.sizes.size());
  int64_t stride = 1;
  for (unsigned place = unsigned(view.sizes.size()); place-- > 0;) {
    unsigned dim = shard.order[place];
    view.strides[dim] = stride;
    stride *= shape[numLeading + dim];
  }
  view.members = memberPositions(shape, starts, size, numLeading);
  return view;
}

std::vector<int64_t> memberIndex(const Family &family, const ShardRecord &shard,
                                 int64_t position) {
  DimVector shape = localShape(shard);
  std::vector<int64_t> index(family.numLeading());
  for (size_t dim = index.size(); dim-- > 0;) {
    int64_t local = position % shape[dim];
    position /= shape[dim];
    for (const Interval &interval : shard.dims[dim]) {
      if (local < interval.size()) {
        index[dim] = interval.lo + local;
        break;
      }
      local -= interval.size();
    }
  }
  return index;
}

std::string tensorOf(const Family &family, const DimVector &offset) {
  return shortened(family.tensorName(offset));
}

} // namespace dtrt
