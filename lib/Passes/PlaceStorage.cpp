//===- PlaceStorage.cpp - When storage comes and goes ---------------------===//
//
// Flat mode keeps no second copy of the state: a page of a destination buffer
// exists from the first step that writes into it, a page of a source buffer
// until the last step that reads it. A step touches whole pages between the
// first and the last element that it names:
//
//   pages of 4 elements   |....|....|....|
//   step 3 writes          ..xx xx..          pages 0, 1 exist for step 3
//   step 5 writes                 x.. ..xx    page 2 exists for step 5
//
// What does not change has one storage for both sides, which stays as it is. A
// copy that runs beside a wave reads until that has ended.
//
// By tensor, a page is a whole buffer, and the buffers of tensors that share a
// storage come with the first of them and go with the last.
//
// Fewer and larger changes cost less than many small ones, so steps form
// *windows*, as long as every device has room: all that the steps of a window
// write first is created before it, and what they read last is released behind
// it. A window ends where a device would hold more than the limit:
//
//   room for 3 pages   step      3    4    5    6
//   a device           creates   2         2    1
//                      releases       2         3
//                      windows  [3    4]  [5    6]    2 pages; then 0 + 3
//
//===----------------------------------------------------------------------===//

#include "Threads.h"
#include "TransportReading.h"
#include "dt/Geometry/Painted.h"
#include "dt/Geometry/Prefetch.h"
#include "dt/Passes/Passes.h"
#include "dt/Proof/StayingShards.h"
#include "dt/Proof/StorageRules.h"
#include "dtrt/types/DeviceIndex.h"

#include <map>
#include <numeric>
#include <tuple>

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_PLACESTORAGE
#include "dt/Passes/Passes.h.inc"

namespace {

using Kind = PlanStep::Kind;

/// The start of the program: storage that nobody reads goes after this step.
constexpr int64_t kAtStart = -1;

/// States of a flow, on one side, that come and go together.
struct StateGroup {
  uint64_t states = 0;
  int64_t width = 0; // bytes of an element in all of them
};

/// Buffers that a device has of a shard, in the states of a group: one per
/// member, numbered by position in the shard, row-major.
struct Buffers {
  bool creates = false; // of the destination
  uint32_t flow = 0;
  uint32_t number = 0; // of the shard, among the device's of the flow
  const Shard *shard = nullptr;
  StateGroup group;
  uint32_t first = 0;
};

/// A step touches the same whole pages of buffers that follow one another.
struct Touch {
  uint32_t buffer = 0, count = 1;
  uint32_t step = 0;
  Interval elements;
};

/// Elements of buffers that follow one another, of which a step is the first to
/// write them, or the last to read.
struct Run {
  uint32_t buffer = 0, count = 1;
  int64_t step = 0;
  Interval elements;
};

/// The runs of one device, by buffer.
struct DeviceRuns {
  int64_t device = 0;
  std::vector<Buffers> buffers; // by number of the first
  std::vector<Run> runs;

  /// Calls fn(place among `buffers`, run) for all of them.
  template <typename Fn> void forEach(Fn fn) const {
    uint32_t at = 0;
    for (const Run &run : runs) {
      while (at + 1 < buffers.size() && buffers[at + 1].first <= run.buffer)
        ++at;
      fn(at, run);
    }
  }
};

/// Steps, from the first to the last.
struct Window {
  int64_t first = 0, last = 0;
};

/// The same pages of members that follow one another, which come before, or go
/// after, a window.
struct Part {
  uint32_t buffers = 0; // place among the device's
  uint32_t window = 0;
  Interval elements;
  int64_t member = 0, count = 1;
};

/// What comes before, or goes after, a window, in some states: a part.
struct Event {
  bool creates = false;
  uint32_t window = 0; // place among the windows
  uint32_t flow = 0;
  uint32_t number = 0; // of the shard, among the device's of the flow
  uint64_t states = 0;
  const Shard *shard = nullptr;
  Interval elements;
  int64_t member = 0, count = 1;
  int64_t rows = 1; // of such members, along the leading dim before the last

