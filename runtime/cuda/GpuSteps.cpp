//===- GpuSteps.cpp - A program as work for streams -----------------------===//

#include "GpuSteps.h"

#include "dtrt/format/Collectives.h"

#include <algorithm>
#include <map>

namespace dtrt {

namespace {

GpuLane laneOf(Opcode op) {
  switch (op) {
  case Opcode::Group:
    return GpuLane::Wire;
  case Opcode::Pack:
    return GpuLane::Packing;
  case Opcode::Unpack:
    return GpuLane::Unpacking;
  default:
    return GpuLane::Local;
  }
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

class Builder {
public:
  Builder(LocalStorage &storage, std::byte *arena)
      : storage(storage), common(storage.common()), program(storage.program()),
        arena(arena) {}

  Result<GpuSteps> run(std::vector<std::vector<MessageRegions>> regions) {
    steps.regions = std::move(regions);
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      Status added = add(i);
      if (!added.ok())
        return makeError("device ", program.device, ", instruction ", i, ": ",
                         added);
    }
    return std::move(steps);
  }

private:
  Status add(size_t index) {
    const Instruction &instruction = program.instructions[index];
    if (instruction.op == Opcode::Relay)
      return {}; // its messages use the same bytes
    GpuStep step;
    step.first = index;
    step.op = instruction.op;
    step.lane = laneOf(instruction.op);
    step.group = steps.groups;
    step.after.fill(kNoStep);
    DTRT_RETURN_IF_ERROR(fill(instruction, step));
    if (step.op == Opcode::Group)
      ++steps.groups;
    else if (!steps.list.empty() && joins(steps.list.back(), step)) {
      merge(steps.list.back(), step);
      return {};
    }
    steps.list.push_back(std::move(step));
    return {};
  }

  Status fill(const Instruction &instruction, GpuStep &step) {
    switch (instruction.op) {
    case Opcode::Group:
      return addMessages(instruction, step);
    case Opcode::Copy:
      return addCopies(instruction, step);
    case Opcode::Pack:
    case Opcode::Unpack:
    case Opcode::Zero:
      return addSegments(instruction, step);
    case Opcode::Create:
    case Opcode::Release:
      step.storage = instruction.segments;
      return {};
    case Opcode::Relay:
      break; // never asked for
    }
    return makeError("unknown opcode");
  }

  Status addSegments(const Instruction &instruction, GpuStep &step) {
    std::byte *packed = arena + instruction.slot;
    for (const Segment &segment : instruction.segments) {
      auto prepared = prepareSegment(common, program, segment);
      DTRT_RETURN_IF_ERROR(prepared);
      step.readsDestination |=
          instruction.op == Opcode::Pack && segment.side == Side::Destination;
      step.bytes += prepared->bytes;
      if (instruction.op == Opcode::Zero)
        DTRT_RETURN_IF_ERROR(step.boxes.addFill(*prepared, storage));
      else if (instruction.op == Opcode::Pack)
        DTRT_RETURN_IF_ERROR(step.boxes.addPack(*prepared, storage, packed));
      else
        DTRT_RETURN_IF_ERROR(step.boxes.addUnpack(*prepared, storage, packed));
      packed += prepared->bytes;
    }
    if (instruction.op != Opcode::Zero)
      step.uses.push_back({instruction.slot,
                           instruction.slot + instruction.bytes,
                           instruction.op == Opcode::Pack});
    step.writesDestination = instruction.op != Opcode::Pack;
    return {};
  }

  Status addCopies(const Instruction &instruction, GpuStep &step) {
    step.writesDestination = true;
    for (size_t i = 0; i + 1 < instruction.segments.size(); i += 2) {
      const Segment &from = instruction.segments[i];
      auto copy = prepareCopy(common, program, from, program,
                              instruction.segments[i + 1]);
      DTRT_RETURN_IF_ERROR(copy);
      step.readsDestination |= from.side == Side::Destination;
      step.bytes += copy->source.bytes;
      DTRT_RETURN_IF_ERROR(step.boxes.addCopy(*copy, storage));
    }
    return {};
  }

  /// A library's call uses whole blocks.
  void addBlocks(const GroupCollective &call, GpuStep &step) {
    auto use = [&](uint64_t slot, uint64_t bytes, bool writes) {
      if (bytes == 0)
        return;
      step.uses.push_back({slot, slot + bytes, writes});
      steps.stagingPeak = std::max(steps.stagingPeak, slot + bytes);
    };
    use(call.giveSlot, bytesGiven(common, call, program.device), false);
    use(call.getSlot, bytesGot(common, call, program.device), true);
  }

  Status addMessages(const Instruction &instruction, GpuStep &step) {
    if (instruction.collective)
      addBlocks(*instruction.collective, step);
    for (size_t m = 0; m < instruction.messages.size(); ++m) {
      const Message &message = instruction.messages[m];
      std::byte *data = arena + message.slot;
      if (message.direct) {
        auto prepared = prepareSegment(common, program, message.segment);
        DTRT_RETURN_IF_ERROR(prepared);
        auto found = contiguousData(*prepared, storage);
        DTRT_RETURN_IF_ERROR(found);
        data = *found;
        bool destination = message.segment.side == Side::Destination;
        step.writesDestination |= message.receive;
        step.readsDestination |= !message.receive && destination;
      } else {
        uint64_t end = message.slot + message.bytes;
        step.uses.push_back({message.slot, end, message.receive});
        steps.stagingPeak = std::max(steps.stagingPeak, end);
      }
      step.messages.push_back(
          {message.receive, message.peer, data, message.bytes, nullptr,
           steps.regions.empty() ? nullptr : &steps.regions[step.first][m]});
    }
    return {};
  }

  /// Whether the boxes of two neighbours may go in one launch.
  static bool joins(const GpuStep &step, const GpuStep &next) {
    if (step.op != next.op || (next.readsDestination && step.writesDestination))
      return false;
    for (const StagingUse &a : step.uses)
      for (const StagingUse &b : next.uses)
        if ((a.writes || b.writes) && a.lo < b.hi && b.lo < a.hi)
          return false;
    return true;
  }

  static void merge(GpuStep &step, const GpuStep &next) {
    step.boxes.append(next.boxes);
    step.uses.insert(step.uses.end(), next.uses.begin(), next.uses.end());
    step.readsDestination |= next.readsDestination;
    step.writesDestination |= next.writesDestination;
    step.bytes += next.bytes;
    step.storage.insert(step.storage.end(), next.storage.begin(),
                        next.storage.end());
  }

  LocalStorage &storage;
  const PlanCommon &common;
  const RankProgram &program;
  std::byte *arena;
  GpuSteps steps;
};

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

using ByLane = std::array<size_t, kNumGpuLanes>;

/// Keeps, per lane, the last of the steps that are named.
void addStep(ByLane &steps, GpuLane lane, size_t step) {
  size_t &last = steps[size_t(lane)];
  last = last == kNoStep ? step : std::max(last, step);
}

/// Elements of the destination are written once, by what is proved of every
/// plan, so that only their readers must wait; the source is never written.
/// Staging bytes are used again and again. What the host does between steps is
/// ordered by it, not here.
class Orderer {
public:
  explicit Orderer(std::vector<GpuStep> &steps) : steps(steps) {
    destinationWriters.fill(kNoStep);
    Piece idle;
    idle.readers.fill(kNoStep);
    pieces[0] = idle;
  }

