//===- PlanCheck.cpp - Bounds of everything a plan says -------------------===//
//
// Whether the plan moves the right bytes in the right order is Verifier.cpp's
// question.
//
//===----------------------------------------------------------------------===//

#include "PlanCheck.h"

#include "dtrt/format/Collectives.h"

#include "dtrt/format/ShardView.h"
#include "dtrt/format/Text.h"
#include "dtrt/format/Views.h"

#include <algorithm>
#include <cmath>

namespace dtrt {

namespace {

/// Element counts and byte counts stay below this, so that sums of two never
/// overflow.
constexpr int64_t kMaxBytes = int64_t(1) << 61;

/// Fails unless the product of any of the sizes, times the widest element, is
/// at most kMaxBytes. So a dim without elements counts as one: the strides and
/// members beside it are computed all the same.
Status checkBytes(const DimVector &sizes, int64_t elementBytes) {
  int64_t total = elementBytes;
  for (int64_t size : sizes) {
    auto product = checkedProduct(total, std::max<int64_t>(size, 1));
    if (!product || *product > kMaxBytes)
      return makeError("size ", size, " makes the byte count overflow");
    total = *product;
  }
  return {};
}

int64_t widestElement(const Family &family) {
  int64_t source = 0, destination = 0;
  for (const StateInfo &state : family.states) {
    source += byteWidth(state.sourceDType);
    destination += byteWidth(state.destinationDType);
  }
  return std::max(source, destination);
}

Status checkState(const Family &family, size_t index) {
  const StateInfo &state = family.states[index];
  auto fails = [&](auto... what) {
    return makeError("state '", shortened(state.name), "' ", what...);
  };
  if (!canConvert(state.sourceDType, state.destinationDType))
    return fails("cannot change from ", dtypeName(state.sourceDType), " to ",
                 dtypeName(state.destinationDType));
  if (!state.inSource && !state.inDestination)
    return fails("is on neither side");
  if (state.derivedFrom == -1)
    return state.inSource
               ? Status()
               : fails("is not in the source and made from no other state");
  if (state.derivedFrom < 0 ||
      size_t(state.derivedFrom) >= family.states.size() ||
      size_t(state.derivedFrom) == index)
    return fails("is made from state ", state.derivedFrom, " of ",
                 family.states.size());
  const StateInfo &from = family.states[size_t(state.derivedFrom)];
  std::string origin = shortened(from.name);
  if (!from.inSource)
    return fails("is made from '", origin, "', which the source lacks");
  if (from.derivedFrom != -1)
    return fails("is made from '", origin, "', which is itself made from ",
                 "another");
  if (!state.inSource && state.sourceDType != from.sourceDType)
    return fails("is read as ", dtypeName(state.sourceDType), ", but '", origin,
                 "' is ", dtypeName(from.sourceDType));
  if (!canConvert(from.destinationDType, state.destinationDType))
    return fails("cannot be made from ", dtypeName(from.destinationDType));
  return {};
}

Status checkStates(const Family &family) {
  if (family.states.empty() || family.states.size() > 64)
    return makeError("found ", family.states.size(),
                     " states, expected 1 to 64");
  std::vector<std::string_view> names;
  for (const StateInfo &state : family.states) {
    DTRT_RETURN_IF_ERROR(checkName("name of a state", state.name));
    if (state.name.empty())
      return makeError("a state has no name");
    names.push_back(state.name);
  }
  std::sort(names.begin(), names.end());
  auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    return makeError("has state '", shortened(*twice), "' twice");
  for (size_t i = 0; i < family.states.size(); ++i)
    DTRT_RETURN_IF_ERROR(checkState(family, i));
  return {};
}

/// A list is of as many numbers as there are members, and begins with the
/// first. All lists of a plan are sorted once, whatever they hold.
Status checkList(const LeadingDim &dim) {
  if (dim.step != 0 || int64_t(dim.list.size()) != dim.count ||
      dim.list.front() != dim.first)
    return makeError("leading dim from ", dim.first, " step ", dim.step,
                     " of count ", dim.count, " lists ", dim.list.size(),
                     " numbers from ", dim.list.front());
  std::vector<int64_t> sorted = dim.list;
  std::sort(sorted.begin(), sorted.end());
  auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    return makeError("leading dim lists number ", *twice, " twice");
  return {};
}
} // namespace

Status checkLeading(const LeadingDim &dim) {
  if (!dim.list.empty())
    return checkList(dim);
  int64_t last = 0;
  if (dim.count < 1 || (dim.step == 0 && dim.count > 1) ||
      __builtin_mul_overflow(dim.step, dim.count, &last) ||
      __builtin_add_overflow(dim.first, last, &last))
    return makeError("leading dim from ", dim.first, " step ", dim.step,
                     " has count ", dim.count);
  return {};
}

namespace {

Status checkFamily(const Family &family) {
  size_t holes = 0;
  for (size_t at = family.name.find("{}"); at != std::string::npos;
       at = family.name.find("{}", at + 2))
    ++holes;
  if (holes != family.leading.size())
    return makeError("name has ", holes, " '{}' for ", family.leading.size(),
                     " leading dims");
  DTRT_RETURN_IF_ERROR(checkName("name of the storage", family.storage));
  DTRT_RETURN_IF_ERROR(checkStates(family));
  std::vector<int64_t> sizes = family.shape;
  for (const LeadingDim &dim : family.leading) {
    DTRT_RETURN_IF_ERROR(checkLeading(dim));
    sizes.push_back(dim.count);
  }
  for (int64_t size : family.shape)
    if (size < 0)
      return makeError("found size ", size, ", expected at least 0");
  return checkBytes(sizes, widestElement(family));
}

Status checkWorld(const char *side, int64_t world,
                  std::vector<uint32_t> devices) {
  if (world < 0 || uint64_t(world) != devices.size())
    return makeError(side, " world has ", world, " ranks but ", devices.size(),
                     " devices");
  std::sort(devices.begin(), devices.end());
  auto twice = std::adjacent_find(devices.begin(), devices.end());
  if (twice != devices.end())
    return makeError(side, " world lists device ", *twice, " twice");
  return {};
}

/// Devices of the two worlds, ascending, at least two.
Status checkMemberSet(const std::vector<uint32_t> &members,
                      const std::vector<uint32_t> &devices) {
  if (members.size() < 2)
    return makeError("has ", members.size(), " devices, expected two or more");
  for (size_t i = 0; i < members.size(); ++i) {
    if (i > 0 && members[i] <= members[i - 1])
      return makeError("has device ", members[i], " after ", members[i - 1],
                       ", expected ascending devices");
    if (!std::binary_search(devices.begin(), devices.end(), members[i]))
      return makeError("has device ", members[i], ", which is in no world");
  }
  return {};
}

Status checkMemberSets(const PlanCommon &common) {
  if (common.memberSets.empty())
    return {};
  if (common.summary.mode == MemoryMode::Flat)
    return makeError("there are member sets in a plan of mode flat");
  if (common.cluster.collectives == CollectiveChoice::Messages)
    return makeError("there are member sets in a plan of messages alone");
  std::vector<uint32_t> devices = common.sourceDevices;
  devices.insert(devices.end(), common.destinationDevices.begin(),
                 common.destinationDevices.end());
  std::sort(devices.begin(), devices.end());
  for (size_t i = 0; i < common.memberSets.size(); ++i) {
    Status status = checkMemberSet(common.memberSets[i], devices);
    if (!status.ok())
      return makeError("member set ", i, " ", status.message());
    if (i > 0 && common.memberSets[i] <= common.memberSets[i - 1])
      return makeError("member set ", i, " does not come after that before it");
  }
  return {};
}

Status checkHash(const char *what, const std::string &hash) {
  auto isHex = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  };
  if (hash.empty() ||
      (hash.size() == 32 && std::all_of(hash.begin(), hash.end(), isHex)))
    return {};
  return makeError(what, " is not 32 lower-case hex digits");
}

/// Neither infinite nor a NaN, and in [least, most].
Status checkNumber(const char *what, double number, double least, double most) {
  if (number >= least && number <= most) // false for a NaN
    return {};
  return makeError(what, " is ", number, ", expected ", least, " to ", most);
}

/// What a rate may be, so that no time of a plan is infinite: from a byte per
/// second to far more than any machine has.
constexpr double kLeastGBps = 1e-9, kMostGBps = 1e12;
constexpr double kMostMicroseconds = 1e15;
constexpr double kMostSeconds = 1e300;
constexpr int64_t kMostDevices = int64_t(1) << 32;

Status checkLink(const Link &link) {
  for (int64_t end : {link.from.index, link.to.index})
    if (end < 0 || end >= kMostDevices)
      return makeError("a link of the cluster has end ", end);
  return checkNumber("rate of a link of the cluster", link.GBps, kLeastGBps,
                     kMostGBps);
}

Status checkCluster(const Cluster &cluster) {
  if (cluster.devicesPerNode < 1 || cluster.devicesPerNode > kMostDevices)
    return makeError("cluster has ", cluster.devicesPerNode,
                     " devices per node, expected 1 to ", kMostDevices);
  if (cluster.devicesPerNic < 1 ||
      cluster.devicesPerNode % cluster.devicesPerNic != 0)
    return makeError("cluster has ", cluster.devicesPerNic,
                     " devices per NIC, expected a divisor of ",
                     cluster.devicesPerNode);
  DTRT_RETURN_IF_ERROR(checkNumber("rate inside a node", cluster.intraNodeGBps,
                                   kLeastGBps, kMostGBps));
  DTRT_RETURN_IF_ERROR(checkNumber("rate between nodes", cluster.interNodeGBps,
                                   kLeastGBps, kMostGBps));
  DTRT_RETURN_IF_ERROR(
      checkNumber("rate of packs", cluster.packGBps, kLeastGBps, kMostGBps));
  DTRT_RETURN_IF_ERROR(
      checkNumber("latency", cluster.latencyUs, 0, kMostMicroseconds));
  DTRT_RETURN_IF_ERROR(checkNumber("start of a pack", cluster.packLaunchUs, 0,
                                   kMostMicroseconds));
  DTRT_RETURN_IF_ERROR(
      checkNumber("launch of a wave", cluster.launchUs, 0, kMostMicroseconds));
  for (double us : {cluster.multicastUs, cluster.copyEngineUs})
    DTRT_RETURN_IF_ERROR(
        checkNumber("time of a library's call", us, 0, kMostMicroseconds));
  if (cluster.channelsPerPeer < 0 || cluster.channelsPerPeer > kMostChannels)
    return makeError("cluster has ", cluster.channelsPerPeer,
                     " channels per peer, expected 0 to ", kMostChannels);
  for (double rate : {cluster.intraChannelGBps, cluster.interChannelGBps})
    DTRT_RETURN_IF_ERROR(
        checkNumber("rate of a channel", rate, kLeastGBps, kMostGBps));
  for (const Link &link : cluster.links)
    DTRT_RETURN_IF_ERROR(checkLink(link));
  return {};
}

Status checkCompression(const Compression &compression) {
  if (compression.belowGBps == 0 && compression.blockBytes == 0)
    return {};
  DTRT_RETURN_IF_ERROR(checkNumber("rate below which links are compressed",
                                   compression.belowGBps, kLeastGBps,
                                   kMostGBps));
  if (compression.blockBytes < Compression::kLeastBlock ||
      compression.blockBytes > Compression::kMostBlock)
    return makeError("blocks of ", compression.blockBytes,
                     " bytes are compressed, expected ",
                     Compression::kLeastBlock, " to ", Compression::kMostBlock);
  return {};
}

Status checkSummary(const PlanSummary &summary) {
  // Memory of one device, which is added to: sums stay in range.
  for (auto [what, bytes] :
       {std::make_pair("staging limit", summary.stagingLimit),
        {"device limit", summary.deviceLimit},
        {"device peak", summary.devicePeak}})
    if (bytes > 2 * uint64_t(kMaxBytes))
      return makeError(what, " of ", bytes, " bytes");
  DTRT_RETURN_IF_ERROR(
      checkNumber("predicted time", summary.timePredicted, 0, kMostSeconds));
  DTRT_RETURN_IF_ERROR(checkNumber("lower bound of the time",
                                   summary.timeLowerBound, 0, kMostSeconds));
  DTRT_RETURN_IF_ERROR(checkNumber("time without relays",
                                   summary.timeWithoutRelays, 0, kMostSeconds));
  if (summary.bytesRelayed == 0 && summary.timeWithoutRelays > 0)
    return makeError("a time without relays where nothing is relayed");
  for (const std::string *proof :
       {&summary.coverage, &summary.deadlockFree, &summary.memorySafe})
    if (!proof->empty() && *proof != "proved")
      return makeError("a proof is neither empty nor 'proved'");
  DTRT_RETURN_IF_ERROR(checkName("name of the solver", summary.solver));
  if (summary.solver.empty() && summary.solverSteps > 0)
    return makeError(summary.solverSteps, " steps of a solver without a name");
  return checkName("name of the verifier", summary.verifier);
}

/// Intervals of a dim: within [0, limit], disjoint in any order; one that is
/// empty stands alone.
Status checkIntervals(std::vector<Interval> intervals, int64_t limit) {
  for (const Interval &interval : intervals) {
    if (interval.lo < 0 || interval.hi < interval.lo || interval.hi > limit)
      return makeError("interval [", interval.lo, ", ", interval.hi,
                       ") is outside [0, ", limit, ")");
    if (interval.size() == 0 && intervals.size() > 1)
      return makeError("interval [", interval.lo, ", ", interval.hi,
                       ") is empty, expected elements in each of several");
  }
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval &a, const Interval &b) { return a.lo < b.lo; });
  for (size_t i = 1; i < intervals.size(); ++i)
    if (intervals[i].lo < intervals[i - 1].hi)
      return makeError("intervals [", intervals[i - 1].lo, ", ",
                       intervals[i - 1].hi, ") and [", intervals[i].lo, ", ",
                       intervals[i].hi, ") overlap");
  return {};
}

