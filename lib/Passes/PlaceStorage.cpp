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

#include "TransportReading.h"
#include "dt/Geometry/Painted.h"
#include "dt/Passes/Passes.h"
#include "dt/Proof/StayingShards.h"
#include "dt/Proof/StorageRules.h"

#include "mlir/IR/Threading.h"

#include <map>
#include <tuple>

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_PLACESTORAGE
#include "dt/Passes/Passes.h.inc"

namespace {

using Kind = PlanStep::Kind;

/// The start of the program: storage that nobody reads goes after this step.
constexpr int64_t kAtStart = -1;

/// Buffers of one member of a shard, in states of one width.
struct Buffer {
  bool creates = false; // of the destination
  uint32_t flow = 0, shard = 0, group = 0;
  int64_t member = 0; // position in the shard, row-major

  /// Two numbers, which are quickly compared: a flow has up to 64 states.
  std::pair<uint64_t, uint64_t> key() const {
    return {uint64_t(creates) << 63 | uint64_t(flow) << 32 | shard,
            uint64_t(group) << 56 | uint64_t(member)};
  }
};

/// A step touches whole pages of buffers.
struct Touch {
  Buffer buffer;
  int64_t step = 0;
  Interval elements;
};

/// Elements of a buffer that a step is the first to write, or the last to read.
struct Run {
  uint32_t buffer = 0; // of the device's
  int64_t step = 0;
  Interval elements;
};

/// The runs of one device.
struct DeviceRuns {
  int64_t device = 0;
  std::vector<Buffer> buffers;
  std::vector<Run> runs;
};

/// Steps, from the first to the last.
struct Window {
  int64_t first = 0, last = 0;
};

/// Pages of some members that come before, or go after, a window.
struct Event {
  bool creates = false;
  uint32_t window = 0; // place among the windows
  uint32_t flow = 0, shard = 0;
  uint64_t states = 0;
  int64_t device = 0;
  Box box; // leading dims, then elements of a member's storage

