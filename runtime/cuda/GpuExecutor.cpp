//===- GpuExecutor.cpp - One device's program on a GPU --------------------===//
//
// Neighbouring packs of a program become one step, one launch, and so do
// unpacks, copies and zeros. Packs, copies and zeros go to one stream, unpacks
// to another. Two steps that touch the same bytes, one of them writing, are
// ordered by an event; a group blocks the host, so what its messages need is
// waited for there. Before a group starts, packs that need nothing of it are
// already on their way.
//
//===----------------------------------------------------------------------===//

#include "dtrt/Cuda.h"
#include "dtrt/MessageRegions.h"

#include "Stream.h"

#include <algorithm>
#include <chrono>

namespace dtrt {

namespace {

/// Staging bytes that a step reads or writes.
struct Use {
  uint64_t lo = 0, hi = 0;
  bool writes = false;
};

struct Step {
  size_t first = 0; // instruction
  Opcode op = Opcode::Group;
  BoxTable boxes;
  GpuBoxTable table; // the same, on the device
  std::vector<TransportMessage> messages;
  std::vector<Use> uses;
  bool readsDestination = false;
  bool writesDestination = false;
  std::vector<size_t> after; // earlier steps that must have ended
  uint64_t bytes = 0;        // copied or zeroed
  Event done;
  bool enqueued = false;
};

/// Whether `b`, which comes later in the program, must wait for `a`. Elements
/// of the destination are written once, by what is proved of every plan, so
/// that only their reader must wait; the source is never written.
bool conflict(const Step &a, const Step &b) {
  if (b.readsDestination && a.writesDestination)
    return true;
  for (const Use &x : a.uses)
    for (const Use &y : b.uses)
      if ((x.writes || y.writes) && x.lo < y.hi && y.lo < x.hi)
        return true;
  return false;
}

bool isGroup(const Step &step) { return step.op == Opcode::Group; }

/// Makes the later of two neighbours part of the earlier.
void merge(Step &step, const Step &next) {
  step.boxes.append(next.boxes);
  step.uses.insert(step.uses.end(), next.uses.begin(), next.uses.end());
  step.readsDestination |= next.readsDestination;
  step.writesDestination |= next.writesDestination;
  step.bytes += next.bytes;
}

/// Another GPU than the thread's, for as long as this lives.
class UseGpu {
public:
  explicit UseGpu(int gpu) {
    if (cudaGetDevice(&before) == cudaSuccess && before != gpu)
      cudaSetDevice(gpu);
  }
  ~UseGpu() { cudaSetDevice(before); }
  UseGpu(const UseGpu &) = delete;
  UseGpu &operator=(const UseGpu &) = delete;

private:
  int before = 0;
};

} // namespace

struct GpuExecutor::State {
  State(LocalStorage &storage, Transport &transport)
      : storage(storage), transport(transport) {}

  Status prepare(const GpuExecutorOptions &options);
  Status findRegions();
  Status prepareSteps();
  Status prepareStep(const Instruction &instruction, Step &step);
  Status addSegments(const Instruction &instruction, Step &step);
  Status addCopies(const Instruction &instruction, Step &step);
  Status addMessages(const Instruction &instruction, Step &step);
  void order();
  Status run();
  Status runSteps();
  Status enqueue(Step &step);
  Status enqueueAhead(size_t group);
  Status runGroup(size_t index);