  /// What one op of a window names.
  auto key() const { return std::make_tuple(creates, flow, states, number); }
};

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

/// The states of all flows, on both sides. Those of a flow are one group: their
/// pages have the same elements. Where storages are shared, each state is one.
class StoredStates {
public:
  StoredStates(const TransportPlan &plan, int64_t pageBytes);

  const std::vector<StateGroup> &of(bool creates, uint32_t flow) const {
    return groups[creates][flow];
  }
  int64_t pageElements(bool creates, uint32_t flow) const {
    return pages[creates][flow];
  }

private:
  std::vector<std::vector<StateGroup>> groups[2]; // source, destination
  std::vector<int64_t> pages[2];
};

StoredStates::StoredStates(const TransportPlan &plan, int64_t pageBytes) {
  for (bool creates : {false, true})
    for (const PlanFlow &flow : plan.flows) {
      const std::vector<FlowBuffers> &buffers =
          creates ? flow.destinationBuffers : flow.sourceBuffers;
      pages[creates].push_back(dt::pageElements(buffers, pageBytes));
      std::vector<StateGroup> &own = groups[creates].emplace_back();
      for (const FlowBuffers &added : buffers) {
        if (own.empty() || !flow.storages.empty())
          own.emplace_back();
        own.back().states |= added.states;
        own.back().width += added.width * llvm::popcount(added.states);
      }
    }
}

//===----------------------------------------------------------------------===//
// Members of a shard
//===----------------------------------------------------------------------===//

/// Where a coordinate lies among those of some intervals.
int64_t positionIn(const std::vector<Interval> &intervals, int64_t coordinate) {
  int64_t before = 0;
  for (Interval interval : intervals) {
    if (interval.lo <= coordinate && coordinate < interval.hi)
      return before + coordinate - interval.lo;
    before += interval.size();
  }
  return before;
}

/// Calls fn(position, count) for the members that the box names, a row at a
/// time.
template <typename Fn>
void forEachRow(const Shard &shard, const Box &box, Fn fn, unsigned dim = 0,
                int64_t position = 0) {
  if (shard.numLeading == 0)
    return fn(0, 1);
  int64_t extent = 0;
  for (Interval interval : shard.dims[dim])
    extent += interval.size();
  int64_t first = position * extent + positionIn(shard.dims[dim], box[dim].lo);
  if (dim + 1 == shard.numLeading)
    return fn(first, box[dim].size());
  for (int64_t i = 0; i < box[dim].size(); ++i)
    forEachRow(shard, box, fn, dim + 1, first + i);
}

/// The index, per leading dim, of the member at a position.
void memberAt(const Shard &shard, int64_t position, Box &out) {
  for (unsigned d = shard.numLeading; d-- > 0;) {
    int64_t extent = 0;
    for (Interval interval : shard.dims[d])
      extent += interval.size();
    int64_t at = position % extent;
    position /= extent;
    for (Interval interval : shard.dims[d]) {
      if (at < interval.size()) {
        out[d] = {interval.lo + at, interval.lo + at + 1};
        break;
      }
      at -= interval.size();
    }
  }
}

/// Whether the last index of the member before is not one less, or another
/// index differs.
bool startsRow(const Shard &shard, int64_t position) {
  if (shard.numLeading == 0)
    return true;
  int64_t extent = 0;
  for (Interval interval : shard.dims[shard.numLeading - 1])
    extent += interval.size();
  int64_t at = position % extent;
  for (Interval interval : shard.dims[shard.numLeading - 1]) {
    if (at < interval.size())
      return at == 0;
    at -= interval.size();
  }
  return true;
}

//===----------------------------------------------------------------------===//
// One device
//===----------------------------------------------------------------------===//

class DeviceStorage {
public:
  DeviceStorage(const TransportPlan &plan, const StoredStates &groups,
                const ShardIndex &source, const ShardIndex &destination,
                const StayingShards &staying, ArrayRef<uint32_t> lastSteps,
                int64_t device)
      : plan(plan), groups(groups), source(source), destination(destination),
        staying(staying), lastSteps(lastSteps), device(device) {}

