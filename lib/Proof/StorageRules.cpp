//===- StorageRules.cpp - Storage that comes and goes ---------------------===//

#include "dt/Proof/StorageRules.h"

#include "MemberOverlaps.h"
#include "dt/Geometry/Prefetch.h"
#include "dt/Proof/StayingShards.h"
#include "dtrt/types/DeviceIndex.h"

#include <algorithm>
#include <tuple>

namespace dt {

namespace {

/// What a piece reads or writes of one shard of its device. Pieces lie anywhere
/// in memory: its step is here, so that it need not be looked at again.
struct Touch {
  const PlanPiece *piece = nullptr;
  uint32_t step = 0; // that writes it; the last that reads it
};

/// What happens to the storage of one shard.
struct ShardStorage {
  const Shard *shard = nullptr;
  std::vector<const PlanStorage *> rows; // none: it does not come or go
  std::vector<Touch> touches; // reads of a source, writes of a destination
  /// Of each, the members, and in the last dim what it spans in their storage.
  std::vector<Box> places;
};

/// What comes, or goes, on one device.
struct DeviceSide {
  bool creates = false;
  int64_t device = 0;
  std::vector<ShardStorage> shards; // by number there; none: nothing does
  std::vector<uint32_t> pieces;     // that may meet it, in order
};

/// A fault, and its place among those that are found: the least is said.
struct StorageFault {
  using Key = std::tuple<bool, uint32_t, int64_t, uint32_t>;
  Key key; // creates, flow, device, number of the shard there
  Fault fault;
};
using MaybeStorageFault = std::optional<StorageFault>;

void keepLeast(MaybeStorageFault found, MaybeStorageFault &least) {
  if (found && (!least || found->key < least->key))
    least = std::move(found);
}

class StorageChecker {
public:
  StorageChecker(const TransportPlan &plan, const StayingShards &staying)
      : plan(plan), staying(staying), lastSteps(plan.lastSteps()),
        source(indexShards(plan.flows, /*source=*/true)),
        destination(indexShards(plan.flows, /*source=*/false)) {}

  MaybeFault check(const ParallelFor &parallel) {
    for (const PlanStep &step : plan.steps)
      if (step.kind == PlanStep::Kind::Create ||
          step.kind == PlanStep::Kind::Release)
        if (auto fault = addRows(step))
          return fault;
    if (plan.isByTensor())
      if (auto fault = checkShared())
        return fault;
    if (auto fault = checkKept())
      return fault;
    addPieces();
    return checkDevices(parallel);
  }

private:
  MaybeFault addRows(const PlanStep &step);
  MaybeFault checkRow(const PlanStorage &row, const Shard &shard,
                      bool creates) const;
  MaybeFault checkShared() const;
  MaybeFault checkKept() const;
  DeviceSide *storageOf(bool creates, int64_t device);
  void addPieces();
  void addTouch(DeviceSide &own, const PlanPiece &piece) const;
  MaybeFault checkDevices(const ParallelFor &parallel);
  MaybeStorageFault checkDevice(DeviceSide &own) const;
  MaybeFault checkShard(const ShardStorage &storage, bool creates) const;
  MaybeFault checkOnce(const ShardStorage &storage, bool creates,
                       const std::vector<Box> &boxes) const;
  Fault tooManyParts(const ShardStorage &storage) const;
  std::string nameOf(uint32_t flow, const Box &box) const {
    return plan.flows[flow].name + toString(box);
  }