  void run() {
    for (size_t i = 0; i < steps.size(); ++i) {
      GpuStep &step = steps[i];
      for (const StagingUse &use : step.uses)
        waitForUsers(i, use);
      for (const StagingUse &use : step.uses)
        addUser(i, use);
      if (step.readsDestination)
        for (size_t writer : destinationWriters)
          waitFor(i, writer);
      if (step.writesDestination)
        addStep(destinationWriters, step.lane, i);
    }
  }

private:
  /// Staging bytes from its key to the next one's.
  struct Piece {
    size_t writer = kNoStep;
    ByLane readers; // since then
  };
  using Pieces = std::map<uint64_t, Piece>;

  /// The steps of a lane end in their order.
  void waitFor(size_t step, size_t earlier) {
    if (earlier != kNoStep && steps[earlier].lane != steps[step].lane)
      addStep(steps[step].after, steps[earlier].lane, earlier);
  }

  /// The piece that starts at this byte.
  Pieces::iterator cutAt(uint64_t byte) {
    auto next = pieces.lower_bound(byte);
    if (next != pieces.end() && next->first == byte)
      return next;
    return pieces.emplace_hint(next, byte, std::prev(next)->second);
  }

  void waitForUsers(size_t step, const StagingUse &use) {
    if (use.lo == use.hi)
      return;
    auto first = cutAt(use.lo), last = cutAt(use.hi);
    for (auto piece = first; piece != last; ++piece) {
      waitFor(step, piece->second.writer);
      if (use.writes)
        for (size_t reader : piece->second.readers)
          waitFor(step, reader);
    }
  }

  void addUser(size_t step, const StagingUse &use) {
    if (use.lo == use.hi)
      return;
    auto first = cutAt(use.lo), last = cutAt(use.hi);
    if (!use.writes) {
      for (auto piece = first; piece != last; ++piece)
        addStep(piece->second.readers, steps[step].lane, step);
      return;
    }
    pieces.erase(std::next(first), last);
    first->second.writer = step;
    first->second.readers.fill(kNoStep);
  }

  std::vector<GpuStep> &steps;
  ByLane destinationWriters;
  Pieces pieces;
};

} // namespace

Result<GpuSteps> stepsOf(LocalStorage &storage, std::byte *arena,
                         std::vector<std::vector<MessageRegions>> regions) {
  auto steps = Builder(storage, arena).run(std::move(regions));
  DTRT_RETURN_IF_ERROR(steps);
  Orderer(steps->list).run();
  return steps;
}

} // namespace dtrt