  LocalStorage &storage;
  Transport &transport;
  std::unique_ptr<std::byte, std::function<void(std::byte *)>> arena;
  Stream packing, unpacking;
  std::vector<Step> steps;
  /// By instruction and message; empty where the transport needs none.
  std::vector<std::vector<MessageRegions>> regions;
  ExecutionStats stats;
  int gpu = 0;
};

Status GpuExecutor::State::addSegments(const Instruction &instruction,
                                       Step &step) {
  const RankProgram &program = storage.program();
  const PlanCommon &common = storage.common();
  std::byte *packed = arena.get() + instruction.slot;
  for (const Segment &segment : instruction.segments) {
    auto prepared = prepareSegment(common, program, segment);
    DTRT_RETURN_IF_ERROR(prepared);
    step.readsDestination |=
        instruction.op == Opcode::Pack && segment.side == Side::Destination;
    step.bytes += prepared->bytes;
    if (instruction.op == Opcode::Zero)
      DTRT_RETURN_IF_ERROR(step.boxes.addZero(*prepared, storage));
    else if (instruction.op == Opcode::Pack)
      DTRT_RETURN_IF_ERROR(step.boxes.addPack(*prepared, storage, packed));
    else
      DTRT_RETURN_IF_ERROR(step.boxes.addUnpack(*prepared, storage, packed));
    packed += prepared->bytes;
  }
  if (instruction.op != Opcode::Zero)
    step.uses.push_back({instruction.slot, instruction.slot + instruction.bytes,
                         instruction.op == Opcode::Pack});
  step.writesDestination = instruction.op != Opcode::Pack;
  return {};
}

Status GpuExecutor::State::addMessages(const Instruction &instruction,
                                       Step &step) {
  for (size_t m = 0; m < instruction.messages.size(); ++m) {
    const Message &message = instruction.messages[m];
    std::byte *data = arena.get() + message.slot;
    if (message.direct) {
      auto prepared =
          prepareSegment(storage.common(), storage.program(), message.segment);
      DTRT_RETURN_IF_ERROR(prepared);
      auto found = contiguousData(*prepared, storage);
      DTRT_RETURN_IF_ERROR(found);
      data = *found;
      bool destination = message.segment.side == Side::Destination;
      step.writesDestination |= message.receive;
      step.readsDestination |= !message.receive && destination;
    } else {
      step.uses.push_back(
          {message.slot, message.slot + message.bytes, message.receive});
      stats.stagingPeak =
          std::max(stats.stagingPeak, message.slot + message.bytes);
    }
    step.messages.push_back(
        {message.receive, message.peer, data, message.bytes, nullptr,
         regions.empty() ? nullptr : &regions[step.first][m]});
  }
  return {};
}

Status GpuExecutor::State::addCopies(const Instruction &instruction,
                                     Step &step) {
  step.writesDestination = true;
  for (size_t i = 0; i + 1 < instruction.segments.size(); i += 2) {
    const Segment &from = instruction.segments[i];
    auto copy = prepareCopy(storage.common(), storage.program(), from,
                            storage.program(), instruction.segments[i + 1]);
    DTRT_RETURN_IF_ERROR(copy);
    step.readsDestination |= from.side == Side::Destination;
    step.bytes += copy->source.bytes;
    DTRT_RETURN_IF_ERROR(step.boxes.addCopy(*copy, storage));
  }
  return {};
}

Status GpuExecutor::State::prepareStep(const Instruction &instruction,
                                       Step &step) {
  step.op = instruction.op;
  switch (instruction.op) {
  case Opcode::Group:
    return addMessages(instruction, step);
  case Opcode::Copy:
    return addCopies(instruction, step);
  case Opcode::Pack:
  case Opcode::Unpack:
  case Opcode::Zero:
    return addSegments(instruction, step);
  default:
    return makeError(opcodeName(instruction.op), " in a plan of mode rollback");
  }
}

Status GpuExecutor::State::findRegions() {
  if (!transport.caps().comparesRegions)
    return {};
  auto found = regionsOf(storage.common(), storage.program());
  if (!found.ok())
    return makeError("device ", storage.program().device, ": ", found.status());
  regions = std::move(*found);
  return {};
}

Status GpuExecutor::State::prepareSteps() {
  const RankProgram &program = storage.program();
  DTRT_RETURN_IF_ERROR(findRegions());
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    Step step;
    step.first = i;
    Status status = prepareStep(program.instructions[i], step);
    if (!status.ok())
      return makeError("device ", program.device, ", instruction ", i, ": ",
                       status);
    bool joins = !steps.empty() && !isGroup(step) &&
                 steps.back().op == step.op && !conflict(steps.back(), step);
    if (joins)
      merge(steps.back(), step);
    else
      steps.push_back(std::move(step));
  }
  for (Step &step : steps) {
    DTRT_RETURN_IF_ERROR(step.done.create());
    auto uploaded = GpuBoxTable::upload(step.boxes);
    DTRT_RETURN_IF_ERROR(uploaded);
    step.table = std::move(*uploaded);
    step.boxes = BoxTable();
  }
  return {};
}

