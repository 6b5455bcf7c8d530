//===- GpuExecutor.cpp - One device's program on a GPU --------------------===//
//
// Every lane of the program's steps is a stream. Steps of two lanes that touch
// the same bytes, one of them writing, are ordered by events. With a transport
// that has streams, a wave goes on the wire's stream before the copies that run
// beside it are launched, so that its kernel finds room; the host enqueues
// waves ahead of the GPU and looks at a counter that the GPU sets after each.
//
//===----------------------------------------------------------------------===//

#include "dtrt/cuda/GpuExecutor.h"
#include "dtrt/core/BoxTable.h"
#include "dtrt/core/CopyTable.h"
#include "dtrt/core/MemorySource.h"
#include "dtrt/cuda/GpuMemory.h"
#include "dtrt/format/ShardView.h"

#include "BoxKernels.h"
#include "GpuSteps.h"
#include "Looks.h"
#include "Stream.h"

#include <algorithm>
#include <atomic>
#include <chrono>

namespace dtrt {

namespace {

using Clock = std::chrono::steady_clock;

/// Waves that the host may be ahead of the GPU. Enough for the host to be late
/// now and then; few enough that neither the driver's queue nor the network
/// library's pool of operations fills up, where a call would block.
constexpr size_t kAhead = 8;
/// Copies beside a wave get one in so many multiprocessors per lane, so that
/// the wave's kernel, which needs whole ones, always finds some.
constexpr uint32_t kCopyShare = 4;
/// How long a failed transfer may take to come to rest.
constexpr std::chrono::seconds kRest(3);
/// A transfer is so small a part longer, since the host looks now and then.
constexpr int kWaitParts = 1000;

/// Memory that goes with this.
struct Block {
  MemorySource source;
  std::byte *data = nullptr;

  Status allocate(MemorySource from, uint64_t bytes, const char *what) {
    source = std::move(from);
    data = bytes > 0 ? source.allocate(bytes) : nullptr;
    if (bytes > 0 && !data)
      return makeError(ErrorCode::OutOfMemory, "cannot allocate ", bytes,
                       " bytes of ", what);
    return {};
  }
  void leak() { data = nullptr; }
  ~Block() {
    if (data)
      source.free(data);
  }
};

/// The rows of one step in the table of all.
struct Rows {
  uint64_t first = 0;
  uint32_t count = 0;
  uint64_t tiles = 0;
};

} // namespace

/// Shared with what enqueues, which may outlive a transfer that is given up.
struct GpuExecutor::State : std::enable_shared_from_this<State> {
  State(LocalStorage &storage, Transport &transport)
      : storage(storage), transport(transport), streams(transport.onStreams()),
        device(storage.program().device) {}
  ~State();

  Status prepare(const GpuExecutorOptions &options);
  Status checkRoom() const;
  Status prepareArena(const GpuExecutorOptions &options);
  void countRegions(Traffic &traffic) const;
  Status prepareTable();
  Status prepareQueues();
  Status runAfter(cudaStream_t stream);
  Status run();

  // Enqueueing.
  Status begin();
  Status enqueueAll();
  Status enqueueGroup(size_t index);
  Status enqueueEarlier(size_t index);
  Status enqueueAhead(size_t index);
  Status bring(GpuLane lane, size_t last);
  Status bringNeeded(size_t index);
  Status enqueueInOrder(size_t index);
  Status enqueue(size_t index);
  Status orderAfter(size_t index);
  Status launch(const GpuStep &step, const Rows &rows, cudaStream_t stream);
  Status countGroup(const GpuStep &step);
  Status waitForRoom(size_t group);
  Status runOnHost(size_t index);
  std::optional<CollectiveCall> callOf(const GpuStep &step) const;
  Status named(size_t index, const Status &why) const;

  // Memory that comes and goes.
  Status checkAddresses() const;
  Status changeStorage(size_t index);
  Status awaitSteps(const std::array<size_t, kNumGpuLanes> &last) const;
  Status giveBack();