  const TransportPlan &plan;
  const StayingShards &staying;
  const std::vector<uint32_t> lastSteps;
  ShardIndex source, destination;
  dtrt::DeviceIndex devices;          // with storage that comes or goes
  std::vector<DeviceSide> storage[2]; // by device; source, destination
};

bool isInside(const std::vector<Interval> &intervals, Interval part) {
  return std::any_of(intervals.begin(), intervals.end(),
                     [&](Interval i) { return i.contains(part); });
}

/// A row names members of the shard and elements that they store.
MaybeFault StorageChecker::checkRow(const PlanStorage &row, const Shard &shard,
                                    bool creates) const {
  bool isThere = row.box.rank() == shard.numLeading + 1;
  for (unsigned d = 0; isThere && d < shard.numLeading; ++d)
    isThere = isInside(shard.dims[d], row.box[d]);
  Interval all = {0, shard.elementsPerMember()};
  Interval named = isThere ? row.box[shard.numLeading] : Interval();
  if (isThere && plan.isByTensor() && all.contains(named) && named != all)
    return Fault{row.op, std::string(creates ? "creates" : "releases") +
                             " a part of storage " + nameOf(row.flow, row.box) +
                             " on device " + std::to_string(row.device) +
                             ", which comes and goes " +
                             "whole: " + std::to_string(all.hi) + " elements"};
  if (isThere && all.contains(named))
    return std::nullopt;
  return Fault{row.op, std::string(creates ? "creates" : "releases") +
                           " storage " + nameOf(row.flow, row.box) +
                           " on device " + std::to_string(row.device) +
                           ", whose shard does not have it"};
}

MaybeFault StorageChecker::addRows(const PlanStep &step) {
  bool creates = step.kind == PlanStep::Kind::Create;
  for (size_t i = step.first; i < step.last; ++i) {
    const PlanStorage &row = plan.storage[i];
    const ShardIndex &index = creates ? destination : source;
    const std::vector<uint32_t> &own = index.numbersOf(row.flow, row.device);
    if (row.shard >= own.size())
      return Fault{row.op, std::string(creates ? "creates" : "releases") +
                               " storage of shard " +
                               std::to_string(row.shard) + " of " +
                               plan.flows[row.flow].name + " on device " +
                               std::to_string(row.device) + ", which has " +
                               std::to_string(int64_t(own.size()))};
    const Shard *shard = index.shardsOf(row.device)[own[row.shard]].shard;
    if (auto fault = checkRow(row, *shard, creates))
      return fault;
    uint32_t device = devices(row.device);
    if (device >= storage[creates].size())
      storage[creates].resize(device + 1);
    DeviceSide &there = storage[creates][device];
    if (there.shards.empty()) {
      there.creates = creates;
      there.device = row.device;
      there.shards.resize(index.shardsOf(row.device).size());
    }
    there.shards[own[row.shard]].shard = shard;
    there.shards[own[row.shard]].rows.push_back(&row);
  }
  return std::nullopt;
}

/// What comes or goes of one shared storage of a device.
struct SharedStorage {
  const PlanStorage *first = nullptr, *last = nullptr;
  int64_t named = 0, bytes = 0; // what rows name, all there is
};

/// (creates, device, number of the storage)
using SharedKey = std::tuple<bool, int64_t, uint32_t>;

/// All shared storages, with their bytes.
std::map<SharedKey, SharedStorage> sharedStorages(const TransportPlan &plan) {
  std::map<SharedKey, SharedStorage> out;
  for (const PlanFlow &flow : plan.flows)
    for (bool creates : {false, true})
      for (const FlowBuffers &buffers :
           creates ? flow.destinationBuffers : flow.sourceBuffers)
        for (const Holding &holding :
             creates ? *flow.destination : *flow.source)
          for (int64_t device : holding.devices)
            for (size_t state = 0; state < flow.storages.size(); ++state)
              if (buffers.states >> state & 1)
                out[{creates, device, flow.storages[state]}].bytes +=
                    holding.shard.numMembers() *
                    holding.shard.elementsPerMember() * buffers.width;
  return out;
}

/// Of each step, the first of those of the same kind that it ends.
std::vector<uint32_t> runStarts(const std::vector<PlanStep> &steps) {
  std::vector<uint32_t> out(steps.size(), 0);
  for (uint32_t i = 1; i < out.size(); ++i)
    out[i] = steps[i].kind == steps[i - 1].kind ? out[i - 1] : i;
  return out;
}

/// All of a storage comes, or goes, at once: with nothing but creates, or
/// releases, between the first and the last row.
MaybeFault StorageChecker::checkShared() const {
  std::map<SharedKey, SharedStorage> storages = sharedStorages(plan);
  std::vector<uint32_t> starts = runStarts(plan.steps);
  for (const PlanStorage &row : plan.storage) {
    const PlanFlow &flow = plan.flows[row.flow];
    bool creates = plan.steps[row.step].kind == PlanStep::Kind::Create;
    for (const FlowBuffers &buffers :
         creates ? flow.destinationBuffers : flow.sourceBuffers)
      for (size_t state = 0; state < flow.storages.size(); ++state) {
        if (!(row.states & buffers.states & uint64_t(1) << state))
          continue;
        SharedStorage &shared =
            storages[{creates, row.device, flow.storages[state]}];
        shared.first = shared.first ? shared.first : &row;
        shared.last = &row;
        shared.named += row.box.volume() * buffers.width;
      }
  }
  for (const auto &[key, shared] : storages) {
    if (!shared.first)
      continue;
    bool creates = std::get<0>(key);
    if (shared.named != shared.bytes ||
        starts[shared.last->step] > shared.first->step)
      return Fault{
          shared.first->op,
          std::string(creates ? "creates" : "releases") + " storage " +
              nameOf(shared.first->flow, shared.first->box) + " on device " +
              std::to_string(shared.first->device) +
              " without all that shares it: " + std::to_string(shared.named) +
              " of " + std::to_string(shared.bytes) +
              " bytes, expected all "
              "at once",
          shared.last->op, "the last of it is here"};
  }
  return std::nullopt;
}

/// In flat memory, what is said to stay does.
MaybeFault StorageChecker::checkKept() const {
  if (!plan.isFlat)
    return std::nullopt;
  for (const PlanStep &step : plan.steps)
    for (size_t i = step.first; step.keeps && i < step.last; ++i)
      if (const PlanPiece &piece = plan.pieces[i]; !staying.isKept(piece))
        return Fault{piece.op, "keeps " + nameOf(piece.flow, piece.box) +
                                   " on device " + std::to_string(piece.to) +
                                   ", where not all of its shard stays"};
  return std::nullopt;
}

/// What comes, or goes, on a device; nullptr: nothing does.
DeviceSide *StorageChecker::storageOf(bool creates, int64_t device) {
  std::optional<uint32_t> number = devices.find(device);
  if (!number || *number >= storage[creates].size() ||
      storage[creates][*number].shards.empty())
    return nullptr;
  return &storage[creates][*number];
}

/// Gives each device the pieces that it reads, or writes.
void StorageChecker::addPieces() {
  if (plan.storage.empty())
    return;
  for (const PlanStep &step : plan.steps) {
    if (step.kind == PlanStep::Kind::Create ||
        step.kind == PlanStep::Kind::Release)
      continue;
    for (size_t i = step.first; i < step.last; ++i) {
      const PlanPiece &piece = plan.pieces[i];
      if (DeviceSide *to = storageOf(/*creates=*/true, piece.to))
        to->pieces.push_back(uint32_t(i));
      if (!piece.atSource || step.kind == PlanStep::Kind::Zero)
        continue;
      if (DeviceSide *from = storageOf(/*creates=*/false, piece.from))
        from->pieces.push_back(uint32_t(i));
    }
  }
}

/// Where a piece lies in the shard that holds it, if that comes or goes.
void StorageChecker::addTouch(DeviceSide &own, const PlanPiece &piece) const {
  uint32_t flow = piece.flow % uint32_t(plan.flows.size());
  uint32_t number = own.creates ? piece.toShard : piece.fromShard;
  if (!own.creates && plan.flows[piece.flow].readsFrom != piece.flow) {
    flow = plan.flows[piece.flow].readsFrom;
    number = kUnplaced;
  }
  if (number == kUnplaced)
    number = (own.creates ? destination : source)
                 .findNumber(flow, own.device, piece.box)
                 .value_or(kUnplaced);
  if (number == kUnplaced || own.shards[number].rows.empty())
    return;
  ShardStorage &storage = own.shards[number];
  storage.touches.push_back(
      {&piece, own.creates ? piece.step : lastSteps[piece.step]});
  const unsigned leading = storage.shard->numLeading;
  Box &place = storage.places.emplace_back(leading + 1);
  for (unsigned d = 0; d < leading; ++d)
    place[d] = piece.box[d];
  place[leading] = *localSpan(*storage.shard, piece.box);
}

/// Of the faults of all devices, the least.
MaybeFault StorageChecker::checkDevices(const ParallelFor &parallel) {
  std::vector<DeviceSide *> all;
  for (std::vector<DeviceSide> &side : storage)
    for (DeviceSide &own : side)
      if (!own.shards.empty())
        all.push_back(&own);
  std::vector<MaybeStorageFault> faults(all.size());
  parallel(all.size(), [&](size_t i) { faults[i] = checkDevice(*all[i]); });
  MaybeStorageFault least;
  for (MaybeStorageFault &fault : faults)
    keepLeast(std::move(fault), least);
  return least ? MaybeFault(std::move(least->fault)) : std::nullopt;
}

MaybeStorageFault StorageChecker::checkDevice(DeviceSide &own) const {
  for (size_t i = 0; i < own.pieces.size(); ++i) {
    if (i + kPrefetched < own.pieces.size())
      prefetch(plan.pieces[own.pieces[i + kPrefetched]]);
    addTouch(own, plan.pieces[own.pieces[i]]);
  }
  MaybeStorageFault least;
  for (uint32_t number = 0; number < own.shards.size(); ++number) {
    const ShardStorage &shard = own.shards[number];
    if (shard.rows.empty())
      continue;
    if (auto fault = checkShard(shard, own.creates))
      keepLeast(StorageFault{{own.creates, shard.rows.front()->flow, own.device,
                              number},
                             std::move(*fault)},
                least);
  }
  own.shards = {}; // none is looked at again
  return least;
}

Fault StorageChecker::tooManyParts(const ShardStorage &storage) const {
  const PlanStorage &row = *storage.rows.front();
  return Fault{row.op, "creates or releases storage of " +
                           plan.flows[row.flow].name + " on device " +
                           std::to_string(row.device) +
                           " in more parts than the limit of " +
                           std::to_string(kMaxPieces)};
}

/// No element of a state comes or goes twice.
MaybeFault StorageChecker::checkOnce(const ShardStorage &storage, bool creates,
                                     const std::vector<Box> &boxes) const {
  if (areApart(boxes))
    return std::nullopt;
  WorkLimit limit(kMaxPieces);
  for (auto [a, b] : memberOverlaps(boxes, boxes, limit)) {
    const PlanStorage &first = *storage.rows[a], &second = *storage.rows[b];
    if (a >= b || !(first.states & second.states))
      continue;
    Fault fault;
    fault.op = second.op;
    fault.text = std::string(creates ? "creates" : "releases") + " storage " +
                 nameOf(second.flow, intersect(first.box, second.box)) +
                 " on device " + std::to_string(second.device) +
                 " a second time";
    fault.other = first.op;
    fault.note = "the first time is here";
    return fault;
  }
  if (limit.isExceeded())
    return tooManyParts(storage);
  return std::nullopt;
}

MaybeFault StorageChecker::checkShard(const ShardStorage &storage,
                                      bool creates) const {
  std::vector<Box> rows;
  rows.reserve(storage.rows.size());
  for (const PlanStorage *row : storage.rows)
    rows.push_back(row->box);
  if (auto fault = checkOnce(storage, creates, rows))
    return fault;
  WorkLimit limit(kMaxPieces);
  for (auto [r, t] : memberOverlaps(rows, storage.places, limit)) {
    const PlanStorage &row = *storage.rows[r];
    const Touch &touch = storage.touches[t];
    if (creates ? row.step < touch.step : touch.step < row.step)
      continue;
    const PlanPiece &piece = *touch.piece;
    const PlanFlow &flow = plan.flows[piece.flow % plan.flows.size()];
    uint64_t states = creates ? flow.states : flow.readStates;
    if (!(row.states & states) ||
        !touches(*localView(*storage.shard, piece.box),
                 rows[r][rows[r].rank() - 1]))
      continue;
    return Fault{piece.op,
                 std::string(creates ? "writes " : "reads ") + flow.name +
                     toString(piece.box) + " on device " +
                     std::to_string(row.device) +
                     (creates ? " before its storage is created"
                              : " after its storage is released"),
                 row.op, creates ? "created here" : "released here"};
  }
  if (limit.isExceeded())
    return tooManyParts(storage);
  return std::nullopt;
}

bool touchesFrom(const LocalView &view, size_t dim, int64_t offset,
                 Interval elements) {
  if (dim == view.sizes.size())
    return elements.lo <= offset && offset < elements.hi;
  int64_t span = 1; // of all inner dims
  for (size_t d = dim + 1; d < view.sizes.size(); ++d)
    span += (view.sizes[d] - 1) * view.strides[d];
  int64_t stride = std::max<int64_t>(1, view.strides[dim]);
  // Index i covers elements [offset + i stride, offset + i stride + span).
  int64_t before = elements.lo - span - offset,
          after = elements.hi - 1 - offset;
  int64_t first = before < 0 ? 0 : before / stride + 1;
  int64_t last = after < 0 ? -1 : std::min(view.sizes[dim] - 1, after / stride);
  for (int64_t i = first; i <= last; ++i) {
    int64_t at = offset + i * stride;
    // Its first element lies inside: all but the two at the ends do.
    if (elements.lo <= at || touchesFrom(view, dim + 1, at, elements))
      return true;
  }
  return false;
}

} // namespace

Interval hullOf(const LocalView &view) {
  int64_t last = view.offset;
  for (size_t d = 0; d < view.sizes.size(); ++d)
    last += (view.sizes[d] - 1) * view.strides[d];
  return {view.offset, last + 1};
}

bool touches(const LocalView &view, Interval elements) {
  if (std::is_sorted(view.strides.rbegin(), view.strides.rend()))
    return touchesFrom(view, 0, view.offset, elements);
  // The dims as they lie in memory, so that few indices have to be looked at.
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t d = 0; d < view.sizes.size(); ++d)
    dims.emplace_back(view.strides[d], view.sizes[d]);
  std::sort(dims.rbegin(), dims.rend());
  LocalView sorted = {view.offset, {}, {}};
  for (auto [stride, size] : dims) {
    sorted.strides.push_back(stride);
    sorted.sizes.push_back(size);
  }
  return touchesFrom(sorted, 0, sorted.offset, elements);
}

