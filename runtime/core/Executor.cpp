//===- Executor.cpp - Running one device's program ------------------------===//

#include "dtrt/Executor.h"

#include "Overlap.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <new>

namespace dtrt {

namespace {
struct Overlap {
  bool any = false;
  bool exact = false;
};

bool isLifetime(const Instruction &instruction) {
  return instruction.op == Opcode::Create || instruction.op == Opcode::Release;
}

/// Whether a Create or Release names a member that any of the segments touch,
/// in whatever states and shard: states may share storage.
bool touchesAny(const Instruction &lifetime,
                const std::vector<Segment> &segments,
                const PlanCommon &common) {
  for (const Segment &segment : segments)
    for (const Segment &storage : lifetime.segments) {
      bool touches =
          storage.side == segment.side && storage.family == segment.family;
      unsigned leading = common.families[segment.family].numLeading();
      for (unsigned d = 0; touches && d < leading; ++d)
        touches = storage.offset[d] < segment.offset[d] + segment.size[d] &&
                  segment.offset[d] < storage.offset[d] + storage.size[d];
      if (touches)
        return true;
    }
  return false;
}

/// Looks at other instructions, for packs and unpacks that can be left out: far
/// more than plans of the compiler take. Who has none left leaves nothing out.
constexpr uint64_t kLooks = 1 << 20, kLooksPerStep = 1024;

Overlap overlapOf(const Instruction &staged, uint64_t slot, uint64_t bytes) {
  return {staged.slot < slot + bytes && slot < staged.slot + staged.bytes,
          staged.slot == slot && staged.bytes == bytes};
}
} // namespace

Result<Executor> Executor::prepare(LocalStorage &storage, Transport &transport,
                                   const ExecutorOptions &options) {
  try {
    return prepareAll(storage, transport, options);
  } catch (const std::bad_alloc &) {
    return makeError("device ", storage.program().device,
                     ": not enough memory to prepare its program");
  }
}

Result<Executor> Executor::prepareAll(LocalStorage &storage,
                                      Transport &transport,
                                      const ExecutorOptions &options) {
  const RankProgram &program = storage.program();
  Executor executor(storage, transport);
  executor.looks = kLooks + kLooksPerStep * program.instructions.size();
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    auto step = executor.prepareStep(program.instructions[i]);
    if (!step.ok())
      return makeError("device ", program.device, ", instruction ", i, ": ",
                       step.status().message());
    if (program.instructions[i].op == Opcode::Release)
      executor.releases.push_back(i);
    executor.steps.push_back(std::move(*step));
  }
  if (transport.comparesRegions())
    DTRT_RETURN_IF_ERROR(executor.findRegions());
  if (options.skipStaging && transport.seesPeerMemory())
    executor.skipStaging();
  else
    executor.skipUnpacksOfPeers();
  if (transport.overlaps())
    executor.overlapGroups();
  DTRT_RETURN_IF_ERROR(executor.allocateStaging());
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

void Executor::overlapGroups() {
  std::vector<std::vector<size_t>> found = overlapsOf(storage->program());
  for (size_t i = 0; i < steps.size(); ++i) {
    for (size_t other : found[i])
      steps[other].early = true;
    steps[i].meanwhile = std::move(found[i]);
  }
}

/// No arena is needed where all messages go from shard to shard.
Status Executor::allocateStaging() {
  uint64_t bytes = storage->program().stagingBytes;
  bool needed = false;
  for (const Step &step : steps) {
    Opcode op = step.instruction->op;
    needed |= (op == Opcode::Pack || op == Opcode::Unpack) && !step.skipped;
    for (size_t m = 0; m < step.messages.size(); ++m)
      needed |= !step.instruction->messages[m].direct &&
                !(step.messages[m].view && transport->seesPeerMemory());
  }
  if (!needed || bytes == 0)
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
    return makeError("device ", storage->program().device, ": cannot allocate ",
                     bytes, " bytes of staging");
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
Executor::prepareStep(const Instruction &instruction) const {
  Step step;
  step.instruction = &instruction;
  if (instruction.op == Opcode::Copy) {
    const RankProgram &program = storage->program();
    for (size_t i = 0; i + 1 < instruction.segments.size(); i += 2) {
      auto copy =
          prepareCopy(storage->common(), program, instruction.segments[i],
                      program, instruction.segments[i + 1]);
      DTRT_RETURN_IF_ERROR(copy);
      step.copies.push_back(std::move(*copy));
    }
    return step;
  }
  if (isLifetime(instruction))
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

//===----------------------------------------------------------------------===//
// Messages without staging
//===----------------------------------------------------------------------===//

namespace {

/// A pack whose bytes are still in staging, and the messages that take them.
struct OpenPack {
  size_t index = 0;
  std::vector<TransportMessage *> sends;
};

/// Packs by slot; no two share a byte, since the later one ends the earlier.
class OpenPacks {
public:
  void add(const Instruction &pack, size_t index) {
    packs[pack.slot] = {pack.slot + pack.bytes, {index, {}}};
  }

  /// Calls fn(pack) for those with bytes of [slot, slot + bytes), which are
  /// open no longer unless fn says true.
  template <typename Fn> void visit(uint64_t slot, uint64_t bytes, Fn fn) {
    auto at = packs.upper_bound(slot);
    if (at != packs.begin() && std::prev(at)->second.end > slot)
      --at;
    while (at != packs.end() && at->first < slot + bytes)
      at = fn(at->second.pack) ? std::next(at) : packs.erase(at);
  }
  template <typename Fn> void visitAll(Fn fn) {
    for (auto &[slot, entry] : packs)
      fn(entry.pack);
  }

private:
  struct Entry {
    uint64_t end = 0;
    OpenPack pack;
  };
  std::map<uint64_t, Entry> packs;
};

} // namespace

/// Whether what the pack reads is there until the step. It is not said to be
/// when that takes long to find out: then the pack is done.
bool Executor::staysUntil(size_t pack, size_t step) {
  const Instruction &packed = *steps[pack].instruction;
  auto release = std::upper_bound(releases.begin(), releases.end(), pack);
  for (; release != releases.end() && *release < step; ++release) {
    const Instruction &released = *steps[*release].instruction;
    if (!look(1 + released.segments.size() * packed.segments.size()) ||
        touchesAny(released, packed.segments, storage->common()))
      return false;
  }
  return true;
}

/// A pack can be left out when every message that its bytes go to is just
/// those bytes, and the shards are still there when it leaves.
void Executor::skipPacks() {
  OpenPacks open;
  auto skip = [&](OpenPack &pack) {
    steps[pack.index].skipped = true;
    for (TransportMessage *send : pack.sends)
      send->view = &steps[pack.index].view;
    return false;
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    const Instruction &instruction = *steps[i].instruction;
    if (instruction.op == Opcode::Pack && instruction.bytes > 0) {
      open.visit(instruction.slot, instruction.bytes, skip);
      open.add(instruction, i);
    }
    for (size_t m = 0; m < instruction.messages.size(); ++m) {
      const Message &message = instruction.messages[m];
      if (message.direct)
        continue;
      open.visit(message.slot, message.bytes, [&](OpenPack &pack) {
        const Instruction &packed = *steps[pack.index].instruction;
        if (message.receive)
          return skip(pack);
        bool exact = overlapOf(packed, message.slot, message.bytes).exact &&
                     staysUntil(pack.index, i);
        if (exact)
          pack.sends.push_back(&steps[i].messages[m]);
        return exact;
      });
    }
  }
  open.visitAll(skip);
}

/// An unpack can be left out when it takes just one message, into shards that
/// are there when the message comes.
void Executor::skipUnpack(size_t group, TransportMessage &message,
                          const Message &planned) {
  std::vector<const Instruction *> creates;
  for (size_t i = group + 1; i < steps.size() && look(1); ++i) {
    const Instruction &later = *steps[i].instruction;
    if (later.op == Opcode::Create)
      creates.push_back(&later);
    if (later.op != Opcode::Unpack)
      continue;
    Overlap overlap = overlapOf(later, planned.slot, planned.bytes);
    if (!overlap.any)
      continue;
    bool there = true;
    for (const Instruction *create : creates)
      there = there && look(create->segments.size() * later.segments.size()) &&
              !touchesAny(*create, later.segments, storage->common());
    if (overlap.exact && there) {
      steps[i].skipped = true;
      message.view = &steps[i].view;
    }
    return;
  }
}

/// Where the transport unpacks messages as they come.
void Executor::skipUnpacksOfPeers() {
  for (Step &step : steps)
    step.view = {&step.segments, storage};
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::vector<Message> &messages = steps[i].instruction->messages;
    for (size_t m = 0; m < messages.size(); ++m)
      if (messages[m].receive && !messages[m].direct &&
          transport->unpacksFrom(messages[m].peer))
        skipUnpack(i, steps[i].messages[m], messages[m]);
  }
}

void Executor::skipStaging() {
  for (Step &step : steps)
    step.view = {&step.segments, storage};
  skipPacks();
  for (size_t i = 0; i < steps.size(); ++i) {
    const Instruction &instruction = *steps[i].instruction;
    for (size_t m = 0; m < instruction.messages.size(); ++m) {
      const Message &message = instruction.messages[m];
      if (message.receive && !message.direct)
        skipUnpack(i, steps[i].messages[m], message);
    }
  }
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

std::vector<uint32_t> Executor::peers() const {
  return peersOf(storage->program());
}

Status Executor::run() {
  statistics = {};
  Status status = runSteps();
  statistics.devicePeak = storage->peakLiveBytes();
  return status;
}

Status Executor::runSteps() {
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].early)
      continue;
    Status status = runStep(steps[i]);
    if (!status.ok())
      return makeError("device ", storage->program().device, ", instruction ",
                       i, " (", opcodeName(steps[i].instruction->op),
                       "): ", status.message());
  }
  return {};
}

