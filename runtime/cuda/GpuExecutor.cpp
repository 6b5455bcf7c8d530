//===- GpuExecutor.cpp - One device's program on a GPU --------------------===//
//
// Packs, copies and zeros go to one stream, unpacks to another. Two steps that
// touch the same bytes, one of them writing, are ordered by an event; a group
// blocks the host, so what its messages need is waited for there. Before a
// group starts, packs that need nothing of it are already on their way.
//
//===----------------------------------------------------------------------===//

#include "dtrt/Cuda.h"

#include "Stream.h"

#include <algorithm>

namespace dtrt {

namespace {

/// Staging bytes that a step reads or writes.
struct Use {
  uint64_t lo = 0, hi = 0;
  bool writes = false;
};

struct Step {
  const Instruction *instruction = nullptr;
  GpuBoxTable table;
  std::vector<TransportMessage> messages;
  std::vector<Use> uses;
  bool readsDestination = false;
  bool writesDestination = false;
  std::vector<size_t> after; // earlier steps that must have ended
  uint64_t bytes = 0;        // of the segments
  Event done;
  bool enqueued = false;
};

bool conflict(const Step &a, const Step &b) {
  if (b.readsDestination && a.writesDestination)
    return true;
  for (const Use &x : a.uses)
    for (const Use &y : b.uses)
      if ((x.writes || y.writes) && x.lo < y.hi && y.lo < x.hi)
        return true;
  return false;
}

bool isGroup(const Step &step) { return step.instruction->op == Opcode::Group; }

} // namespace

struct GpuExecutor::State {
  State(LocalStorage &storage, Transport &transport)
      : storage(storage), transport(transport) {}

  Status prepare(const GpuExecutorOptions &options);
  Status prepareStep(const Instruction &instruction, Step &step);
  Status addSegments(const Instruction &instruction, Step &step,
                     BoxTable &table);
  Status addMessages(const Instruction &instruction, Step &step);
  void order();
  Status run();
  Status enqueue(Step &step);
  Status enqueueAhead(size_t group);
  Status runGroup(size_t index);

  LocalStorage &storage;
  Transport &transport;
  std::unique_ptr<std::byte, std::function<void(std::byte *)>> arena;
  Stream packing, unpacking;
  std::vector<Step> steps;
  ExecutionStats stats;
};

Status GpuExecutor::State::addSegments(const Instruction &instruction,
                                       Step &step, BoxTable &table) {
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
      DTRT_RETURN_IF_ERROR(table.addZero(*prepared, storage));
    else if (instruction.op == Opcode::Pack)
      DTRT_RETURN_IF_ERROR(table.addPack(*prepared, storage, packed));
    else
      DTRT_RETURN_IF_ERROR(table.addUnpack(*prepared, storage, packed));
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
  for (const Message &message : instruction.messages) {
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
        {message.receive, message.peer, data, message.bytes, nullptr});
  }
  return {};
}

Status GpuExecutor::State::prepareStep(const Instruction &instruction,
                                       Step &step) {
  step.instruction = &instruction;
  DTRT_RETURN_IF_ERROR(step.done.create());
  if (instruction.op == Opcode::Group)
    return addMessages(instruction, step);
  BoxTable table;
  if (instruction.op != Opcode::Copy) {
    DTRT_RETURN_IF_ERROR(addSegments(instruction, step, table));
  } else {
    step.writesDestination = true;
    for (size_t i = 0; i + 1 < instruction.segments.size(); i += 2) {
      const Segment &from = instruction.segments[i];
      auto copy = prepareCopy(storage.common(), storage.program(), from,
                              storage.program(), instruction.segments[i + 1]);
      DTRT_RETURN_IF_ERROR(copy);
      step.readsDestination |= from.side == Side::Destination;
      step.bytes += copy->source.bytes;
      DTRT_RETURN_IF_ERROR(table.addCopy(*copy, storage));
    }
  }
  auto uploaded = GpuBoxTable::upload(table);
  DTRT_RETURN_IF_ERROR(uploaded);
  step.table = std::move(*uploaded);
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
  DTRT_RETURN_IF_ERROR(packing.create());
  DTRT_RETURN_IF_ERROR(unpacking.create());
  if (program.stagingBytes > 0) {
    arena = {options.staging.allocate(program.stagingBytes),
             options.staging.free};
    if (!arena)
      return makeError("cannot allocate ", program.stagingBytes,
                       " bytes of staging");
    storage.reserve(program.stagingBytes);
  }
  steps.resize(program.instructions.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    Status status = prepareStep(program.instructions[i], steps[i]);
    if (!status.ok())
      return makeError("device ", program.device, ", instruction ", i, ": ",
                       status.message());
  }
  order();
  return {};
}

Status GpuExecutor::State::enqueue(Step &step) {
  if (step.enqueued)
    return {};
  step.enqueued = true;
  cudaStream_t stream =
      step.instruction->op == Opcode::Unpack ? unpacking.get() : packing.get();
  for (size_t earlier : step.after)
    if (!isGroup(steps[earlier])) // groups have ended
      DTRT_RETURN_IF_ERROR(
          cudaStatus(cudaStreamWaitEvent(stream, steps[earlier].done.get(), 0),
                     "cannot order two streams"));
  DTRT_RETURN_IF_ERROR(launchBoxCopies(step.table.rows.get(), step.table.count,
                                       step.table.tiles, stream));
  if (step.instruction->op == Opcode::Copy)
    stats.bytesCopied += step.bytes;
  if (step.instruction->op == Opcode::Zero)
    stats.bytesZeroed += step.bytes;
  return cudaStatus(cudaEventRecord(step.done.get(), stream),
                    "cannot record an event");
}

/// Packs up to the next group that wait for nothing that has yet to start.
Status GpuExecutor::State::enqueueAhead(size_t group) {
  for (size_t i = group + 1; i < steps.size() && !isGroup(steps[i]); ++i) {
    Step &step = steps[i];
    bool free = step.instruction->op == Opcode::Pack;
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
  return transport.group(step.messages);
}

Status GpuExecutor::State::run() {
  uint64_t stagingPeak = stats.stagingPeak;
  stats = {};
  stats.stagingPeak = stagingPeak;
  for (Step &step : steps)
    step.enqueued = false;
  for (size_t i = 0; i < steps.size(); ++i) {
    Status status = isGroup(steps[i]) ? runGroup(i) : enqueue(steps[i]);
    if (!status.ok())
      return makeError("device ", storage.program().device, ", instruction ", i,
                       " (", opcodeName(steps[i].instruction->op),
                       "): ", status.message());
  }
  for (const Stream *stream : {&packing, &unpacking})
    DTRT_RETURN_IF_ERROR(cudaStatus(cudaStreamSynchronize(stream->get()),
                                    "a copy on the GPU failed"));
  stats.devicePeak = storage.peakLiveBytes();
  return {};
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