MaybeFault checkStorage(const TransportPlan &plan, const StayingShards &staying,
                        const ParallelFor &parallel) {
  return StorageChecker(plan, staying).check(parallel);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

namespace {

/// Bytes per element of the states in a mask.
int64_t widthOf(const std::vector<FlowBuffers> &buffers, uint64_t states) {
  int64_t width = 0;
  for (const FlowBuffers &buffer : buffers)
    width += buffer.width * __builtin_popcountll(buffer.states & states);
  return width;
}

void addShards(const std::vector<Holding> &holdings,
               const std::vector<FlowBuffers> &buffers, bool isSource,
               std::map<int64_t, DeviceMemory> &out) {
  int64_t width = widthOf(buffers, ~uint64_t(0));
  for (const Holding &holding : holdings)
    for (int64_t device : holding.devices) {
      DeviceMemory &memory = out[device];
      (isSource ? memory.source : memory.destination) +=
          holding.shard.numMembers() * holding.shard.elementsPerMember() *
          width;
    }
}

} // namespace

std::map<int64_t, DeviceMemory> measureSides(const TransportPlan &plan) {
  std::map<int64_t, DeviceMemory> out;
  for (const PlanFlow &flow : plan.flows) {
    addShards(*flow.source, flow.sourceBuffers, /*isSource=*/true, out);
    addShards(*flow.destination, flow.destinationBuffers, /*isSource=*/false,
              out);
  }
  dtrt::DeviceIndex devices;
  std::vector<int64_t> staging; // by device
  for (const PlanSlot &slot : plan.slots)
    if (slot.offset >= 0) {
      uint32_t device = devices(slot.device);
      staging.resize(devices.size());
      staging[device] = std::max(staging[device], slot.offset + slot.bytes);
    }
  for (uint32_t device = 0; device < devices.size(); ++device)
    out[devices.all()[device]].staging = staging[device];
  return out;
}

std::map<int64_t, DeviceMemory> measureMemory(const TransportPlan &plan,
                                              const StayingShards &staying) {
  std::map<int64_t, DeviceMemory> out = measureSides(plan);
  auto bytesOf = [&](const PlanStorage &row, bool creates) {
    const PlanFlow &flow = plan.flows[row.flow];
    return row.box.volume() *
           widthOf(creates ? flow.destinationBuffers : flow.sourceBuffers,
                   row.states);
  };
  struct Live {
    DeviceMemory *memory = nullptr;
    int64_t bytes = 0; // of both sides
    void notePeak() {
      memory->peak = std::max(memory->peak, bytes + memory->staging);
    }
  };
  dtrt::DeviceIndex devices;
  std::vector<Live> known; // by device
  auto liveOf = [&](int64_t device) -> Live & {
    uint32_t number = devices(device);
    if (number == known.size())
      known.push_back({&out[device], 0});
    return known[number];
  };
  for (const auto &[device, memory] : out) {
    int64_t &bytes = liveOf(device).bytes;
    bytes = memory.source + memory.destination;
    for (uint32_t flow = 0; flow < plan.flows.size(); ++flow)
      bytes -= staying.bytesOf(flow, device);
  }
  for (const PlanStep &step : plan.steps)
    if (step.kind == PlanStep::Kind::Create)
      for (size_t i = step.first; i < step.last; ++i)
        liveOf(plan.storage[i].device).bytes -= bytesOf(plan.storage[i], true);
  for (Live &live : known)
    live.notePeak();
  for (const PlanStep &step : plan.steps) {
    bool creates = step.kind == PlanStep::Kind::Create;
    if (!creates && step.kind != PlanStep::Kind::Release)
      continue;
    for (size_t i = step.first; i < step.last; ++i) {
      const PlanStorage &row = plan.storage[i];
      Live &live = liveOf(row.device);
      live.bytes += (creates ? 1 : -1) * bytesOf(row, creates);
      live.notePeak();
    }
  }
  return out;
}

MaybeFault checkMemory(const std::map<int64_t, DeviceMemory> &memory,
                       const MemoryLimits &limits) {
  for (const auto &[device, held] : memory) {
    int64_t larger = std::max(held.source, held.destination);
    Fault fault;
    if (limits.mode == MemoryMode::Flat &&
        held.peak > larger + limits.staging) {
      fault.text = "holds " + std::to_string(held.peak - larger) +
                   " bytes above the larger of source and destination on "
                   "device " +
                   std::to_string(device) + ", more than the limit of " +
                   std::to_string(limits.staging) + " (memory.staging)";
      return fault;
    }
    if (limits.device > 0 && held.peak > limits.device) {
      fault.text = "needs " + std::to_string(held.peak) + " bytes on device " +
                   std::to_string(device) + " (" + std::to_string(held.source) +
                   " source, " + std::to_string(held.destination) +
                   " destination, " + std::to_string(held.staging) +
                   " staging), more than the limit of " +
                   std::to_string(limits.device) + " (memory.device)";
      return fault;
    }
  }
  return std::nullopt;
}

} // namespace dt