  /// `pieces`: those that the device reads or writes, with the kinds of their
  /// steps, in order.
  DeviceRuns find(ArrayRef<std::pair<uint32_t, Kind>> pieces);

private:
  void numberBuffers();
  void touch(bool creates, uint32_t flow, uint32_t step, const Box &box,
             uint32_t number);
  void touchSource(const PlanPiece &piece);
  std::vector<uint32_t> stretchesOfBuffers() const;
  void addRuns(const Buffers &of, uint32_t buffer, uint32_t count,
               MutableArrayRef<Touch> touches);
  void addAllRuns();
  void shareStorages();

  const TransportPlan &plan;
  const StoredStates &groups;
  const ShardIndex &source, &destination;
  const StayingShards &staying;
  ArrayRef<uint32_t> lastSteps;
  int64_t device;
  /// Per shard of the device, the place of its first buffers; kUnplaced where
  /// it stays, or no state of it is stored. Source, destination.
  std::vector<uint32_t> firstOf[2];
  uint32_t numBuffers = 0;
  std::vector<Touch> touches;
  DeviceRuns found;
};

void DeviceStorage::numberBuffers() {
  for (bool creates : {false, true}) {
    const ShardIndex &index = creates ? destination : source;
    const std::vector<ShardIndex::Entry> &shards = index.shardsOf(device);
    firstOf[creates].assign(shards.size(), kUnplaced);
    for (uint32_t flow = 0; flow < plan.flows.size(); ++flow) {
      if (staying.allOf(flow, device) || groups.of(creates, flow).empty())
        continue;
      uint32_t number = 0;
      for (uint32_t own : index.numbersOf(flow, device)) {
        const Shard *shard = shards[own].shard;
        firstOf[creates][own] = uint32_t(found.buffers.size());
        for (const StateGroup &group : groups.of(creates, flow)) {
          found.buffers.push_back(
              {creates, flow, number, shard, group, numBuffers});
          numBuffers += uint32_t(shard->numMembers());
        }
        ++number;
      }
    }
  }
}

/// `number`: of the shard that holds the box, on the device.
void DeviceStorage::touch(bool creates, uint32_t flow, uint32_t step,
                          const Box &box, uint32_t number) {
  if (number == kUnplaced || firstOf[creates][number] == kUnplaced)
    return;
  const Buffers *own = found.buffers.data() + firstOf[creates][number];
  const Shard &shard = *own->shard;
  Interval pages =
      wholePages(*localSpan(shard, box), groups.pageElements(creates, flow),
                 shard.elementsPerMember());
  for (size_t i = 0; i < groups.of(creates, flow).size(); ++i)
    forEachRow(shard, box, [&](int64_t member, int64_t count) {
      touches.push_back(
          {own[i].first + uint32_t(member), uint32_t(count), step, pages});
    });
}

/// What of the source a piece reads: of all states, which the order counts as
/// one.
void DeviceStorage::touchSource(const PlanPiece &piece) {
  const PlanFlow &flow = plan.flows[piece.flow];
  uint32_t number = piece.fromShard;
  if (flow.readsFrom != piece.flow)
    number = source.findNumber(flow.readsFrom, device, piece.box)
                 .value_or(kUnplaced);
  touch(/*creates=*/false, flow.readsFrom, lastSteps[piece.step], piece.box,
        number);
}

/// Of the touches of buffers that are touched alike, by step: the first that
/// creates and the last that releases each page. All of the source is as if
/// read at the start: what is not read again goes then.
void DeviceStorage::addRuns(const Buffers &of, uint32_t buffer, uint32_t count,
                            MutableArrayRef<Touch> touches) {
  auto isBefore = [](const Touch &a, const Touch &b) {
    return a.step < b.step;
  };
  if (!llvm::is_sorted(touches, isBefore))
    llvm::stable_sort(touches, isBefore);
  Painted painted;
  auto note = [&](Interval elements, int64_t step) {
    painted.add(elements, [&](Interval part) {
      found.runs.push_back({buffer, count, step, part});
    });
  };
  if (of.creates) {
    for (const Touch &touch : touches)
      note(touch.elements, touch.step);
    return;
  }
  for (const Touch &touch : llvm::reverse(touches))
    note(touch.elements, touch.step);
  if (int64_t elements = of.shard->elementsPerMember(); elements > 0)
    note({0, elements}, kAtStart);
}

/// The first buffer of each *stretch*, and the end: buffers of one row that all
/// touches have in common.
std::vector<uint32_t> DeviceStorage::stretchesOfBuffers() const {
  std::vector<bool> isFirst(numBuffers + 1);
  isFirst[numBuffers] = true;
  for (const Buffers &of : found.buffers)
    for (int64_t member = 0; member < of.shard->numMembers(); ++member)
      isFirst[of.first + uint32_t(member)] = startsRow(*of.shard, member);
  for (const Touch &touch : touches)
    isFirst[touch.buffer] = isFirst[touch.buffer + touch.count] = true;
  std::vector<uint32_t> out;
  for (uint32_t buffer = 0; buffer <= numBuffers; ++buffer)
    if (isFirst[buffer])
      out.push_back(buffer);
  return out;
}

/// Brings the touches of each stretch together, in the order in which they are.
void DeviceStorage::addAllRuns() {
  const std::vector<uint32_t> firsts = stretchesOfBuffers();
  const auto numStretches = uint32_t(firsts.size() - 1);
  std::vector<uint32_t> stretchOf(numBuffers + 1, numStretches);
  for (uint32_t i = 0; i < numStretches; ++i)
    std::fill(stretchOf.begin() + firsts[i], stretchOf.begin() + firsts[i + 1],
              i);
  std::vector<uint32_t> ends(numStretches + 1, 0);
  auto forEachStretch = [&](const Touch &touch, auto fn) {
    for (uint32_t i = stretchOf[touch.buffer],
                  end = stretchOf[touch.buffer + touch.count];
         i < end; ++i)
      fn(i);
  };
  for (const Touch &touch : touches)
    forEachStretch(touch, [&](uint32_t i) { ++ends[i + 1]; });
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<Touch> sorted(ends.back());
  for (const Touch &touch : touches)
    forEachStretch(touch, [&](uint32_t i) { sorted[ends[i]++] = touch; });
  found.runs.reserve(sorted.size());
  // What ended the stretch before begins this one.
  uint32_t begin = 0;
  size_t at = 0; // of the buffers
  for (uint32_t i = 0; i < numStretches; ++i) {
    while (at + 1 < found.buffers.size() &&
           found.buffers[at + 1].first <= firsts[i])
      ++at;
    addRuns(found.buffers[at], firsts[i], firsts[i + 1] - firsts[i],
            MutableArrayRef<Touch>(sorted).slice(begin, ends[i] - begin));
    begin = ends[i];
  }
}

DeviceRuns DeviceStorage::find(ArrayRef<std::pair<uint32_t, Kind>> pieces) {
  found.device = device;
  numberBuffers();
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i + kPrefetched < pieces.size())
      prefetch(plan.pieces[pieces[i + kPrefetched].first]);
    auto [number, kind] = pieces[i];
    const PlanPiece &piece = plan.pieces[number];
    uint32_t flow = piece.flow % uint32_t(plan.flows.size());
    // Destination storage that is read was written before.
    if (piece.to == device)
      touch(/*creates=*/true, flow, piece.step, piece.box, piece.toShard);
    if (piece.from == device && piece.atSource && kind != Kind::Zero)
      touchSource(piece);
  }
  addAllRuns();
  if (plan.isByTensor())
    shareStorages();
  return std::move(found);
}