  /// What one op names.
  auto key() const {
    return std::make_tuple(window, creates, flow, states, shard);
  }
};

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

/// Calls `fn` with the position of every member that the box names.
void forEachMember(const Shard &shard, const Box &box,
                   llvm::function_ref<void(int64_t)> fn, unsigned dim = 0,
                   int64_t position = 0) {
  if (dim == shard.numLeading)
    return fn(position);
  int64_t extent = 0;
  for (Interval interval : shard.dims[dim])
    extent += interval.size();
  int64_t first = positionIn(shard.dims[dim], box[dim].lo);
  for (int64_t i = 0; i < box[dim].size(); ++i)
    forEachMember(shard, box, fn, dim + 1, position * extent + first + i);
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

//===----------------------------------------------------------------------===//
// One device
//===----------------------------------------------------------------------===//

class DeviceStorage {
public:
  DeviceStorage(const TransportPlan &plan, const ShardIndex &source,
                const ShardIndex &destination, const StayingShards &staying,
                ArrayRef<uint32_t> lastSteps, int64_t pageBytes, int64_t device)
      : plan(plan), source(source), destination(destination), staying(staying),
        lastSteps(lastSteps), pageBytes(pageBytes), device(device) {}

  /// `pieces`: those that the device reads or writes, with the kinds of their
  /// steps, in order.
  DeviceRuns find(ArrayRef<std::pair<uint32_t, Kind>> pieces);

private:
  void touchUnread();
  void touch(bool creates, uint32_t flow, uint64_t states, int64_t step,
             const Box &box);
  void addRuns(ArrayRef<Touch> touches);
  void shareStorages();
  const std::vector<FlowBuffers> &groupsOf(bool creates, uint32_t flow) const {
    const PlanFlow &of = plan.flows[flow];
    return creates ? of.destinationBuffers : of.sourceBuffers;
  }

  const TransportPlan &plan;
  const ShardIndex &source, &destination;
  const StayingShards &staying;
  ArrayRef<uint32_t> lastSteps;
  int64_t pageBytes, device;
  std::vector<Touch> touches;
  DeviceRuns found;
};

void DeviceStorage::touch(bool creates, uint32_t flow, uint64_t states,
                          int64_t step, const Box &box) {
  const ShardIndex &index = creates ? destination : source;
  if (staying.allOf(flow, device))
    return;
  auto found = index.findSpan(flow, device, box);
  if (!found)
    return;
  const std::vector<uint32_t> &numbers = index.numbersOf(flow, device);
  auto k = uint32_t(llvm::lower_bound(numbers, found->shard) - numbers.begin());
  const Shard &shard = *index.shardsOf(device)[found->shard].shard;
  const std::vector<FlowBuffers> &groups = groupsOf(creates, flow);
  for (uint32_t group = 0; group < groups.size(); ++group) {
    if (!(groups[group].states & states))
      continue;
    int64_t page = std::max<int64_t>(1, pageBytes / groups[group].width);
    Interval pages =
        wholePages(found->elements, page, shard.elementsPerMember());
    forEachMember(shard, box, [&](int64_t member) {
      touches.push_back({{creates, flow, k, group, member}, step, pages});
    });
  }
}

/// As if all of the source was read at the start: what is not read again goes.
void DeviceStorage::touchUnread() {
  for (uint32_t flow = 0; flow < plan.flows.size(); ++flow) {
    const std::vector<uint32_t> &numbers = source.numbersOf(flow, device);
    if (staying.allOf(flow, device))
      continue;
    for (uint32_t k = 0; k < numbers.size(); ++k) {
      const Shard &shard = *source.shardsOf(device)[numbers[k]].shard;
      int64_t elements = shard.elementsPerMember();
      for (uint32_t group = 0; group < groupsOf(false, flow).size(); ++group)
        for (int64_t member = 0; member < shard.numMembers(); ++member)
          if (elements > 0)
            touches.push_back({{/*creates=*/false, flow, k, group, member},
                               kAtStart,
                               {0, elements}});
    }
  }
}

/// Of the touches of one buffer, by step: the first that creates and the last
/// that releases each page.
void DeviceStorage::addRuns(ArrayRef<Touch> touches) {
  auto buffer = uint32_t(found.buffers.size());
  found.buffers.push_back(touches.front().buffer);
  Painted painted;
  auto note = [&](const Touch &touch) {
    painted.add(touch.elements, [&](Interval part) {
      found.runs.push_back({buffer, touch.step, part});
    });
  };
  if (touches.front().buffer.creates)
    llvm::for_each(touches, note);
  else
    llvm::for_each(llvm::reverse(touches), note);
}

DeviceRuns DeviceStorage::find(ArrayRef<std::pair<uint32_t, Kind>> pieces) {
  found.device = device;
  touchUnread();
  for (auto [number, kind] : pieces) {
    const PlanPiece &piece = plan.pieces[number];
    uint32_t flow = piece.flow % uint32_t(plan.flows.size());
    const PlanFlow &of = plan.flows[flow];
    // Destination storage that is read was written before.
    if (piece.to == device)
      touch(/*creates=*/true, flow, of.states, piece.step, piece.box);
    if (piece.from == device && piece.atSource && kind != Kind::Zero)
      touch(/*creates=*/false, of.readsFrom, of.readStates,
            lastSteps[piece.step], piece.box);
  }
  llvm::sort(touches, [](const Touch &a, const Touch &b) {
    auto one = a.buffer.key(), other = b.buffer.key();
    if (one != other)
      return one < other;
    return a.step != b.step ? a.step < b.step : a.elements < b.elements;
  });
  ArrayRef<Touch> rest(touches);
  while (!rest.empty()) {
    ArrayRef<Touch> own = rest.take_while([&](const Touch &touch) {
      return touch.buffer.key() == rest.front().buffer.key();
    });
    addRuns(own);
    rest = rest.drop_front(own.size());
  }
  if (plan.isByTensor())
    shareStorages();
  return std::move(found);
}

/// A storage comes when the first of its buffers does, and goes with the last.
void DeviceStorage::shareStorages() {
  using Key = std::pair<bool, uint32_t>; // creates, number of the storage
  auto storageOf = [&](const Run &run) -> std::optional<Key> {
    const Buffer &buffer = found.buffers[run.buffer];
    const std::vector<uint32_t> &storages = plan.flows[buffer.flow].storages;
    if (storages.empty())
      return std::nullopt;
    // Where storages are shared, each state has buffers of its own.
    uint64_t states =
        groupsOf(buffer.creates, buffer.flow)[buffer.group].states;
    return Key(buffer.creates, storages[llvm::countr_zero(states)]);
  };
  std::map<Key, int64_t> steps;
  for (const Run &run : found.runs)
    if (auto key = storageOf(run)) {
      int64_t &step = steps.try_emplace(*key, run.step).first->second;
      step = key->first ? std::min(step, run.step) : std::max(step, run.step);
    }
  for (Run &run : found.runs)
    if (auto key = storageOf(run))
      run.step = steps.at(*key);
}

//===----------------------------------------------------------------------===//
// All devices
//===----------------------------------------------------------------------===//

/// The pieces that each device reads or writes, in order.
std::map<int64_t, std::vector<std::pair<uint32_t, Kind>>>
piecesByDevice(const TransportPlan &plan) {
  std::map<int64_t, std::vector<std::pair<uint32_t, Kind>>> out;
  for (const PlanFlow &flow : plan.flows)
    for (const Holding &holding : *flow.source)
      for (int64_t device : holding.devices)
        out[device];
  for (const PlanStep &step : plan.steps)
    for (size_t i = step.first; i < step.last; ++i) {
      const PlanPiece &piece = plan.pieces[i];
      out[piece.to].push_back({uint32_t(i), step.kind});
      if (piece.from != piece.to)
        out[piece.from].push_back({uint32_t(i), step.kind});
    }
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

int64_t bytesOf(const TransportPlan &plan, const Buffer &buffer,
                Interval elements) {
  const PlanFlow &flow = plan.flows[buffer.flow];
  const FlowBuffers &group =
      (buffer.creates ? flow.destinationBuffers
                      : flow.sourceBuffers)[buffer.group];
  return elements.size() * group.width * llvm::popcount(group.states);
}

/// Grows windows step by step while every device has room.
class WindowFinder {
public:
  WindowFinder(const TransitionReading &reading,
               const std::vector<DeviceRuns> &devices)
      : plan(reading.plan), loads(plan.steps.size()), free(devices.size()),
        open(devices.size()) {
    std::map<int64_t, DeviceMemory> memory = measureMemory(plan);
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
    for (const Run &run : own.runs) {
      const Buffer &buffer = own.buffers[run.buffer];
      int64_t bytes = bytesOf(plan, buffer, run.elements);
      if (run.step == kAtStart) {
        free[device] += bytes;
        continue;
      }
      std::vector<Load> &list = loads[run.step];
      if (list.empty() || list.back().device != device)
        list.push_back({device, 0, 0});
      (buffer.creates ? list.back().created : list.back().released) += bytes;
    }
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

  const TransportPlan &plan;
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

/// Members whose last index counts up become one event.
std::vector<Event> joinMembers(std::vector<Event> events) {
  llvm::sort(events, [](const Event &a, const Event &b) {
    auto storage = [](const Event &e) { return e.box[e.box.rank() - 1]; };
    return std::make_tuple(a.key(), storage(a), a.box) <
           std::make_tuple(b.key(), storage(b), b.box);
  });
  std::vector<Event> out;
  for (Event &event : events) {
    unsigned leading = event.box.rank() - 1;
    if (!out.empty() && leading > 0 && out.back().key() == event.key()) {
      Interval &last = out.back().box[leading - 1];
      Box follows = event.box;
      follows[leading - 1] = last;
      if (follows == out.back().box && event.box[leading - 1].lo == last.hi) {
        last.hi = event.box[leading - 1].hi;
        continue;
      }
    }
    out.push_back(std::move(event));
  }
  return out;
}

/// States of which the same comes or goes at the same time become one event.
std::vector<Event> joinStates(std::vector<Event> events) {
  auto place = [](const Event &e) {
    return std::make_tuple(e.window, e.creates, e.flow, e.shard,
                           e.box[e.box.rank() - 1]);
  };
  llvm::sort(events, [&](const Event &a, const Event &b) {
    return std::make_tuple(place(a), a.box, a.states) <
           std::make_tuple(place(b), b.box, b.states);
  });
  std::vector<Event> out;
  for (Event &event : events)
    if (!out.empty() && place(out.back()) == place(event) &&
        out.back().box == event.box)
      out.back().states |= event.states;
    else
      out.push_back(std::move(event));
  return out;
}

/// Runs of a buffer that touch become one where they share a window.
void joinRuns(std::vector<Run> &runs) {
  llvm::sort(runs, [](const Run &a, const Run &b) {
    return std::make_tuple(a.buffer, a.step, a.elements) <
           std::make_tuple(b.buffer, b.step, b.elements);
  });
  size_t kept = 0;
  for (const Run &run : runs) {
    Run *last = kept > 0 ? &runs[kept - 1] : nullptr;
    if (last && last->buffer == run.buffer && last->step == run.step &&
        last->elements.hi >= run.elements.lo)
      last->elements.hi = std::max(last->elements.hi, run.elements.hi);
    else
      runs[kept++] = run;
  }
  runs.resize(kept);
}

/// Window numbers count from 1; 0 is the start.
std::vector<Event> eventsOf(const TransportPlan &plan, const ShardIndex &source,
                            const ShardIndex &destination,
                            ArrayRef<uint32_t> windowOf, DeviceRuns own) {
  for (Run &run : own.runs)
    run.step = run.step == kAtStart ? 0 : windowOf[run.step] + 1;
  joinRuns(own.runs);
  std::vector<Event> out;
  for (const Run &run : own.runs) {
    const Buffer &buffer = own.buffers[run.buffer];
    const ShardIndex &index = buffer.creates ? destination : source;
    uint32_t number = index.numbersOf(buffer.flow, own.device)[buffer.shard];
    const Shard &shard = *index.shardsOf(own.device)[number].shard;
    const PlanFlow &flow = plan.flows[buffer.flow];
    Event event;
    event.creates = buffer.creates;
    event.window = uint32_t(run.step);
    event.flow = buffer.flow;
    event.shard = buffer.shard;
    event.states = (buffer.creates ? flow.destinationBuffers
                                   : flow.sourceBuffers)[buffer.group]
                       .states;
    event.device = own.device;
    event.box = Box(shard.numLeading + 1);
    memberAt(shard, buffer.member, event.box);
    event.box[shard.numLeading] = run.elements;
    out.push_back(event);
  }
  return joinStates(joinMembers(std::move(out)));
}

struct StoragePlacement {
  std::vector<Window> windows;
  std::vector<Event> events; // by key
};

StoragePlacement placeStorage(const TransitionReading &reading) {
  const TransportPlan &plan = reading.plan;
  MLIRContext *context = reading.info->op().getContext();
  ShardIndex source = indexShards(plan.flows, /*source=*/true);
  ShardIndex destination = indexShards(plan.flows, /*source=*/false);
  StayingShards staying(plan);
  std::vector<uint32_t> lastSteps = plan.lastSteps();
  auto pieces = piecesByDevice(plan);
  std::vector<int64_t> devices;
  for (const auto &[device, own] : pieces)
    devices.push_back(device);
  std::vector<DeviceRuns> runs(devices.size());
  parallelFor(context, 0, devices.size(), [&](size_t i) {
    runs[i] = DeviceStorage(plan, source, destination, staying, lastSteps,
                            reading.info->pageBytes(), devices[i])
                  .find(pieces.at(devices[i]));
  });
  StoragePlacement out;
  out.windows = WindowFinder(reading, runs).find();
  std::vector<uint32_t> windowOf = windowOfSteps(out.windows);
  std::vector<std::vector<Event>> found(devices.size());
  parallelFor(context, 0, devices.size(), [&](size_t i) {
    found[i] =
        eventsOf(plan, source, destination, windowOf, std::move(runs[i]));
  });
  for (std::vector<Event> &own : found)
    out.events.insert(out.events.end(), own.begin(), own.end());
  llvm::stable_sort(out.events, [](const Event &a, const Event &b) {
    return a.key() < b.key();
  });
  return out;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// Writes the events of one op, which stand together.
void writeOp(const TransitionInfo &info, ArrayRef<Event> events,
             OpBuilder &builder) {
  const Event &first = events.front();
  ParamOp param = info.flows[first.flow].param;
  unsigned rank = param.numLeading() + 1;
  std::vector<int64_t> rows;
  for (const Event &event : events) {
    rows.insert(rows.end(), {event.device, event.device});
    for (unsigned d = 0; d < rank; ++d)
      rows.push_back(event.box[d].lo);
    for (unsigned d = 0; d < rank; ++d)
      rows.push_back(event.box[d].size());
  }
  RowSet set = compressRows(rows, PiecesAttr::numColumns(rank));
  auto pieces = PiecesAttr::get(builder.getContext(), set, rank);
  auto name = FlatSymbolRefAttr::get(param.getSymNameAttr());
  ArrayAttr states = stateNames(param, first.states);
  Location loc = info.op().getLoc();
  if (first.creates)
    CreateOp::create(builder, loc, name, states, pieces, int64_t(first.shard));
  else
    ReleaseOp::create(builder, loc, name, states, pieces, int64_t(first.shard));
}

/// Creates stand before the first op of their window, releases behind the last.
void writeOps(const TransitionInfo &info, const StoragePlacement &placement) {
  Block &body = info.op().getBody().front();
  SmallVector<Operation *> steps;
  for (Operation &op : body)
    steps.push_back(&op);
  OpBuilder builder(info.op().getContext());
  ArrayRef<Event> events(placement.events);
  while (!events.empty()) {
    const Event &first = events.front();
    ArrayRef<Event> own = events.take_while(
        [&](const Event &event) { return event.key() == first.key(); });
    events = events.drop_front(own.size());
    if (first.window == 0)
      builder.setInsertionPointToStart(&body);
    else if (const Window &window = placement.windows[first.window - 1];
             first.creates)
      builder.setInsertionPoint(steps[window.first]);
    else
      builder.setInsertionPointAfter(steps[window.last]);
    writeOp(info, own, builder);
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
    for (const Event &event : placement.events)
      ++(event.creates ? numCreated : numReleased);
    numWindows += placement.windows.size();
    writeOps(info, placement);
    return success();
  }

  void runOnOperation() override {
    const auto &readings = getAnalysis<TransportReading>();
    bool isFlat = false;
    if (failed(readings.forEach([&](const TransitionReading &reading) {
          isFlat |= reading.info->isFlat();
          return place(reading);
        })))
      return signalPassFailure();
    markAnalysesPreserved<TransitionAnalysis>();
    if (!isFlat)
      markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace dt
