//===- Executor.cpp - Running one device's program ------------------------===//

#include "dtrt/core/Executor.h"

#include "dtrt/core/PeerShards.h"
#include "dtrt/format/Collectives.h"
#include "dtrt/format/ShardView.h"
#include "dtrt/format/StayingStates.h"

#include <algorithm>
#include <chrono>
#include <new>

namespace dtrt {

Result<Executor> Executor::prepare(LocalStorage &storage, Transport &transport,
                                   const ExecutionOptions &options) {
  try {
    return prepareAll(storage, transport, options);
  } catch (const std::bad_alloc &) {
    return makeError("device ", storage.program().device,
                     ": not enough memory to prepare its program");
  }
}

Result<Executor> Executor::prepareAll(LocalStorage &storage,
                                      Transport &transport,
                                      const ExecutionOptions &options) {
  const RankProgram &program = storage.program();
  Executor executor(storage, transport);
  std::vector<uint64_t> staying = stayingMasks(storage.common(), program);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    auto step = executor.prepareStep(program.instructions[i], staying);
    if (!step.ok())
      return makeError("device ", program.device, ", instruction ", i, ": ",
                       step.status().message());
    executor.steps.push_back(std::move(*step));
  }
  TransportCaps caps = transport.caps();
  if (caps.usesRegions)
    DTRT_RETURN_IF_ERROR(executor.findRegions());
  executor.execution = planExecution(storage.common(), program, caps, options);
  executor.setViews(options.peers);
  DTRT_RETURN_IF_ERROR(executor.allocateStaging());
  DTRT_RETURN_IF_ERROR(
      transport.prepareCollectives(storage.common().memberSets));
  return executor;
}

Status Executor::findRegions() {
  auto found = regionsOf(storage->common(), storage->program());
  if (!found.ok())
    return makeError("device ", storage->program().device, ": ",
                     found.status().message());
  regions = std::move(*found);
  for (size_t i = 0; i < steps.size(); ++i)
    for (size_t m = 0; m < regions[i].size(); ++m)
      steps[i].messages[m].regions = &regions[i][m];
  return {};
}

void Executor::setViews(const PeerShards *peers) {
  for (Step &step : steps)
    step.view = {&step.segments, storage};
  for (size_t i = 0; i < steps.size(); ++i)
    for (size_t m = 0; m < steps[i].messages.size(); ++m) {
      TransportMessage &message = steps[i].messages[m];
      if (auto from = execution.steps[i].views[m])
        message.view = &steps[*from].view;
      if (peers && message.receive)
        message.peerView =
            peers->viewOf(message.peer, steps[i].instruction->wave);
    }
}

/// No arena is needed where all messages go from shard to shard.
Status Executor::allocateStaging() {
  uint64_t bytes = storage->program().stagingBytes;
  if (!execution.needsStaging || bytes == 0)
    return {};
  auto given = transport->allocateArena(bytes);
  DTRT_RETURN_IF_ERROR(given);
  arena = *given;
  if (!arena) {
    // Zeroed, so that its pages are mapped before the first byte moves.
    owned.reset(new (std::nothrow) std::byte[bytes]());
    arena = owned.get();
  }
  if (!arena)
    return makeError(ErrorCode::OutOfMemory, "device ",
                     storage->program().device, ": cannot allocate ", bytes,
                     " bytes of staging");
  storage->reserve(bytes);
  for (Step &step : steps)
    for (size_t m = 0; m < step.messages.size(); ++m)
      if (!step.instruction->messages[m].direct)
        step.messages[m].data = arena + step.instruction->messages[m].slot;
  return {};
}

Status Executor::prepareSegments(const std::vector<Segment> &segments,
                                 Step &step) const {
  const PlanCommon &common = storage->common();
  for (const Segment &segment : segments) {
    auto prepared = prepareSegment(common, storage->program(), segment);
    DTRT_RETURN_IF_ERROR(prepared);
    step.segments.push_back(std::move(*prepared));
  }
  return {};
}