/// A storage comes when the first of its buffers does, and goes with the last.
void DeviceStorage::shareStorages() {
  using Key = std::pair<bool, uint32_t>; // creates, number of the storage
  std::vector<std::optional<Key>> storageOf;
  for (const Buffers &of : found.buffers) {
    const std::vector<uint32_t> &storages = plan.flows[of.flow].storages;
    // Where storages are shared, each state has buffers of its own.
    storageOf.push_back(std::nullopt);
    if (!storages.empty())
      storageOf.back() = {of.creates,
                          storages[llvm::countr_zero(of.group.states)]};
  }
  std::map<Key, int64_t> steps;
  found.forEach([&](uint32_t at, const Run &run) {
    if (auto key = storageOf[at]) {
      int64_t &step = steps.try_emplace(*key, run.step).first->second;
      step = key->first ? std::min(step, run.step) : std::max(step, run.step);
    }
  });
  std::vector<int64_t> shared;
  found.forEach([&](uint32_t at, const Run &run) {
    shared.push_back(storageOf[at] ? steps.at(*storageOf[at]) : run.step);
  });
  for (size_t i = 0; i < shared.size(); ++i)
    found.runs[i].step = shared[i];
}

//===----------------------------------------------------------------------===//
// All devices
//===----------------------------------------------------------------------===//