void GpuExecutor::State::order() {
  for (size_t i = 0; i < steps.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (conflict(steps[j], steps[i]))
        steps[i].after.push_back(j);
}

Status GpuExecutor::State::prepare(const GpuExecutorOptions &options) {
  const RankProgram &program = storage.program();
  if (storage.common().summary.mode != MemoryMode::Rollback)
    return makeError("plan of mode flat, expected rollback on a GPU");
  DTRT_RETURN_IF_ERROR(
      cudaStatus(cudaGetDevice(&gpu), "cannot tell the GPU in use"));
  DTRT_RETURN_IF_ERROR(packing.create());
  DTRT_RETURN_IF_ERROR(unpacking.create());
  if (program.stagingBytes > 0) {
    arena = {options.staging.allocate(program.stagingBytes),
             options.staging.free};
    if (!arena)
      return makeError(ErrorCode::OutOfMemory, "cannot allocate ",
                       program.stagingBytes, " bytes of staging");
    storage.reserve(program.stagingBytes);
  }
  DTRT_RETURN_IF_ERROR(prepareSteps());
  order();
  return {};
}

Status GpuExecutor::State::enqueue(Step &step) {
  if (step.enqueued)
    return {};
  step.enqueued = true;
  cudaStream_t stream =
      step.op == Opcode::Unpack ? unpacking.get() : packing.get();
  for (size_t earlier : step.after)
    if (!isGroup(steps[earlier])) // groups have ended
      DTRT_RETURN_IF_ERROR(
          cudaStatus(cudaStreamWaitEvent(stream, steps[earlier].done.get(), 0),
                     "cannot order two streams"));
  DTRT_RETURN_IF_ERROR(launchBoxCopies(step.table.rows.get(), step.table.count,
                                       step.table.tiles, stream));
  if (step.op == Opcode::Copy)
    stats.bytesCopied += step.bytes;
  if (step.op == Opcode::Zero)
    stats.bytesZeroed += step.bytes;
  return cudaStatus(cudaEventRecord(step.done.get(), stream),
                    "cannot record an event");
}

/// Packs up to the next group that wait for nothing that has yet to start.
Status GpuExecutor::State::enqueueAhead(size_t group) {
  for (size_t i = group + 1; i < steps.size() && !isGroup(steps[i]); ++i) {
    Step &step = steps[i];
    bool free = step.op == Opcode::Pack;
    for (size_t earlier : step.after)
      free = free && earlier != group &&
             (isGroup(steps[earlier]) || steps[earlier].enqueued);
    if (free)
      DTRT_RETURN_IF_ERROR(enqueue(step));
  }
  return {};
}

Status GpuExecutor::State::runGroup(size_t index) {
  Step &step = steps[index];
  DTRT_RETURN_IF_ERROR(enqueueAhead(index));
  for (size_t earlier : step.after)
    if (!isGroup(steps[earlier]))
      DTRT_RETURN_IF_ERROR(
          cudaStatus(cudaEventSynchronize(steps[earlier].done.get()),
                     "a pack or unpack failed"));
  for (const TransportMessage &message : step.messages) {
    (message.receive ? stats.bytesReceived : stats.bytesSent) += message.bytes;
    ++stats.messages;
  }
  auto begin = std::chrono::steady_clock::now();
  Status status = transport.group(step.messages);
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  stats.groupSeconds += time.count();
  return status;
}

Status GpuExecutor::State::runSteps() {
  for (size_t i = 0; i < steps.size(); ++i) {
    Status status = isGroup(steps[i]) ? runGroup(i) : enqueue(steps[i]);
    if (!status.ok())
      return makeError("device ", storage.program().device, ", instruction ",
                       steps[i].first, " (", opcodeName(steps[i].op),
                       "): ", status);
  }
  for (const Stream *stream : {&packing, &unpacking})
    DTRT_RETURN_IF_ERROR(cudaStatus(cudaStreamSynchronize(stream->get()),
                                    "a copy on the GPU failed"));
  return {};
}

Status GpuExecutor::State::run() {
  uint64_t stagingPeak = stats.stagingPeak;
  stats = {};
  stats.stagingPeak = stagingPeak;
  for (Step &step : steps)
    step.enqueued = false;
  UseGpu use(gpu);
  // What the trainer has under way on its own streams may write the source.
  DTRT_RETURN_IF_ERROR(
      cudaStatus(cudaDeviceSynchronize(), "what ran on the GPU before failed"));
  Status status = runSteps();
  stats.devicePeak = storage.peakLiveBytes();
  return status;
}

GpuExecutor::GpuExecutor(std::unique_ptr<State> state)
    : state(std::move(state)) {}

GpuExecutor::~GpuExecutor() = default;

Result<std::unique_ptr<GpuExecutor>>
GpuExecutor::prepare(LocalStorage &storage, Transport &transport,
                     GpuExecutorOptions options) {
  auto state = std::make_unique<State>(storage, transport);
  DTRT_RETURN_IF_ERROR(state->prepare(options));
  return std::unique_ptr<GpuExecutor>(new GpuExecutor(std::move(state)));
}

Status GpuExecutor::run() { return state->run(); }

const ExecutionStats &GpuExecutor::stats() const { return state->stats; }

std::byte *GpuExecutor::staging() const { return state->arena.get(); }

std::vector<uint32_t> GpuExecutor::peers() const {
  std::vector<uint32_t> found;
  for (const Step &step : state->steps)
    for (const TransportMessage &message : step.messages)
      found.push_back(message.peer);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

} // namespace dtrt
