//===- GpuPlans.cpp - Plans as the compiler makes them --------------------===//

#include "GpuPlans.h"

#include "dtrt/core/Packing.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace dtrt::test {

namespace {

bool isOneRun(const TestPlan &plan, const RankProgram &program,
              const std::vector<Segment> &segments) {
  if (segments.size() != 1)
    return false;
  auto prepared = prepareSegment(plan.common, program, segments.front());
  EXPECT_TRUE(prepared.ok()) << prepared.status().message();
  if (prepared->parts.size() != 1 || prepared->members.size() != 1)
    return false;
  const StridedCopy &copy = segments.front().side == Side::Source
                                ? prepared->parts[0].toPacked
                                : prepared->parts[0].fromPacked;
  return copy.dims.empty() && !copy.convert;
}

/// The pack or unpack that a message's slot belongs to.
size_t partnerOf(const RankProgram &program, const Message &message,
                 int32_t wave) {
  Opcode wanted = message.receive ? Opcode::Unpack : Opcode::Pack;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction &instruction = program.instructions[i];
    if (instruction.op == wanted && instruction.wave == wave &&
        instruction.slot == message.slot)
      return i;
  }
  ADD_FAILURE() << "a message without its pack or unpack";
  return 0;
}

/// Where the messages of each group of a device go; a pack or unpack follows
/// its message.
class SlotsInTurn {
public:
  explicit SlotsInTurn(RankProgram &program) : program(program) {}

  void run() {
    uint64_t most[2][2] = {{0, 0}, {0, 0}};
    forEachMessage([&](int parity, Instruction &, Message &message) {
      uint64_t &area = most[message.receive][parity];
      area = std::max(area, message.bytes);
    });
    uint64_t starts[2][2], next = 0;
    for (int receive : {0, 1})
      for (int parity : {0, 1}) {
        starts[receive][parity] = next;
        next += most[receive][parity];
      }
    program.stagingBytes = next;
    forEachMessage([&](int parity, Instruction &group, Message &message) {
      size_t partner = partnerOf(program, message, group.wave);
      message.slot = starts[message.receive][parity];
      program.instructions[partner].slot = message.slot;
    });
  }

private:
  template <typename Visit> void forEachMessage(Visit visit) {
    int parity = 0;
    for (Instruction &instruction : program.instructions) {
      if (instruction.op != Opcode::Group)
        continue;
      for (Message &message : instruction.messages)
        if (!message.direct)
          visit(parity, instruction, message);
      parity = 1 - parity;
    }
  }

  RankProgram &program;
};

/// Where storage comes and goes in a program that has all of it.
class PiecesInTurn {
public:
  PiecesInTurn(const PlanCommon &common, RankProgram &program, int64_t bytes)
      : common(common), program(program), bytes(bytes) {}

  void run() {
    auto &all = program.instructions;
    all.erase(std::remove_if(all.begin(), all.end(),
                             [](const Instruction &own) {
                               return own.op == Opcode::Create ||
                                      own.op == Opcode::Release;
                             }),
              all.end());
    before.resize(all.size() + 1);
    for (Side side : {Side::Source, Side::Destination})
      for (uint32_t shard = 0; shard < shards(side).size(); ++shard)
        for (const Segment &whole : wholeStorage(
                 familyOf(side, shard), shards(side)[shard], side, shard))
          place(whole);
    std::vector<Instruction> out;
    for (size_t i = 0; i <= all.size(); ++i) {
      out.insert(out.end(), before[i].begin(), before[i].end());
      if (i < all.size())
        out.push_back(std::move(all[i]));
    }
    all = std::move(out);
  }

private:
  const std::vector<ShardRecord> &shards(Side side) const {
    return side == Side::Source ? program.source : program.destination;
  }
  const Family &familyOf(Side side, uint32_t shard) const {
    return common.families[shards(side)[shard].family];
  }

  /// Pieces of all members and states of a shard.
  void place(const Segment &whole) {
    const Family &family = familyOf(whole.side, whole.shard);
    Interval elements = storageRange(family, whole);
    int64_t step = std::max<int64_t>(
        1, bytes * elements.size() / int64_t(storageBytes(family, whole)));
    for (int64_t lo = elements.lo; lo < elements.hi; lo += step) {
      Interval piece = {lo, std::min(lo + step, elements.hi)};
      Instruction change;
      change.op = whole.side == Side::Source ? Opcode::Release : Opcode::Create;
      change.segments = {storageSegment(family, whole, piece)};
      before[placeOf(whole, piece)].push_back(std::move(change));
    }
  }