  // As one graph.
  Status capture();
  Status captureLanes();
  void dropGraph();

  // Looking on.
  Status runWithStreams();
  Status runWithHost();
  bool reached(size_t group) const;
  Result<bool> atRest() const;
  Status drain(bool failed);
  void countBytes();
  void leak();

  /// Set where what is on streams goes on after a failure: copies do nothing
  /// then, as the shards may be gone. Null: it does not.
  volatile uint64_t *stopFlag() const {
    return streams->outlastsAbort()
               ? reinterpret_cast<volatile uint64_t *>(counter.data) + 1
               : nullptr;
  }
  cudaStream_t stream(GpuLane lane) const { return lanes[size_t(lane)].get(); }
  const GpuStep &groupStep(size_t group) const {
    return steps.list[groupSteps[group]];
  }

  LocalStorage &storage;
  Transport &transport;
  StreamTransport *streams; // the transport, if it has them
  const uint32_t device;
  int gpu = 0;
  uint32_t fullBlocks = 1, fewBlocks = 1;
  Block arenaBlock;
  std::byte *arena = nullptr;
  /// By instruction and message, until they are the steps'.
  std::vector<std::vector<MessageRegions>> regions;
  GpuSteps steps;
  std::vector<size_t> groupSteps;
  std::vector<size_t> inOrder;              // groups, and the steps of the host
  std::vector<size_t> bySide[kNumGpuLanes]; // steps of each lane
  Block table;
  std::vector<Rows> rows;    // by step
  std::vector<Event> events; // likewise: it has ended
  Stream lanes[kNumGpuLanes];
  Stream counting;
  Block numbers; // 1, 2, 3...: on the GPU
  Block counter; // of the host: groups that have ended; whether to stop
  Event ready;   // what the trainer had under way
  bool waitsForReady = false;
  Event begun;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t graphRun = nullptr;
  bool wantsGraph = false;
  bool capturing = false;