/// The pieces that a device reads or writes, with the kinds of their steps, in
/// order.
struct DevicePieces {
  int64_t device = 0;
  std::vector<std::pair<uint32_t, Kind>> pieces;
};

/// Of all devices that hold or get anything, ascending.
std::vector<DevicePieces> piecesByDevice(const TransportPlan &plan) {
  dtrt::DeviceIndex devices;
  std::vector<DevicePieces> out;
  auto of = [&](int64_t device) -> DevicePieces & {
    uint32_t number = devices(device);
    if (number == out.size())
      out.push_back({device, {}});
    return out[number];
  };
  for (const PlanFlow &flow : plan.flows)
    for (const Holding &holding : *flow.source)
      for (int64_t device : holding.devices)
        of(device);
  for (const PlanStep &step : plan.steps)
    for (size_t i = step.first; i < step.last; ++i) {
      const PlanPiece &piece = plan.pieces[i];
      of(piece.to).pieces.push_back({uint32_t(i), step.kind});
      if (piece.from != piece.to)
        of(piece.from).pieces.push_back({uint32_t(i), step.kind});
    }
  llvm::sort(out, [](const DevicePieces &a, const DevicePieces &b) {
    return a.device < b.device;
  });
  return out;
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

/// Bytes that a step creates or releases on a device.
struct Load {
  uint32_t device = 0; // place among the devices
  int64_t created = 0, released = 0;
};

/// Grows windows step by step while every device has room.
class WindowFinder {
public:
  WindowFinder(const TransitionReading &reading,
               const std::vector<DeviceRuns> &devices)
      : loads(reading.plan.steps.size()), free(devices.size()),
        open(devices.size()) {
    std::map<int64_t, DeviceMemory> memory = measureSides(reading.plan);
    for (uint32_t d = 0; d < devices.size(); ++d) {
      // Without storage ops, all of the destination counts as there.
      const DeviceMemory &held = memory[devices[d].device];
      free[d] = std::max(held.source, held.destination) +
                reading.info->stagingLimit - held.staging - held.source;
      addLoads(devices[d], d);
    }
  }

  std::vector<Window> find() {
    std::vector<Window> out;
    for (size_t step = 0; step < loads.size(); ++step) {
      if (out.empty() || !fits(loads[step])) {
        close();
        out.push_back({int64_t(step), int64_t(step)});
      }
      for (const Load &load : loads[step]) {
        if (open[load.device].created == 0 && open[load.device].released == 0)
          touched.push_back(load.device);
        open[load.device].created += load.created;
        open[load.device].released += load.released;
      }
      out.back().last = int64_t(step);
    }
    return out;
  }

private:
  void addLoads(const DeviceRuns &own, uint32_t device) {
    own.forEach([&](uint32_t at, const Run &run) {
      const Buffers &of = own.buffers[at];
      int64_t bytes = run.elements.size() * of.group.width * int64_t(run.count);
      if (run.step == kAtStart) {
        free[device] += bytes;
        return;
      }
      std::vector<Load> &list = loads[run.step];
      if (list.empty() || list.back().device != device)
        list.push_back({device, 0, 0});
      (of.creates ? list.back().created : list.back().released) += bytes;
    });
  }
  bool fits(ArrayRef<Load> step) const {
    return llvm::all_of(step, [&](const Load &load) {
      return open[load.device].created + load.created <= free[load.device];
    });
  }
  void close() {
    for (uint32_t device : touched) {
      free[device] += open[device].released - open[device].created;
      open[device] = {};
    }
    touched.clear();
  }

  std::vector<std::vector<Load>> loads; // by step
  std::vector<int64_t> free;            // bytes, when the window opens
  std::vector<Load> open;               // of the window so far
  std::vector<uint32_t> touched;        // devices with such
};

/// The window of every step.
std::vector<uint32_t> windowOfSteps(ArrayRef<Window> windows) {
  std::vector<uint32_t> out;
  for (uint32_t w = 0; w < windows.size(); ++w)
    out.resize(windows[w].last + 1, w);
  return out;
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

/// Runs of a buffer that touch become one where they share a window. Window
/// numbers count from 1; 0 is the start.
std::vector<Part> joinRuns(const DeviceRuns &own, ArrayRef<uint32_t> windowOf) {
  std::vector<Part> parts;
  parts.reserve(own.runs.size());
  own.forEach([&](uint32_t at, const Run &run) {
    uint32_t window = run.step == kAtStart ? 0 : windowOf[run.step] + 1;
    parts.push_back({at, window, run.elements,
                     int64_t(run.buffer - own.buffers[at].first),
                     int64_t(run.count)});
  });
  auto isSame = [](const Part &a, const Part &b) {
    return a.buffers == b.buffers && a.member == b.member;
  };
  size_t kept = 0;
  for (size_t first = 0, last = 0; first < parts.size(); first = last) {
    while (last < parts.size() && isSame(parts[first], parts[last]))
      ++last;
    std::sort(&parts[first], &parts[first] + (last - first),
              [](const Part &a, const Part &b) {
                return a.window != b.window ? a.window < b.window
                                            : a.elements < b.elements;
              });
    size_t begin = kept;
    for (size_t i = first; i < last; ++i) {
      Part *before = kept > begin ? &parts[kept - 1] : nullptr;
      if (before && before->window == parts[i].window &&
          before->elements.hi >= parts[i].elements.lo)
        before->elements.hi =
            std::max(before->elements.hi, parts[i].elements.hi);
      else
        parts[kept++] = parts[i];
    }
  }
  parts.resize(kept);
  return parts;
}

/// Members whose last index counts up become one part. `parts` are by buffers.
void joinMembers(const DeviceRuns &own, std::vector<Part> &parts) {
  auto isBefore = [](const Part &a, const Part &b) {
    if (a.window != b.window)
      return a.window < b.window;
    return a.elements != b.elements ? a.elements < b.elements
                                    : a.member < b.member;
  };
  for (auto first = parts.begin(), last = first; first != parts.end();
       first = last) {
    while (last != parts.end() && last->buffers == first->buffers)
      ++last;
    std::sort(first, last, isBefore);
  }
  size_t kept = 0;
  for (const Part &part : parts) {
    Part *last = kept > 0 ? &parts[kept - 1] : nullptr;
    if (last && last->buffers == part.buffers && last->window == part.window &&
        last->elements == part.elements &&
        last->member + last->count == part.member &&
        !startsRow(*own.buffers[part.buffers].shard, part.member))
      last->count += part.count;
    else
      parts[kept++] = part;
  }
  parts.resize(kept);
}

/// By window; those of a window stay in order.
std::vector<Part> sortedByWindow(const std::vector<Part> &parts) {
  uint32_t numWindows = 0;
  for (const Part &part : parts)
    numWindows = std::max(numWindows, part.window + 1);
  std::vector<size_t> ends(numWindows + 1, 0);
  for (const Part &part : parts)
    ++ends[part.window + 1];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<Part> sorted(parts.size());
  for (const Part &part : parts)
    sorted[ends[part.window]++] = part;
  return sorted;
}

/// States of which the same comes or goes at the same time become one event.
/// `parts` are by buffers, so those of a shard follow one another.
std::vector<Event> joinStates(const DeviceRuns &own,
                              const std::vector<Part> &parts) {
  auto isOneShard = [&](const Part &a, const Part &b) {
    const Buffers &one = own.buffers[a.buffers],
                  &other = own.buffers[b.buffers];
    return a.window == b.window && one.creates == other.creates &&
           one.flow == other.flow && one.number == other.number;
  };
  auto place = [](const Part &part) {
    return std::make_tuple(part.elements.lo, part.elements.hi, part.member,
                           part.count);
  };
  std::vector<Part> sorted = sortedByWindow(parts);
  std::vector<Event> events;
  events.reserve(sorted.size());
  for (size_t first = 0, last = 0; first < sorted.size(); first = last) {
    while (last < sorted.size() && isOneShard(sorted[first], sorted[last]))
      ++last;
    if (sorted[first].buffers != sorted[last - 1].buffers)
      std::sort(
          &sorted[first], &sorted[first] + (last - first),
          [&](const Part &a, const Part &b) { return place(a) < place(b); });
    for (size_t i = first; i < last; ++i) {
      const Part &part = sorted[i];
      const Buffers &of = own.buffers[part.buffers];
      if (i > first && place(sorted[i - 1]) == place(part))
        events.back().states |= of.group.states;
      else
        events.push_back({of.creates, part.window, of.flow, of.number,
                          of.group.states, of.shard, part.elements, part.member,
                          part.count});
    }
  }
  return events;
}

/// Whether `next` is the same of the members in the next row.
bool isNextRow(const Event &event, const Event &next) {
  const Shard &shard = *event.shard;
  if (shard.numLeading < 2 || event.window != next.window ||
      event.key() != next.key() || event.elements != next.elements ||
      event.count != next.count)
    return false;
  Box one(shard.numLeading), other(shard.numLeading);
  memberAt(shard, event.member, one);
  memberAt(shard, next.member, other);
  unsigned row = shard.numLeading - 2;
  one[row] = {one[row].lo + event.rows, one[row].hi + event.rows};
  return one == other && llvm::any_of(shard.dims[row], [&](Interval interval) {
           return interval.contains({one[row].lo - 1, one[row].hi});
         });
}

/// The same of several rows becomes one event: layers, where members are the
/// experts of all of them.
void joinRows(std::vector<Event> &events) {
  size_t kept = 0;
  for (const Event &event : events)
    if (kept > 0 && isNextRow(events[kept - 1], event))
      ++events[kept - 1].rows;
    else
      events[kept++] = event;
  events.resize(kept);
}

std::vector<Event> eventsOf(const DeviceRuns &own,
                            ArrayRef<uint32_t> windowOf) {
  std::vector<Part> parts = joinRuns(own, windowOf);
  joinMembers(own, parts);
  std::vector<Event> events = joinStates(own, parts);
  joinRows(events);
  return events;
}

/// An event, and its device.
using DeviceEvent = std::pair<const Event *, int64_t>;

struct StoragePlacement {
  std::vector<Window> windows;
  std::vector<std::vector<Event>> events; // by device
  /// Per window, and first for the start: by key, then by device.
  std::vector<std::vector<DeviceEvent>> inWindow;
};

StoragePlacement placeStorage(const TransitionReading &reading) {
  const TransportPlan &plan = reading.plan;
  MLIRContext *context = reading.info->op().getContext();
  ShardIndex source = indexShards(plan.flows, /*source=*/true);
  ShardIndex destination = indexShards(plan.flows, /*source=*/false);
  StayingShards staying(plan, source, destination);
  StoredStates groups(plan, reading.info->pageBytes());
  std::vector<uint32_t> lastSteps = plan.lastSteps();
  std::vector<DevicePieces> devices = piecesByDevice(plan);
  std::vector<DeviceRuns> runs(devices.size());
  forEachOnThreads(context, devices.size(), [&](size_t i) {
    runs[i] = DeviceStorage(plan, groups, source, destination, staying,
                            lastSteps, devices[i].device)
                  .find(devices[i].pieces);
  });
  StoragePlacement out;
  out.windows = WindowFinder(reading, runs).find();
  std::vector<uint32_t> windowOf = windowOfSteps(out.windows);
  out.events.resize(devices.size());
  forEachOnThreads(context, devices.size(), [&](size_t i) {
    out.events[i] = eventsOf(runs[i], windowOf);
  });
  out.inWindow.resize(out.windows.size() + 1);
  for (size_t i = 0; i < devices.size(); ++i)
    for (const Event &event : out.events[i])
      out.inWindow[event.window].push_back({&event, devices[i].device});
  forEachOnThreads(context, out.inWindow.size(), [&](size_t window) {
    llvm::stable_sort(out.inWindow[window],
                      [](const DeviceEvent &a, const DeviceEvent &b) {
                        return a.first->key() < b.first->key();
                      });
  });
  return out;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// Writes the events of one op.
void writeOp(const TransitionInfo &info, ArrayRef<DeviceEvent> events,
             OpBuilder &builder) {
  const Event &first = *events.front().first;
  ParamOp param = info.flows[first.flow].param;
  unsigned leading = param.numLeading();
  std::vector<int64_t> rows;
  rows.reserve(events.size() * PiecesAttr::numColumns(leading + 1));
  Box box(leading + 1);
  for (size_t i = 0; i < events.size(); ++i) {
    if (i + kPrefetched < events.size())
      prefetch(*events[i + kPrefetched].first);
    auto [event, device] = events[i];
    memberAt(*event->shard, event->member, box);
    if (leading > 0)
      box[leading - 1].hi += event->count - 1;
    if (leading > 1)
      box[leading - 2].hi += event->rows - 1;
    box[leading] = event->elements;
    appendRow(rows, device, device, box);
  }
  RowSet set = compressRows(rows, PiecesAttr::numColumns(leading + 1));
  auto pieces = PiecesAttr::get(builder.getContext(), set, leading + 1);
  auto name = FlatSymbolRefAttr::get(param.getSymNameAttr());
  ArrayAttr states = stateNames(param, first.states);
  Location loc = info.op().getLoc();
  if (first.creates)
    CreateOp::create(builder, loc, name, states, pieces, int64_t(first.number));
  else
    ReleaseOp::create(builder, loc, name, states, pieces,
                      int64_t(first.number));
}

/// Creates stand before the first op of their window, releases behind the last.
void writeOps(const TransitionInfo &info, const StoragePlacement &placement) {
  Block &body = info.op().getBody().front();
  SmallVector<Operation *> steps;
  for (Operation &op : body)
    steps.push_back(&op);
  OpBuilder builder(info.op().getContext());
  for (size_t number = 0; number < placement.inWindow.size(); ++number) {
    ArrayRef<DeviceEvent> rest(placement.inWindow[number]);
    while (!rest.empty()) {
      const Event &first = *rest.front().first;
      ArrayRef<DeviceEvent> own =
          rest.take_while([&](const DeviceEvent &event) {
            return event.first->key() == first.key();
          });
      rest = rest.drop_front(own.size());
      if (number == 0)
        builder.setInsertionPointToStart(&body);
      else if (const Window &window = placement.windows[number - 1];
               first.creates)
        builder.setInsertionPoint(steps[window.first]);
      else
        builder.setInsertionPointAfter(steps[window.last]);
      writeOp(info, own, builder);
    }
  }
}

struct PlaceStoragePass : impl::PlaceStorageBase<PlaceStoragePass> {
  LogicalResult place(const TransitionReading &reading) {
    const TransitionInfo &info = *reading.info;
    if (!info.isFlat())
      return success();
    if (!reading.plan.storage.empty())
      return info.op().emitOpError("has its storage placed already");
    StoragePlacement placement = placeStorage(reading);
    for (const std::vector<Event> &own : placement.events)
      for (const Event &event : own)
        ++(event.creates ? numCreated : numReleased);
    numWindows += placement.windows.size();
    writeOps(info, placement);
    return success();
  }

  void runOnOperation() override {
    auto &readings = getAnalysis<TransportReading>();
    bool isFlat = false;
    if (failed(readings.forEach([&](const TransitionReading &reading) {
          isFlat |= reading.info->isFlat();
          return place(reading);
        })))
      return signalPassFailure();
    if (!isFlat)
      return markAllAnalysesPreserved();
    if (failed(readings.readAgain()))
      return signalPassFailure();
    markAnalysesPreserved<TransitionAnalysis, TransportReading>();
  }
};

} // namespace
} // namespace dt