  /// The first instruction that touches a piece of a destination, or the one
  /// behind the last that touches one of a source.
  size_t placeOf(const Segment &whole, Interval piece) const {
    size_t place = 0;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      if (!touches(program.instructions[i], whole, piece))
        continue;
      if (whole.side == Side::Destination)
        return i;
      place = i + 1;
    }
    return place;
  }

  bool touches(const Instruction &instruction, const Segment &whole,
               Interval piece) const {
    for (const Segment &segment : instruction.segments)
      if (touches(segment, whole, piece))
        return true;
    for (const Message &message : instruction.messages)
      if (message.direct && touches(message.segment, whole, piece))
        return true;
    return false;
  }
  bool touches(const Segment &segment, const Segment &whole,
               Interval piece) const {
    if (segment.side != whole.side || segment.shard != whole.shard)
      return false;
    const Family &family = familyOf(whole.side, whole.shard);
    Interval hull =
        storageHull(family, shards(whole.side)[whole.shard], segment);
    return (storedStates(family, segment.states, whole.side) & whole.states) &&
           hull.lo < piece.hi && piece.lo < hull.hi;
  }

  const PlanCommon &common;
  RankProgram &program;
  int64_t bytes;
  std::vector<std::vector<Instruction>> before; // by instruction, and the end
};

ShardRecord rows(uint32_t family, int64_t of, int64_t part, int64_t parts,
                 int64_t columns, uint64_t states = 1) {
  return box(family,
             {{of * part / parts, of * (part + 1) / parts}, {0, columns}},
             states);
}

ShardRecord columns(uint32_t family, int64_t rows, int64_t of, int64_t part,
                    int64_t parts, uint64_t states = 1) {
  return box(family, {{0, rows}, {of * part / parts, of * (part + 1) / parts}},
             states);
}

} // namespace

void makeDirect(TestPlan &plan) {
  for (RankProgram &program : plan.programs) {
    std::vector<size_t> gone;
    for (Instruction &group : program.instructions)
      for (Message &message : group.messages) {
        size_t partner = partnerOf(program, message, group.wave);
        const auto &segments = program.instructions[partner].segments;
        if (!isOneRun(plan, program, segments))
          continue;
        message.direct = true;
        message.slot = 0;
        message.segment = segments.front();
        gone.push_back(partner);
      }
    std::sort(gone.rbegin(), gone.rend());
    for (size_t partner : gone)
      program.instructions.erase(program.instructions.begin() + long(partner));
  }
  summarize(plan);
}

void reuseSlots(TestPlan &plan) {
  for (RankProgram &program : plan.programs)
    SlotsInTurn(program).run();
  summarize(plan);
}

void makeFlat(TestPlan &plan, int64_t bytes) {
  plan.common.summary.mode = MemoryMode::Flat;
  for (RankProgram &program : plan.programs)
    PiecesInTurn(plan.common, program, bytes).run();
  summarize(plan);
  makeSummaryTrue(plan);
}

TestPlan rowsToColumnsPlan(int64_t of, int64_t wide) {
  Holdings source(2), destination(2);
  for (int64_t d : {0, 1}) {
    source[size_t(d)] = {rows(0, of, d, 2, wide)};
    destination[size_t(d)] = {columns(0, of, wide, d, 2)};
  }
  TestPlan plan =
      makePlan({makeFamily("w", {}, {of, wide})}, source, destination);
  makeDirect(plan);
  reuseSlots(plan);
  return plan;
}

TestPlan columnsFromOnePlan() {
  constexpr int64_t kRows = 256, kColumns = 192;
  Holdings source(2), destination(2);
  source[0] = {rows(0, kRows, 0, 1, kColumns)};
  for (int64_t d : {0, 1})
    destination[size_t(d)] = {columns(0, kRows, kColumns, d, 2)};
  TestPlan plan =
      makePlan({makeFamily("w", {}, {kRows, kColumns})}, source, destination);
  makeDirect(plan);
  reuseSlots(plan);
  return plan;
}

TestPlan wavesPlan(int64_t of, int64_t wide) {
  constexpr int64_t kDevices = 5;
  std::vector<StateInfo> states = {{"param", DType::F32, DType::BF16},
                                   {"master", DType::F32, DType::F32}};
  Holdings source(kDevices), destination(kDevices);
  for (int64_t d = 0; d < kDevices; ++d) {
    source[size_t(d)] = {rows(0, of, d, kDevices, wide, 3)};
    destination[size_t(d)] = {columns(0, of, wide, d, kDevices, 3)};
  }
  TestPlan plan =
      makePlan({makeFamily("w", {}, {of, wide}, states)}, source, destination);
  reuseSlots(plan);
  return plan;
}

TestPlan mixedPlan() {
  constexpr int64_t kRows = 64, kColumns = 96;
  std::vector<Family> families = {makeFamily("a", {}, {kRows, kColumns}),
                                  makeFamily("b", {}, {kRows, kColumns}),
                                  makeFamily("c", {}, {kRows, kColumns})};
  Holdings source(4), destination(4);
  for (int64_t d = 0; d < 4; ++d) {
    uint32_t own = d < 2 ? 0 : 1; // rows to columns; columns to columns
    auto at = size_t(d);
    source[at] = {own == 0 ? rows(0, kRows, d % 2, 2, kColumns)
                           : columns(1, kRows, kColumns, d % 2, 2),
                  rows(2, kRows, d, 4, kColumns)};
    destination[at] = {own == 0 ? columns(0, kRows, kColumns, d % 2, 2)
                                : rows(1, kRows, d % 2, 2, kColumns),
                       rows(2, kRows, (d + 2) % 4, 4, kColumns)};
  }
  TestPlan plan = makePlan(families, source, destination);
  makeDirect(plan);
  reuseSlots(plan);
  return plan;
}

} // namespace dtrt::test