  // Of one run.
  size_t next[kNumGpuLanes] = {}; // in bySide
  std::vector<size_t> toRelease;  // steps that have yet to be done
  /// By lane, the last step of each other lane that it has waited for.
  std::array<size_t, kNumGpuLanes> seen[kNumGpuLanes];
  ExecutionStats stats;
};

//===----------------------------------------------------------------------===//
// Preparing
//===----------------------------------------------------------------------===//

/// Before anything is allocated: whether the GPU has what the plan needs at
/// least beside its shards, and who has the rest.
Status GpuExecutor::State::checkRoom() const {
  auto room = roomOn(gpu);
  DTRT_RETURN_IF_ERROR(room);
  const RankProgram &program = storage.program();
  uint64_t staging = program.stagingBytes;
  uint64_t buffers =
      streams ? streams->leastBytesFor(storage.common(), program) : 0;
  auto tables = copyTableBytes(storage.common(), program);
  DTRT_RETURN_IF_ERROR(tables);
  uint64_t needed = staging + buffers + *tables;
  if (needed <= room->free)
    return {};
  return makeError(
      ErrorCode::OutOfMemory, "device ", device, ": GPU ", gpu, " has ",
      room->free, " of ", room->total, " bytes free, at least ", needed,
      " are needed, ", needed - room->free, " more: ", staging, " of staging, ",
      *tables, " of tables, ", buffers,
      " of the transport's buffers; all else is with this process and others "
      "on this GPU, what torch's allocator keeps unused too "
      "(torch.cuda.empty_cache gives that back)");
}

Status GpuExecutor::State::prepareArena(const GpuExecutorOptions &options) {
  const RankProgram &program = storage.program();
  if (streams) {
    if (!options.plan)
      return makeError("no plan to find the other ends of messages in");
    auto traffic = trafficOf(*options.plan, program);
    DTRT_RETURN_IF_ERROR(traffic);
    if (!regions.empty())
      countRegions(*traffic);
    auto given = streams->prepare(*traffic);
    DTRT_RETURN_IF_ERROR(given);
    arena = *given;
  } else {
    DTRT_RETURN_IF_ERROR(
        arenaBlock.allocate(options.staging, program.stagingBytes, "staging"));
    arena = arenaBlock.data;
  }
  if (program.stagingBytes > 0)
    storage.reserve(program.stagingBytes);
  return {};
}

void GpuExecutor::State::countRegions(Traffic &traffic) const {
  size_t group = 0;
  const auto &instructions = storage.program().instructions;
  for (size_t i = 0; i < instructions.size(); ++i) {
    if (instructions[i].op != Opcode::Group)
      continue;
    auto &messages = traffic.groups[group++];
    for (size_t m = 0; m < messages.size(); ++m)
      messages[m].regions = regions[i][m].list.size();
  }
}

Status GpuExecutor::State::prepareTable() {
  std::vector<BoxCopy> all;
  for (GpuStep &step : steps.list) {
    const std::vector<BoxCopy> &own = step.boxes.copies();
    if (own.size() > UINT32_MAX)
      return makeError("a box table of ", own.size(), " rows");
    rows.push_back({all.size(), uint32_t(own.size()), step.boxes.tiles()});
    all.insert(all.end(), own.begin(), own.end());
    step.boxes = BoxTable();
  }
  uint64_t bytes = all.size() * sizeof(BoxCopy);
  DTRT_RETURN_IF_ERROR(table.allocate(gpuMemory(gpu), bytes, "box table"));
  if (bytes == 0)
    return {};
  return gpuCopies(gpu)(table.data,
                        reinterpret_cast<const std::byte *>(all.data()), bytes);
}

Status GpuExecutor::State::prepareQueues() {
  for (size_t lane = 0; lane < kNumGpuLanes; ++lane)
    DTRT_RETURN_IF_ERROR(lanes[lane].create(
        GpuLane(lane) == GpuLane::Wire ? Urgency::Most : Urgency::Least));
  for (size_t i = 0; i < steps.list.size(); ++i) {
    const GpuStep &step = steps.list[i];
    events.emplace_back();
    if (step.isOfHost() || step.op == Opcode::Group)
      inOrder.push_back(i);
    if (step.isOfHost()) {
      wantsGraph = false;
      continue;
    }
    DTRT_RETURN_IF_ERROR(events.back().create());
    bySide[size_t(step.lane)].push_back(i);
    if (step.op == Opcode::Group)
      groupSteps.push_back(i);
  }
  DTRT_RETURN_IF_ERROR(ready.create());
  DTRT_RETURN_IF_ERROR(begun.create());
  if (!streams)
    return {};
  DTRT_RETURN_IF_ERROR(counting.create());
  std::vector<uint64_t> values(steps.groups + 1);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = i;
  uint64_t bytes = values.size() * sizeof(uint64_t);
  DTRT_RETURN_IF_ERROR(numbers.allocate(gpuMemory(gpu), bytes, "numbers"));
  DTRT_RETURN_IF_ERROR(counter.allocate(pinnedMemory(), 2 * sizeof(uint64_t),
                                        "the host's memory"));
  return gpuCopies(gpu)(
      numbers.data, reinterpret_cast<const std::byte *>(values.data()), bytes);
}

Status GpuExecutor::State::prepare(const GpuExecutorOptions &options) {
  DTRT_RETURN_IF_ERROR(checkAddresses());
  auto current = currentGpu();
  DTRT_RETURN_IF_ERROR(current);
  gpu = *current;
  UseGpu use(gpu);
  auto blocks = fullGrid(gpu);
  DTRT_RETURN_IF_ERROR(blocks);
  auto cores = multiprocessors(gpu);
  DTRT_RETURN_IF_ERROR(cores);
  fullBlocks = *blocks;
  fewBlocks = std::max(1u, *cores / kCopyShare);
  wantsGraph = options.graph && streams;
  if (transport.caps().usesRegions) {
    auto found = regionsOf(storage.common(), storage.program());
    if (!found.ok())
      return makeError("device ", device, ": ", found.status());
    regions = std::move(*found);
  }
  DTRT_RETURN_IF_ERROR(checkRoom());
  DTRT_RETURN_IF_ERROR(prepareArena(options));
  auto made = stepsOf(storage, arena, std::move(regions));
  DTRT_RETURN_IF_ERROR(made);
  steps = std::move(*made);
  DTRT_RETURN_IF_ERROR(
      transport.prepareCollectives(storage.common().memberSets));
  DTRT_RETURN_IF_ERROR(prepareTable());
  return prepareQueues();
}

/// A call that came back after the run had failed may have put something on a
/// stream since.
GpuExecutor::State::~State() {
  UseGpu use(gpu);
  dropGraph();
  (void)drain(/*failed=*/true);
}

//===----------------------------------------------------------------------===//
// Enqueueing
//===----------------------------------------------------------------------===//

Status GpuExecutor::State::named(size_t index, const Status &why) const {
  const GpuStep &step = steps.list[index];
  return makeError("device ", device, ", instruction ", step.first, " (",
                   opcodeName(step.op), "): ", why);
}

/// Nothing of this run is on any stream yet.
Status GpuExecutor::State::begin() {
  std::fill(std::begin(next), std::end(next), 0);
  toRelease.clear();
  for (auto &lane : seen)
    lane.fill(kNoStep);
  if (!waitsForReady)
    return {};
  for (const Stream &lane : lanes)
    DTRT_RETURN_IF_ERROR(ready.orderBefore(lane.get()));
  waitsForReady = false;
  return {};
}

/// The lane's steps up to this one, and what they need, in order.
Status GpuExecutor::State::bring(GpuLane lane, size_t last) {
  const std::vector<size_t> &own = bySide[size_t(lane)];
  size_t &at = next[size_t(lane)];
  while (at < own.size() && own[at] <= last) {
    size_t index = own[at];
    DTRT_RETURN_IF_ERROR(bringNeeded(index));
    ++at;
    Status status = enqueue(index);
    if (!status.ok())
      return named(index, status);
  }
  return {};
}

Status GpuExecutor::State::bringNeeded(size_t index) {
  const GpuStep &step = steps.list[index];
  for (size_t lane = 0; lane < kNumGpuLanes; ++lane)
    if (step.after[lane] != kNoStep)
      DTRT_RETURN_IF_ERROR(bring(GpuLane(lane), step.after[lane]));
  return {};
}

/// Makes the step's stream wait for what it needs of other lanes. A group that
/// the host has run has ended.
Status GpuExecutor::State::orderAfter(size_t index) {
  const GpuStep &step = steps.list[index];
  auto &known = seen[size_t(step.lane)];
  for (size_t lane = 0; lane < kNumGpuLanes; ++lane) {
    size_t earlier = step.after[lane];
    if (earlier == kNoStep || (!streams && GpuLane(lane) == GpuLane::Wire) ||
        (known[lane] != kNoStep && known[lane] >= earlier))
      continue;
    known[lane] = earlier;
    DTRT_RETURN_IF_ERROR(events[earlier].orderBefore(stream(step.lane)));
  }
  return {};
}

/// Copies before the first group and after the last one have the GPU to
/// themselves.
Status GpuExecutor::State::launch(const GpuStep &step, const Rows &rows,
                                  cudaStream_t stream) {
  bool alone = step.lane != GpuLane::Local &&
               (step.group == 0 || step.group == steps.groups);
  auto *first = reinterpret_cast<const BoxCopy *>(table.data) + rows.first;
  return launchBoxCopies(first, rows.count, rows.tiles,
                         alone || !streams || steps.groups == 0 ? fullBlocks
                                                                : fewBlocks,
                         stream, streams ? stopFlag() : nullptr);
}

Status GpuExecutor::State::enqueue(size_t index) {
  const GpuStep &step = steps.list[index];
  if (step.op == Opcode::Group)
    return streams ? enqueueGroup(index) : runOnHost(index);
  DTRT_RETURN_IF_ERROR(orderAfter(index));
  DTRT_RETURN_IF_ERROR(launch(step, rows[index], stream(step.lane)));
  return events[index].record(stream(step.lane));
}

/// The host's share in one wave, while it is this much ahead.
Status GpuExecutor::State::waitForRoom(size_t group) {
  if (capturing || group < kAhead)
    return {};
  Looks looks(kWaitParts);
  while (!reached(group - kAhead)) {
    if (streams->stopped())
      return makeError(ErrorCode::Cancelled, "the transfer was stopped");
    looks.pause();
  }
  return {};
}

Status GpuExecutor::State::enqueueGroup(size_t index) {
  const GpuStep &step = steps.list[index];
  DTRT_RETURN_IF_ERROR(waitForRoom(step.group));
  DTRT_RETURN_IF_ERROR(orderAfter(index));
  auto call = callOf(step);
  DTRT_RETURN_IF_ERROR(
      call
          ? streams->enqueueCollective(step.group, *call, stream(GpuLane::Wire))
          : streams->enqueue(step.group, step.messages, stream(GpuLane::Wire)));
  DTRT_RETURN_IF_ERROR(events[index].record(stream(GpuLane::Wire)));
  return countGroup(step);
}

/// On a stream of its own, for which no wave waits.
Status GpuExecutor::State::countGroup(const GpuStep &step) {
  DTRT_RETURN_IF_ERROR(
      events[groupSteps[step.group]].orderBefore(counting.get()));
  auto *number =
      reinterpret_cast<const uint64_t *>(numbers.data) + step.group + 1;
  return cudaStatus(cudaMemcpyAsync(counter.data, number, sizeof *number,
                                    cudaMemcpyDeviceToHost, counting.get()),
                    "cannot count a wave");
}

/// All steps of the program before this one.
Status GpuExecutor::State::enqueueEarlier(size_t index) {
  for (GpuLane lane : {GpuLane::Unpacking, GpuLane::Packing, GpuLane::Local})
    DTRT_RETURN_IF_ERROR(bring(lane, index));
  return {};
}

Status GpuExecutor::State::enqueueAll() {
  UseGpu use(gpu);
  for (size_t index : inOrder)
    DTRT_RETURN_IF_ERROR(enqueueInOrder(index));
  return enqueueEarlier(SIZE_MAX - 1);
}

/// A group, or what the host does: it comes behind all steps before it, and
/// before all that follow.
Status GpuExecutor::State::enqueueInOrder(size_t index) {
  if (steps.list[index].isOfHost()) {
    DTRT_RETURN_IF_ERROR(enqueueEarlier(index));
    Status status = changeStorage(index);
    return status.ok() ? status : named(index, status);
  }
  DTRT_RETURN_IF_ERROR(bringNeeded(index));
  // A wave that the host waits for has its neighbours on their way before.
  if (!streams) {
    DTRT_RETURN_IF_ERROR(enqueueEarlier(index));
    DTRT_RETURN_IF_ERROR(enqueueAhead(index));
  }
  DTRT_RETURN_IF_ERROR(bring(GpuLane::Wire, index));
  return enqueueEarlier(index);
}

/// Packs up to the next group that wait for nothing that has yet to start.
Status GpuExecutor::State::enqueueAhead(size_t index) {
  for (size_t i = index + 1; i < steps.list.size(); ++i) {
    const GpuStep &step = steps.list[i];
    if (step.op == Opcode::Group || step.isOfHost())
      return {};
    if (step.op != Opcode::Pack)
      continue;
    for (size_t earlier : step.after)
      if (earlier != kNoStep && earlier >= index)
        return {};
    DTRT_RETURN_IF_ERROR(bring(GpuLane::Packing, i));
  }
  return {};
}

/// Of a group that is a library's collective.
std::optional<CollectiveCall>
GpuExecutor::State::callOf(const GpuStep &step) const {
  const auto &from = storage.program().instructions[step.first].collective;
  if (!from)
    return std::nullopt;
  CollectiveCall call = collectiveCall(
      storage.common().memberSets[from->members].size(), device, *from, arena);
  call.messages = &step.messages;
  return call;
}

Status GpuExecutor::State::runOnHost(size_t index) {
  const GpuStep &step = steps.list[index];
  for (size_t earlier : step.after)
    if (earlier != kNoStep)
      DTRT_RETURN_IF_ERROR(
          cudaStatus(cudaEventSynchronize(events[earlier].get()),
                     "a pack or unpack failed"));
  auto begin = Clock::now();
  auto call = callOf(step);
  Status status =
      call ? transport.collective(*call) : transport.group(step.messages);
  std::chrono::duration<double> time = Clock::now() - begin;
  stats.groupSeconds += time.count();
  return status;
}

//===----------------------------------------------------------------------===//
// Memory that comes and goes
//===----------------------------------------------------------------------===//

/// The table of copies is made before there is memory.
Status GpuExecutor::State::checkAddresses() const {
  if (storage.common().summary.mode != MemoryMode::Flat)
    return {};
  for (Side side : {Side::Source, Side::Destination})
    for (uint32_t shard = 0; shard < storage.shards(side).size(); ++shard)
      for (unsigned state : statesOf(storage.shards(side)[shard].states))
        for (int64_t m = 0; m < storage.members(side, shard); ++m)
          if (storage.memberBytes(side, shard, state) > 0 &&
              !storage.data(side, shard, state, m))
            return makeError(
                "device ", device, ": a ", sideName(side),
                " tensor has no addresses yet, expected those of a pool of "
                "pages for a plan of mode flat on a GPU");
  return {};
}

/// Until these steps have ended; none of them is a group that the host runs.
Status GpuExecutor::State::awaitSteps(
    const std::array<size_t, kNumGpuLanes> &last) const {
  Looks looks(kWaitParts);
  for (size_t step : last)
    while (step != kNoStep) {
      cudaError_t found = cudaEventQuery(events[step].get());
      if (found == cudaSuccess)
        break;
      if (found != cudaErrorNotReady)
        return cudaStatus(found, "work on a GPU failed");
      if (streams && streams->stopped())
        return makeError(ErrorCode::Cancelled, "the transfer was stopped");
      looks.pause();
    }
  return {};
}

/// What has been released, when all that was put on streams has ended.
Status GpuExecutor::State::giveBack() {
  for (size_t index : toRelease)
    for (const Segment &segment : steps.list[index].storage) {
      Status status = storage.release(segment);
      if (!status.ok())
        return named(index, status);
    }
  toRelease.clear();
  return {};
}

/// All steps before this one are on streams, and none behind it. A release
/// waits until its pages are of use.
Status GpuExecutor::State::changeStorage(size_t index) {
  if (steps.list[index].op == Opcode::Release) {
    toRelease.push_back(index);
    return {};
  }
  if (!toRelease.empty()) {
    std::array<size_t, kNumGpuLanes> last;
    last.fill(kNoStep);
    for (size_t lane = 0; lane < kNumGpuLanes; ++lane)
      if (next[lane] > 0 && (streams || GpuLane(lane) != GpuLane::Wire))
        last[lane] = bySide[lane][next[lane] - 1];
    DTRT_RETURN_IF_ERROR(awaitSteps(last));
    DTRT_RETURN_IF_ERROR(giveBack());
  }
  for (const Segment &segment : steps.list[index].storage)
    DTRT_RETURN_IF_ERROR(storage.create(segment));
  return {};
}

//===----------------------------------------------------------------------===//
// As one graph
//===----------------------------------------------------------------------===//

/// All lanes fork from the wire's, and join it in the end.
Status GpuExecutor::State::captureLanes() {
  cudaStream_t wire = stream(GpuLane::Wire);
  DTRT_RETURN_IF_ERROR(begun.record(wire));
  DTRT_RETURN_IF_ERROR(begun.orderBefore(counting.get()));
  for (GpuLane lane : {GpuLane::Packing, GpuLane::Unpacking, GpuLane::Local})
    DTRT_RETURN_IF_ERROR(begun.orderBefore(stream(lane)));
  DTRT_RETURN_IF_ERROR(enqueueAll());
  for (cudaStream_t branch :
       {counting.get(), stream(GpuLane::Packing), stream(GpuLane::Unpacking),
        stream(GpuLane::Local)}) {
    DTRT_RETURN_IF_ERROR(begun.record(branch));
    DTRT_RETURN_IF_ERROR(begun.orderBefore(wire));
  }
  return {};
}

Status GpuExecutor::State::capture() {
  UseGpu use(gpu);
  cudaStream_t wire = stream(GpuLane::Wire);
  DTRT_RETURN_IF_ERROR(
      cudaStatus(cudaStreamBeginCapture(wire, cudaStreamCaptureModeRelaxed),
                 "cannot capture the transfer"));
  capturing = true;
  Status status = captureLanes();
  capturing = false;
  cudaError_t ended = cudaStreamEndCapture(wire, &graph);
  DTRT_RETURN_IF_ERROR(status);
  DTRT_RETURN_IF_ERROR(cudaStatus(ended, "cannot capture the transfer"));
  return cudaStatus(cudaGraphInstantiate(&graphRun, graph, 0),
                    "cannot make a graph of the transfer");
}

void GpuExecutor::State::dropGraph() {
  if (graphRun)
    cudaGraphExecDestroy(graphRun);
  if (graph)
    cudaGraphDestroy(graph);
  graphRun = nullptr;
  graph = nullptr;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

Status GpuExecutor::State::runAfter(cudaStream_t trainer) {
  UseGpu use(gpu);
  DTRT_RETURN_IF_ERROR(ready.record(trainer));
  waitsForReady = true;
  if (storage.common().summary.mode != MemoryMode::Flat)
    return {};
  // Memory may go before the first step.
  return cudaStatus(cudaEventSynchronize(ready.get()),
                    "what the trainer has on its stream failed");
}

bool GpuExecutor::State::reached(size_t group) const {
  auto *count = reinterpret_cast<const volatile uint64_t *>(counter.data);
  bool there = *count > group;
  std::atomic_thread_fence(std::memory_order_acquire);
  return there;
}

Status GpuExecutor::State::runWithStreams() {
  *reinterpret_cast<volatile uint64_t *>(counter.data) = 0;
  if (auto *stop = stopFlag())
    *stop = 0;
  auto began = Clock::now();
  if (wantsGraph && streams->capturable() && !graphRun) {
    DTRT_RETURN_IF_ERROR(begin());
    streams->start([self = shared_from_this()] { return self->capture(); });
    DTRT_RETURN_IF_ERROR(streams->finish());
  }
  DTRT_RETURN_IF_ERROR(begin());
  if (graphRun)
    streams->start([self = shared_from_this()] {
      UseGpu use(self->gpu);
      return cudaStatus(
          cudaGraphLaunch(self->graphRun, self->stream(GpuLane::Wire)),
          "cannot launch the transfer's graph");
    });
  else
    streams->start([self = shared_from_this()] { return self->enqueueAll(); });
  Status status;
  for (size_t group = 0; group < steps.groups && status.ok(); ++group) {
    status = streams->await(group, [this, group] { return reached(group); });
    if (!status.ok())
      status = named(groupSteps[group], status);
  }
  std::chrono::duration<double> time = Clock::now() - began;
  stats.groupSeconds = steps.groups > 0 ? time.count() : 0;
  Status enqueued = streams->finish();
  return status.ok() ? enqueued : status;
}

Status GpuExecutor::State::runWithHost() {
  DTRT_RETURN_IF_ERROR(begin());
  return enqueueAll();
}

Result<bool> GpuExecutor::State::atRest() const {
  for (const Stream *stream :
       {&lanes[0], &lanes[1], &lanes[2], &lanes[3], &counting}) {
    if (!stream->get())
      continue;
    auto idle = stream->idle();
    if (!idle.ok() || !*idle)
      return idle;
  }
  return true;
}

/// Until nothing of the run is on any stream. Copies end by themselves; a wave
/// may not when the run has failed.
Status GpuExecutor::State::drain(bool failed) {
  auto deadline = Clock::now() + kRest;
  Looks looks;
  for (;;) {
    auto rest = atRest();
    DTRT_RETURN_IF_ERROR(rest); // then the GPU takes no more work of ours
    if (*rest)
      return {};
    if (failed && Clock::now() > deadline) {
      leak();
      return makeError(ErrorCode::System,
                       "work of it is still on the GPU after ", kRest.count(),
                       " s; its memory is not freed");
    }
    looks.pause();
  }
}

/// What is still on a stream may use any of these.
void GpuExecutor::State::leak() {
  for (Stream &lane : lanes)
    lane.leak();
  counting.leak();
  for (Block *block : {&arenaBlock, &table, &numbers, &counter})
    block->leak();
  if (streams)
    streams->leakMemory();
}

void GpuExecutor::State::countBytes() {
  for (size_t group : groupSteps) {
    bool isCall = callOf(steps.list[group]).has_value();
    for (const TransportMessage &message : steps.list[group].messages) {
      (message.receive ? stats.bytesReceived : stats.bytesSent) +=
          message.bytes;
      stats.messages += !isCall;
    }
  }
  for (const GpuStep &step : steps.list) {
    stats.bytesCopied += step.op == Opcode::Copy ? step.bytes : 0;
    stats.bytesZeroed += step.op == Opcode::Zero ? step.bytes : 0;
  }
}

Status GpuExecutor::State::run() {
  stats = {};
  stats.stagingPeak = steps.stagingPeak;
  UseGpu use(gpu);
  Status status = streams ? runWithStreams() : runWithHost();
  if (!status.ok() && streams) {
    if (auto *stop = stopFlag())
      *stop = 1;
    transport.abort(status);
    dropGraph(); // which the communicator's end waits for
  }
  Status drained = drain(!status.ok());
  if (status.ok() && drained.ok() && streams)
    status = streams->check();
  if (status.ok() && drained.ok())
    status = giveBack();
  if (status.ok())
    status = drained;
  else if (!drained.ok())
    status = makeError(status, "; ", drained);
  if (status.ok())
    countBytes();
  stats.devicePeak = storage.peakLiveBytes();
  return status;
}

//===----------------------------------------------------------------------===//
// The executor
//===----------------------------------------------------------------------===//

GpuExecutor::GpuExecutor(std::shared_ptr<State> state)
    : state(std::move(state)) {}

GpuExecutor::~GpuExecutor() = default;

Result<std::unique_ptr<GpuExecutor>>
GpuExecutor::prepare(LocalStorage &storage, Transport &transport,
                     GpuExecutorOptions options) {
  auto state = std::make_shared<State>(storage, transport);
  DTRT_RETURN_IF_ERROR(state->prepare(options));
  return std::unique_ptr<GpuExecutor>(new GpuExecutor(std::move(state)));
}

Status GpuExecutor::runAfter(GpuStream stream) {
  return state->runAfter(stream);
}

Status GpuExecutor::run() { return state->run(); }

const ExecutionStats &GpuExecutor::stats() const { return state->stats; }

std::byte *GpuExecutor::staging() const { return state->arena; }

std::vector<uint32_t> GpuExecutor::peers() const {
  return peersOf(state->storage.program());
}

Switch::MakeRunner runOnGpu(const PlanReader &plan, int gpu,
                            GpuExecutor *&runner) {
  return [&plan, gpu, &runner](
             LocalStorage &storage,
             Transport &transport) -> Result<std::unique_ptr<ProgramRunner>> {
    UseGpu use(gpu);
    auto made = GpuExecutor::prepare(storage, transport, {&plan});
    DTRT_RETURN_IF_ERROR(made);
    runner = made->get();
    return std::unique_ptr<ProgramRunner>(std::move(*made));
  };
}

} // namespace dtrt