/// What is not in the source lies with what it is made from.
Status checkDerivedStates(const Family &family, const ShardRecord &shard) {
  for (unsigned state : statesOf(shard.states)) {
    const StateInfo &info = family.states[state];
    if (!info.inSource && !(shard.states >> info.derivedFrom & 1))
      return makeError("has state '", shortened(info.name), "', but not '",
                       shortened(family.states[size_t(info.derivedFrom)].name),
                       "', which it is made from");
  }
  return {};
}

/// What is not in the destination is on none of its shards.
Status checkDropped(const Family &family, const ShardRecord &shard) {
  for (unsigned state : statesOf(shard.states))
    if (!family.states[state].inDestination)
      return makeError("has state '", shortened(family.states[state].name),
                       "', which the destination lacks");
  return {};
}

/// The mask of all states of a family.
uint64_t allStates(const Family &family) {
  return family.states.size() == 64 ? ~uint64_t(0)
                                    : (uint64_t(1) << family.states.size()) - 1;
}

Status checkShardOf(const Family &family, const ShardRecord &shard) {
  uint64_t known = allStates(family);
  if (shard.states == 0 || (shard.states & ~known))
    return makeError("state mask ", shard.states, " is not within ", known);
  if (shard.dims.size() != family.rank())
    return makeError("found ", shard.dims.size(), " dims, expected ",
                     family.rank());
  for (unsigned dim = 0; dim < family.rank(); ++dim) {
    bool leading = dim < family.numLeading();
    int64_t limit = leading ? family.leading[dim].count : kMaxBytes;
    DTRT_RETURN_IF_ERROR(checkIntervals(shard.dims[dim], limit));
  }
  DimVector shape = localShape(shard);
  DTRT_RETURN_IF_ERROR(checkBytes(shape, widestElement(family)));
  if (!shard.flat)
    return {};
  int64_t elements = 1;
  for (unsigned dim = family.numLeading(); dim < family.rank(); ++dim)
    elements *= shape[dim];
  if (shard.range.lo < 0 || shard.range.hi < shard.range.lo ||
      shard.range.hi > elements)
    return makeError("flat range [", shard.range.lo, ", ", shard.range.hi,
                     ") is outside [0, ", elements, ")");
  return {};
}