Result<Executor::Step>
Executor::prepareStep(const Instruction &instruction,
                      const std::vector<uint64_t> &staying) const {
  Step step;
  step.instruction = &instruction;
  if (instruction.op == Opcode::Copy) {
    const RankProgram &program = storage->program();
    for (size_t i = 0; i + 1 < instruction.segments.size(); i += 2) {
      const Segment &to = instruction.segments[i + 1];
      auto copy = prepareCopy(storage->common(), program,
                              instruction.segments[i], program, to);
      DTRT_RETURN_IF_ERROR(copy);
      step.copies.push_back(std::move(*copy));
      step.bytesCopied += segmentBytes(storage->common().families[to.family],
                                       movedPart(to, staying));
    }
    return step;
  }
  if (instruction.op == Opcode::Create || instruction.op == Opcode::Release ||
      instruction.op == Opcode::Relay)
    return step;
  DTRT_RETURN_IF_ERROR(prepareSegments(instruction.segments, step));
  for (const Message &message : instruction.messages) {
    if (message.direct)
      DTRT_RETURN_IF_ERROR(prepareSegments({message.segment}, step));
    step.messages.push_back(
        {message.receive, message.peer, nullptr, message.bytes, nullptr});
  }
  return step;
}

std::vector<uint32_t> peersOf(const RankProgram &program) {
  std::vector<uint32_t> found;
  for (const Instruction &instruction : program.instructions)
    for (const Message &message : instruction.messages)
      found.push_back(message.peer);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

CollectiveCall collectiveCall(size_t members, uint32_t device,
                              const GroupCollective &from, std::byte *arena) {
  CollectiveCall call = {from.kind, from.members, from.root, from.blockBytes};
  if (blocksGiven(from.kind, members, from.root == device) > 0)
    call.give = arena + from.giveSlot;
  if (blocksGot(from.kind, members, from.root == device) > 0)
    call.get = arena + from.getSlot;
  return call;
}

std::vector<uint32_t> Executor::peers() const {
  return peersOf(storage->program());
}

Status Executor::run() {
  statistics = {};
  if (timesSteps)
    statistics.steps.reserve(steps.size());
  Status status = runSteps();
  statistics.devicePeak = storage->peakLiveBytes();
  return status;
}

Status Executor::runSteps() {
  for (size_t i = 0; i < steps.size(); ++i) {
    if (execution.steps[i].early)
      continue;
    Status status = runStep(i);
    if (!status.ok())
      return makeError("device ", storage->program().device, ", instruction ",
                       i, " (", opcodeName(steps[i].instruction->op),
                       "): ", status);
  }
  return {};
}

/// Seconds of the steady clock.
static double secondsNow() {
  std::chrono::duration<double> time =
      std::chrono::steady_clock::now().time_since_epoch();
  return time.count();
}

/// Of a step as `StepTime` counts them.
static uint64_t bytesOf(const Instruction &instruction, uint64_t copied,
                        const std::vector<PreparedSegment> &segments) {
  if (instruction.op == Opcode::Copy)
    return copied;
  if (instruction.op == Opcode::Relay)
    return 0;
  uint64_t bytes = instruction.bytes;
  for (const Message &message : instruction.messages)
    bytes += message.bytes;
  if (instruction.op == Opcode::Zero)
    for (const PreparedSegment &segment : segments)
      bytes += segment.bytes;
  return bytes;
}

Status Executor::runStep(size_t index) {
  const Step &step = steps[index];
  if (execution.steps[index].skipped) {
    touchStaging(step.instruction->slot, step.instruction->bytes);
    return {};
  }
  if (!timesSteps)
    return runInstruction(index);
  double begin = secondsNow();
  Status status = runInstruction(index);
  const Instruction &instruction = *step.instruction;
  statistics.steps.push_back(
      {instruction.op, instruction.wave,
       bytesOf(instruction, step.bytesCopied, step.segments), begin,
       secondsNow()});
  return status;
}

Status Executor::runInstruction(size_t index) {
  const Step &step = steps[index];
  switch (step.instruction->op) {
  case Opcode::Copy:
    return runCopy(step);
  case Opcode::Zero:
    return runZero(step);
  case Opcode::Create:
    for (const Segment &segment : step.instruction->segments)
      DTRT_RETURN_IF_ERROR(storage->create(segment));
    return {};
  case Opcode::Release:
    for (const Segment &segment : step.instruction->segments)
      DTRT_RETURN_IF_ERROR(storage->release(segment));
    return {};
  case Opcode::Pack:
    return runPack(step);
  case Opcode::Group:
    return runGroup(index);
  case Opcode::Unpack:
    return runUnpack(step);
  case Opcode::Relay:
    return {}; // what has come is sent from where it is
  }
  return makeError("unknown opcode");
}

Status Executor::runCopy(const Step &step) {
  for (const PreparedCopy &prepared : step.copies)
    DTRT_RETURN_IF_ERROR(copy(prepared, *storage, *storage));
  statistics.bytesCopied += step.bytesCopied;
  return {};
}

Status Executor::runZero(const Step &step) {
  for (const PreparedSegment &segment : step.segments) {
    DTRT_RETURN_IF_ERROR(fillPadding(segment, *storage));
    statistics.bytesZeroed += segment.bytes;
  }
  return {};
}

Status Executor::runPack(const Step &step) {
  uint64_t at = step.instruction->slot;
  touchStaging(at, step.instruction->bytes);
  for (const PreparedSegment &segment : step.segments) {
    DTRT_RETURN_IF_ERROR(pack(segment, *storage, arena + at));
    at += segment.bytes;
  }
  return {};
}

Status Executor::runUnpack(const Step &step) {
  uint64_t at = step.instruction->slot;
  for (const PreparedSegment &segment : step.segments) {
    DTRT_RETURN_IF_ERROR(unpack(segment, *storage, arena + at));
    at += segment.bytes;
  }
  return {};
}

Status Executor::runGroup(size_t index) {
  Step &step = steps[index];
  statistics.wave = step.instruction->wave;
  statistics.isInGroup = true;
  size_t nextDirect = 0;
  for (size_t i = 0; i < step.messages.size(); ++i) {
    const Message &message = step.instruction->messages[i];
    TransportMessage &prepared = step.messages[i];
    if (message.direct) {
      auto data = contiguousData(step.segments[nextDirect++], *storage);
      DTRT_RETURN_IF_ERROR(data);
      prepared.data = *data;
    } else {
      touchStaging(message.slot, message.bytes);
    }
    (message.receive ? statistics.bytesReceived : statistics.bytesSent) +=
        message.bytes;
    if (!message.receive && prepared.view)
      statistics.bytesReadByPeers += message.bytes;
    statistics.messages += !step.instruction->collective;
  }
  Status status =
      step.instruction->collective ? runCollective(index) : runMessages(index);
  statistics.isInGroup = !status.ok();
  return status;
}

/// Adds the time since `begin`.
static void addTime(std::chrono::steady_clock::time_point begin,
                    double &seconds) {
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  seconds += time.count();
}

Status Executor::runMessages(size_t index) {
  const std::vector<TransportMessage> &messages = steps[index].messages;
  const std::vector<size_t> &meanwhile = execution.steps[index].meanwhile;
  auto begin = std::chrono::steady_clock::now();
  if (meanwhile.empty()) {
    Status status = transport->group(messages);
    addTime(begin, statistics.groupSeconds);
    return status;
  }
  DTRT_RETURN_IF_ERROR(transport->begin(messages));
  addTime(begin, statistics.groupSeconds);
  Status worked;
  for (size_t i = 0; i < meanwhile.size() && worked.ok(); ++i)
    worked = runStep(meanwhile[i]);
  begin = std::chrono::steady_clock::now();
  Status ended = transport->end();
  addTime(begin, statistics.groupSeconds);
  return worked.ok() ? ended : worked;
}

/// A library's call returns when it is done: what else there is comes after.
Status Executor::runCollective(size_t index) {
  const Step &step = steps[index];
  const GroupCollective &from = *step.instruction->collective;
  uint32_t device = storage->program().device;
  CollectiveCall call = collectiveCall(
      storage->common().memberSets[from.members].size(), device, from, arena);
  if (call.give)
    touchStaging(from.giveSlot, bytesGiven(storage->common(), from, device));
  if (call.get)
    touchStaging(from.getSlot, bytesGot(storage->common(), from, device));
  call.messages = &step.messages;
  auto begin = std::chrono::steady_clock::now();
  DTRT_RETURN_IF_ERROR(transport->collective(call));
  addTime(begin, statistics.groupSeconds);
  for (size_t other : execution.steps[index].meanwhile)
    DTRT_RETURN_IF_ERROR(runStep(other));
  return {};
}

void Executor::touchStaging(uint64_t slot, uint64_t bytes) {
  statistics.stagingPeak = std::max(statistics.stagingPeak, slot + bytes);
}

} // namespace dtrt