Status Executor::runStep(Step &step) {
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
    return runGroup(step);
  case Opcode::Unpack:
    return runUnpack(step);
  }
  return makeError("unknown opcode");
}

Status Executor::runCopy(const Step &step) {
  for (const PreparedCopy &prepared : step.copies) {
    DTRT_RETURN_IF_ERROR(copy(prepared, *storage, *storage));
    statistics.bytesCopied += prepared.source.bytes;
  }
  return {};
}

Status Executor::runZero(const Step &step) {
  for (const PreparedSegment &segment : step.segments) {
    DTRT_RETURN_IF_ERROR(zero(segment, *storage));
    statistics.bytesZeroed += segment.bytes;
  }
  return {};
}

Status Executor::runPack(const Step &step) {
  uint64_t at = step.instruction->slot;
  touchStaging(at, step.instruction->bytes);
  if (step.skipped)
    return {};
  for (const PreparedSegment &segment : step.segments) {
    DTRT_RETURN_IF_ERROR(pack(segment, *storage, arena + at));
    at += segment.bytes;
  }
  return {};
}

Status Executor::runUnpack(const Step &step) {
  if (step.skipped)
    return {};
  uint64_t at = step.instruction->slot;
  for (const PreparedSegment &segment : step.segments) {
    DTRT_RETURN_IF_ERROR(unpack(segment, *storage, arena + at));
    at += segment.bytes;
  }
  return {};
}

Status Executor::runGroup(Step &step) {
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
    ++statistics.messages;
  }
  return runMessages(step);
}

/// Adds the time since `begin`.
static void addTime(std::chrono::steady_clock::time_point begin,
                    double &seconds) {
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  seconds += time.count();
}

Status Executor::runMessages(Step &step) {
  auto begin = std::chrono::steady_clock::now();
  if (step.meanwhile.empty()) {
    Status status = transport->group(step.messages);
    addTime(begin, statistics.groupSeconds);
    return status;
  }
  DTRT_RETURN_IF_ERROR(transport->begin(step.messages));
  addTime(begin, statistics.groupSeconds);
  Status worked;
  for (size_t i = 0; i < step.meanwhile.size() && worked.ok(); ++i)
    worked = runStep(steps[step.meanwhile[i]]);
  begin = std::chrono::steady_clock::now();
  Status ended = transport->end();
  addTime(begin, statistics.groupSeconds);
  return worked.ok() ? ended : worked;
}

void Executor::touchStaging(uint64_t slot, uint64_t bytes) {
  statistics.stagingPeak = std::max(statistics.stagingPeak, slot + bytes);
}

} // namespace dtrt