class ProgramChecker {
public:
  ProgramChecker(const PlanCommon &common, const std::vector<uint32_t> &devices,
                 const RankProgram &program, ReadBudget &budget)
      : common(common), devices(devices), program(program), budget(budget) {}

  Status check() {
    DTRT_RETURN_IF_ERROR(checkRank("source", program.sourceRank,
                                   common.sourceDevices, program.source));
    DTRT_RETURN_IF_ERROR(checkRank("destination", program.destinationRank,
                                   common.destinationDevices,
                                   program.destination));
    DTRT_RETURN_IF_ERROR(checkShards("source", program.source, Side::Source));
    DTRT_RETURN_IF_ERROR(
        checkShards("destination", program.destination, Side::Destination));
    if (program.stagingBytes > uint64_t(kMaxBytes))
      return makeError("staging of ", program.stagingBytes, " bytes");
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction &instruction = program.instructions[i];
      Status status = checkInstruction(instruction);
      if (!status.ok())
        return makeError("instruction ", i, " (", opcodeName(instruction.op),
                         "): ", status.message());
    }
    if (besideWave >= 0)
      return makeError("copies beside wave ", besideWave,
                       ", which the device has no part in");
    return {};
  }

private:
  Status checkRank(const char *side, int64_t rank,
                   const std::vector<uint32_t> &world,
                   const std::vector<ShardRecord> &shards) {
    if (rank == -1 && shards.empty())
      return {};
    if (rank >= 0 && uint64_t(rank) < world.size() &&
        world[rank] == program.device)
      return {};
    return makeError(side, " rank ", rank, " with ", shards.size(),
                     " shards does not fit the ", side, " world of ",
                     world.size());
  }

  Status checkShards(const char *side, const std::vector<ShardRecord> &shards,
                     Side which) {
    uint64_t total = 0;
    for (size_t i = 0; i < shards.size(); ++i) {
      const ShardRecord &shard = shards[i];
      if (shard.family >= common.families.size())
        return makeError(side, " shard ", i, " names family ", shard.family,
                         " of ", common.families.size());
      const Family &family = common.families[shard.family];
      Status status = checkShardOf(family, shard);
      if (status.ok())
        status = which == Side::Source ? checkDerivedStates(family, shard)
                                       : checkDropped(family, shard);
      if (status.ok())
        status = checkInView(shard, which);
      if (status.ok())
        status = chargeMembers(family, shard);
      if (!status.ok())
        return makeError(side, " shard ", i, " of '", shortened(family.name),
                         "': ", status.message());
      total += shardBytes(family, shard, which);
      if (total > uint64_t(kMaxBytes))
        return makeError(side, " shards hold ", total, " bytes");
    }
    return {};
  }

  /// Looks through the intervals of the view.
  Status checkInView(const ShardRecord &shard, Side side) {
    if (shard.view >= common.views.size())
      return dtrt::checkInView(common, shard, side);
    uint64_t looks = 0;
    for (const ViewDim &dim : common.views[shard.view].dims)
      looks += dim.intervals.size();
    DTRT_RETURN_IF_ERROR(
        budget.charge("lookups in intervals of views", looks, kLookCost));
    DTRT_RETURN_IF_ERROR(dtrt::checkInView(common, shard, side));
    if (common.views[shard.view].parts.empty())
      return {};
    return budget.charge("intervals of flattened dims",
                         mostFlattenedIntervals(common, shard),
                         sizeof(Interval));
  }

  /// Its buffers, and the boxes of storage that its members are. A dim without
  /// members counts as one: the numbers beside it are written all the same.
  Status chargeMembers(const Family &family, const ShardRecord &shard) {
    uint64_t members = 1, boxes = 1, looks = 0;
    DimVector extents = localShape(shard);
    for (unsigned dim = 0; dim < family.numLeading(); ++dim) {
      members *= uint64_t(std::max<int64_t>(extents[dim], 1));
      if (__builtin_mul_overflow(boxes, shard.dims[dim].size(), &boxes))
        boxes = UINT64_MAX;
      looks += shard.dims[dim].size();
    }
    DTRT_RETURN_IF_ERROR(budget.charge(
        "members", members, kBufferCost * statesOf(shard.states).size()));
    DTRT_RETURN_IF_ERROR(budget.charge("lookups of members in intervals",
                                       members, looks * kLookCost));
    return budget.charge("boxes of members", boxes, boxCost(family));
  }

  static uint64_t boxCost(const Family &family) {
    return sizeof(Segment) + 2 * sizeof(int64_t) * family.rank();
  }

  /// What those need who look up, per state, where its members lie.
  Status chargeSegment(const Family &family, const Segment &segment) {
    uint64_t states = statesOf(segment.states).size(), looks = 0;
    for (const auto &intervals : shardOf(segment).dims)
      looks += intervals.size();
    DTRT_RETURN_IF_ERROR(
        budget.charge("lookups in intervals of shards", looks, kLookCost));
    DTRT_RETURN_IF_ERROR(budget.charge("boxes of segments", states,
                                       2 * sizeof(int64_t) * family.rank()));
    return budget.charge("rows of segments",
                         uint64_t(segmentMembers(family, segment)),
                         kRowCost * states);
  }

  const ShardRecord &shardOf(const Segment &segment) const {
    return segment.side == Side::Source ? program.source[segment.shard]
                                        : program.destination[segment.shard];
  }

  /// Shard, family, states and number of dims.
  Status checkNames(const Segment &segment) {
    const auto &shards =
        segment.side == Side::Source ? program.source : program.destination;
    if (segment.shard >= shards.size())
      return makeError("shard ", segment.shard, " of ", shards.size());
    const ShardRecord &shard = shards[segment.shard];
    if (segment.family != shard.family)
      return makeError("segment of family ", segment.family,
                       " in a shard of family ", shard.family);
    const Family &family = common.families[shard.family];
    if (segment.states == 0 || (segment.states & ~shard.states))
      return makeError("segment of '", shortened(family.name),
                       "' has state mask ", segment.states, ", its shard ",
                       shard.states);
    if (segment.offset.size() != family.rank() ||
        segment.size.size() != family.rank())
      return makeError("segment of '", shortened(family.name), "' has ",
                       segment.offset.size(), " dims, expected ",
                       family.rank());
    return {};
  }

  /// `padded`: the box may reach beyond the family's shape.
  static Status checkBox(const Family &family, const Segment &segment,
                         bool padded) {
    for (unsigned dim = 0; dim < family.rank(); ++dim) {
      int64_t limit = dim < family.numLeading() ? family.leading[dim].count
                      : padded ? kMaxBytes
                               : family.shape[dim - family.numLeading()];
      int64_t lo = segment.offset[dim], size = segment.size[dim];
      if (lo < 0 || size < 1 || lo > limit || size > limit - lo)
        return makeError("segment of '", shortened(family.name),
                         "' has offset ", lo, " and size ", size, " in dim ",
                         dim, " of ", limit);
    }
    return {};
  }

  Status checkSegment(const Segment &segment, bool padded) {
    DTRT_RETURN_IF_ERROR(checkNames(segment));
    const Family &family = common.families[segment.family];
    DTRT_RETURN_IF_ERROR(checkBox(family, segment, padded));
    DTRT_RETURN_IF_ERROR(chargeSegment(family, segment));
    return checkInside(family, shardOf(segment), segment.offset, segment.size);
  }

  Status checkSide(const Segment &segment, Side side, const char *verb) {
    if (segment.side == side)
      return {};
    return makeError(verb, " the ", sideName(segment.side), " side");
  }

  Status checkCopy(const Instruction &instruction) {
    const auto &segments = instruction.segments;
    if (segments.size() % 2 != 0)
      return makeError("has ", segments.size(), " segments, expected pairs");
    for (size_t i = 0; i < segments.size(); i += 2) {
      const Segment &from = segments[i], &to = segments[i + 1];
      DTRT_RETURN_IF_ERROR(checkSegment(from, /*padded=*/false));
      DTRT_RETURN_IF_ERROR(checkSegment(to, /*padded=*/false));
      DTRT_RETURN_IF_ERROR(checkSide(to, Side::Destination, "writes"));
      if (from.family != to.family || !sameContent(from, to) ||
          from.offset != to.offset || from.size != to.size)
        return makeError("pair ", i / 2, " copies a box to another box");
    }
    return checkBeside(instruction);
  }

  /// A copy of a wave runs beside its group, which is the next one.
  Status checkBeside(const Instruction &copy) {
    if (copy.wave < 0)
      return {};
    if (common.summary.mode != MemoryMode::Flat)
      return makeError("copies beside a wave in a plan of mode rollback");
    if (besideWave >= 0 && copy.wave != besideWave)
      return makeError("copies beside wave ", copy.wave,
                       ", others before it beside wave ", besideWave);
    for (size_t i = 0; i < copy.segments.size(); i += 2)
      DTRT_RETURN_IF_ERROR(
          checkSide(copy.segments[i], Side::Source, "copies, beside a wave,"));
    besideWave = copy.wave;
    return {};
  }

  /// The same states; or one, from the destination's state it is made from.
  bool sameContent(const Segment &from, const Segment &to) const {
    if (from.states == to.states)
      return true;
    StateNumbers states = statesOf(to.states);
    const Family &family = common.families[to.family];
    if (from.side != Side::Destination || states.size() != 1)
      return false;
    int32_t derivedFrom = family.states[states.front()].derivedFrom;
    return derivedFrom >= 0 && from.states == uint64_t(1) << derivedFrom;
  }

  Status checkStaging(uint64_t slot, uint64_t bytes) {
    if (slot <= program.stagingBytes && bytes <= program.stagingBytes - slot)
      return {};
    return makeError("staging range [", slot, ", +", bytes,
                     ") is outside the arena of ", program.stagingBytes,
                     " bytes");
  }

  Status checkStaged(const Instruction &instruction) {
    DTRT_RETURN_IF_ERROR(checkStaging(instruction.slot, instruction.bytes));
    uint64_t packed = 0;
    for (const Segment &segment : instruction.segments) {
      DTRT_RETURN_IF_ERROR(checkSegment(segment, /*padded=*/false));
      if (instruction.op == Opcode::Unpack)
        DTRT_RETURN_IF_ERROR(checkSide(segment, Side::Destination, "writes"));
      packed += segmentBytes(common.families[segment.family], segment);
      if (packed > uint64_t(kMaxBytes))
        break;
    }
    return checkBytesOf(instruction, packed);
  }

  static Status checkBytesOf(const Instruction &instruction, uint64_t held) {
    if (held == instruction.bytes)
      return {};
    return makeError("segments hold ", held, " bytes, expected ",
                     instruction.bytes);
  }

  /// The device keeps nothing of them: they are boxes of the family.
  Status checkRelayed(const Segment &segment) {
    if (segment.family >= common.families.size())
      return makeError("segment of family ", segment.family, " of ",
                       common.families.size());
    const Family &family = common.families[segment.family];
    if (segment.offset.size() != family.rank() ||
        segment.size.size() != family.rank())
      return makeError("segment of '", shortened(family.name), "' has ",
                       segment.offset.size(), " dims, expected ",
                       family.rank());
    if (segment.states == 0 || segment.states & ~allStates(family))
      return makeError("segment of '", shortened(family.name),
                       "' has state mask ", segment.states, ", its family has ",
                       allStates(family));
    DTRT_RETURN_IF_ERROR(checkBox(family, segment, /*padded=*/false));
    uint64_t states = statesOf(segment.states).size();
    DTRT_RETURN_IF_ERROR(budget.charge("boxes of segments", states,
                                       2 * sizeof(int64_t) * family.rank()));
    return budget.charge("rows of segments",
                         uint64_t(segmentMembers(family, segment)),
                         kRowCost * states);
  }

  /// What came is sent on from where it is.
  Status checkRelay(const Instruction &instruction) {
    if (!common.cluster.relays)
      return makeError("appears in a plan that has no relays");
    if (common.summary.mode == MemoryMode::Flat)
      return makeError("appears in a plan of mode flat");
    DTRT_RETURN_IF_ERROR(checkStaging(instruction.slot, instruction.bytes));
    uint64_t bytes = 0;
    for (const Segment &segment : instruction.segments) {
      DTRT_RETURN_IF_ERROR(checkRelayed(segment));
      bytes += segmentBytes(common.families[segment.family], segment);
      if (bytes > uint64_t(kMaxBytes))
        break;
    }
    return checkBytesOf(instruction, bytes);
  }

  Status checkDirect(const Message &message) {
    const Segment &segment = message.segment;
    DTRT_RETURN_IF_ERROR(checkSegment(segment, /*padded=*/false));
    if (message.receive)
      DTRT_RETURN_IF_ERROR(
          checkSide(segment, Side::Destination, "receives to"));
    const Family &family = common.families[segment.family];
    uint64_t bytes = segmentBytes(family, segment);
    if (bytes != message.bytes)
      return makeError("segment holds ", bytes, " bytes, expected ",
                       message.bytes);
    if ((segment.states & (segment.states - 1)) != 0 ||
        segmentMembers(family, segment) != 1)
      return makeError("direct message covers more than one state or tensor");
    unsigned state = statesOf(segment.states).front();
    if (dtypeOf(family, state, segment.side) != wireDType(family.states[state]))
      return makeError(
          "direct message of '", tensorOf(family, segment.offset), "' stores ",
          dtypeName(dtypeOf(family, state, segment.side)), ", but ",
          dtypeName(wireDType(family.states[state])), " travels");
    auto view = viewOf(family, shardOf(segment), segment.offset, segment.size);
    DTRT_RETURN_IF_ERROR(view);
    if (!view->contiguous())
      return makeError("direct message of '", tensorOf(family, segment.offset),
                       "' is not contiguous in its shard");
    return {};
  }

  Status checkMessage(const Message &message) {
    if (message.peer == program.device)
      return makeError("message to the device itself");
    if (!std::binary_search(devices.begin(), devices.end(), message.peer))
      return makeError("peer ", message.peer, " has no program");
    if (message.bytes == 0)
      return makeError("message without bytes");
    return message.direct ? checkDirect(message)
                          : checkStaging(message.slot, message.bytes);
  }

  Status checkGroup(const Instruction &instruction) {
    if (instruction.wave <= lastWave)
      return makeError("wave ", instruction.wave, " after wave ", lastWave);
    lastWave = instruction.wave;
    if (besideWave >= 0 && besideWave != lastWave)
      return makeError("wave ", lastWave, " after copies beside wave ",
                       besideWave);
    besideWave = -1;
    for (size_t i = 0; i < instruction.messages.size(); ++i) {
      Status status = checkMessage(instruction.messages[i]);
      if (!status.ok())
        return makeError("message ", i, ": ", status.message());
    }
    return instruction.collective ? checkCollective(instruction) : Status();
  }

  /// The device has a part in a collective of a set that it is in, with memory
  /// for all of its blocks.
  Status checkCall(const GroupCollective &call) {
    if (call.members >= common.memberSets.size())
      return makeError("member set ", call.members, " of ",
                       common.memberSets.size());
    const std::vector<uint32_t> &members = common.memberSets[call.members];
    auto isMember = [&](uint32_t device) {
      return std::binary_search(members.begin(), members.end(), device);
    };
    bool hasRoot = call.kind == CollectiveKind::Broadcast;
    if (!isMember(program.device))
      return makeError("the device is not in member set ", call.members);
    if (hasRoot ? !isMember(call.root) : call.root != 0)
      return makeError("root ", call.root, " of member set ", call.members);
    if (call.blockBytes == 0 ||
        call.blockBytes > uint64_t(kMaxBytes) / members.size())
      return makeError("blocks of ", call.blockBytes, " bytes");
    uint64_t given = bytesGiven(common, call, program.device);
    uint64_t got = bytesGot(common, call, program.device);
    DTRT_RETURN_IF_ERROR(checkStaging(call.giveSlot, given));
    DTRT_RETURN_IF_ERROR(checkStaging(call.getSlot, got));
    if ((given == 0 && call.giveSlot != 0) || (got == 0 && call.getSlot != 0))
      return makeError("has a place for blocks that the device has none of");
    if (given > 0 && got > 0 && call.giveSlot < call.getSlot + got &&
        call.getSlot < call.giveSlot + given)
      return makeError("gives staging bytes [", call.giveSlot, ", +", given,
                       ") and gets [", call.getSlot, ", +", got, ")");
    return {};
  }

  /// What a collective brings lies in the block of its pair of members.
  Status checkInBlock(const GroupCollective &call, const Message &message) {
    const std::vector<uint32_t> &members = common.memberSets[call.members];
    auto peer = std::lower_bound(members.begin(), members.end(), message.peer);
    if (peer == members.end() || *peer != message.peer)
      return makeError("peer ", message.peer, " is not in member set ",
                       call.members, " of the collective");
    uint32_t sender = message.receive ? message.peer : program.device;
    if (call.kind == CollectiveKind::Broadcast && sender != call.root)
      return makeError("is from device ", sender, ", expected root ",
                       call.root);
    auto place = uint64_t(peer - members.begin());
    uint64_t slot =
        message.receive
            ? call.getSlot + call.blockBytes * blockFrom(call.kind, place)
            : call.giveSlot + call.blockBytes * blockFor(call.kind, place);
    if (message.direct || message.slot != slot ||
        message.bytes > call.blockBytes)
      return makeError("lies elsewhere than in the block at ", slot, " of ",
                       call.blockBytes, " bytes");
    return {};
  }

  /// What a member gives to all, all others get.
  Status checkShared(const Instruction &instruction) {
    const GroupCollective &call = *instruction.collective;
    size_t others = common.memberSets[call.members].size() - 1, sends = 0;
    uint64_t bytes = 0;
    for (const Message &message : instruction.messages) {
      if (message.receive)
        continue;
      if (sends++ > 0 && message.bytes != bytes)
        return makeError("gives ", message.bytes, " bytes to device ",
                         message.peer, " and ", bytes, " to others");
      bytes = message.bytes;
    }
    if (sends > 0 && sends != others)
      return makeError("gives to ", sends, " devices, expected all ", others,
                       " others");
    return {};
  }

  Status checkCollective(const Instruction &instruction) {
    const GroupCollective &call = *instruction.collective;
    DTRT_RETURN_IF_ERROR(checkCall(call));
    for (size_t i = 0; i < instruction.messages.size(); ++i) {
      Status status = checkInBlock(call, instruction.messages[i]);
      if (!status.ok())
        return makeError("message ", i, ": ", status.message());
    }
    return call.kind == CollectiveKind::AllToAll ? Status()
                                                 : checkShared(instruction);
  }

  /// By tensor, what comes or goes is all of a buffer.
  Status checkWhole(const Family &family, const ShardRecord &shard,
                    const Segment &segment) const {
    Interval named = storageRange(family, segment);
    int64_t all = elementsPerMember(family, shard);
    if (common.summary.granularity == Granularity::Page || named.size() == all)
      return {};
    return makeError("names elements [", named.lo, ", ", named.hi,
                     ") of the storage of tensor '",
                     tensorOf(family, segment.offset), "', expected all ", all,
                     " in a plan by tensor");
  }

  Status checkLifetime(const Instruction &instruction) {
    if (common.summary.mode != MemoryMode::Flat)
      return makeError("appears in a plan of mode rollback");
    bool create = instruction.op == Opcode::Create;
    for (const Segment &segment : instruction.segments) {
      DTRT_RETURN_IF_ERROR(checkSide(segment,
                                     create ? Side::Destination : Side::Source,
                                     create ? "creates on" : "releases"));
      DTRT_RETURN_IF_ERROR(checkNames(segment));
      const Family &family = common.families[segment.family];
      DTRT_RETURN_IF_ERROR(checkStorage(family, shardOf(segment), segment));
      DTRT_RETURN_IF_ERROR(checkWhole(family, shardOf(segment), segment));
      DTRT_RETURN_IF_ERROR(chargeSegment(family, segment));
    }
    return {};
  }

  Status checkInstruction(const Instruction &instruction) {
    if (instruction.wave < -1)
      return makeError("wave ", instruction.wave);
    switch (instruction.op) {
    case Opcode::Copy:
      return checkCopy(instruction);
    case Opcode::Zero:
      for (const Segment &segment : instruction.segments) {
        DTRT_RETURN_IF_ERROR(checkSegment(segment, /*padded=*/true));
        DTRT_RETURN_IF_ERROR(checkSide(segment, Side::Destination, "writes"));
      }
      return {};
    case Opcode::Create:
    case Opcode::Release:
      return checkLifetime(instruction);
    case Opcode::Pack:
    case Opcode::Unpack:
      return checkStaged(instruction);
    case Opcode::Relay:
      return checkRelay(instruction);
    case Opcode::Group:
      return checkGroup(instruction);
    }
    return makeError("unknown opcode");
  }

  const PlanCommon &common;
  const std::vector<uint32_t> &devices;
  const RankProgram &program;
  ReadBudget &budget;
  int32_t lastWave = -1;
  int32_t besideWave = -1; // of copies whose group is still to come
};

} // namespace

Status checkCommon(const PlanCommon &common) {
  DTRT_RETURN_IF_ERROR(
      checkName("name of the compiler", common.compilerVersion));
  DTRT_RETURN_IF_ERROR(
      checkWorld("source", common.sourceWorld, common.sourceDevices));
  DTRT_RETURN_IF_ERROR(checkWorld("destination", common.destinationWorld,
                                  common.destinationDevices));
  if (common.summary.granularity == Granularity::Tensor &&
      common.summary.mode != MemoryMode::Flat)
    return makeError("storage goes by tensor in a plan of mode rollback, ",
                     "expected mode flat");
  for (size_t i = 0; i < common.families.size(); ++i) {
    const Family &family = common.families[i];
    Status status = checkName("name", family.name);
    if (!status.ok())
      return makeError("family ", i, ": ", status.message());
    status = checkFamily(family);
    if (!status.ok())
      return makeError("family ", i, " '", shortened(family.name),
                       "': ", status.message());
  }
  for (size_t i = 0; i < common.views.size(); ++i) {
    Status status = checkView(common.families, common.views[i]);
    if (!status.ok())
      return makeError("view ", i, " '", shortened(common.views[i].name),
                       "': ", status.message());
  }
  DTRT_RETURN_IF_ERROR(checkMemberSets(common));
  DTRT_RETURN_IF_ERROR(checkCluster(common.cluster));
  DTRT_RETURN_IF_ERROR(checkCompression(common.compression));
  DTRT_RETURN_IF_ERROR(checkSummary(common.summary));
  DTRT_RETURN_IF_ERROR(checkProse("source layout", common.sourceLayout));
  DTRT_RETURN_IF_ERROR(
      checkProse("destination layout", common.destinationLayout));
  DTRT_RETURN_IF_ERROR(checkHash("request hash", common.requestHash));
  DTRT_RETURN_IF_ERROR(
      checkHash("source fingerprint", common.sourceFingerprint));
  return checkHash("destination fingerprint", common.destinationFingerprint);
}

Status chargeTensors(const PlanCommon &common, ReadBudget &budget) {
  for (const Family &family : common.families)
    DTRT_RETURN_IF_ERROR(budget.charge("names of tensors",
                                       uint64_t(family.numMembers()),
                                       kNameCost + family.name.size()));
  for (const NamedView &view : common.views)
    DTRT_RETURN_IF_ERROR(budget.charge(
        "names of views", uint64_t(common.families[view.family].numMembers()),
        kNameCost + view.name.size()));
  return {};
}

Status checkProgram(const PlanCommon &common,
                    const std::vector<uint32_t> &devices,
                    const RankProgram &program, ReadBudget &budget) {
  Status status = ProgramChecker(common, devices, program, budget).check();
  if (status.ok())
    return status;
  return makeError("program of device ", program.device, ": ",
                   status.message());
}

} // namespace dtrt
