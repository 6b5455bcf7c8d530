//===- PlanBuilder.cpp - Small plans for tests ----------------------------===//

#include "PlanBuilder.h"

#include "PlanBytes.h"

#include "dtrt/format/StayingStates.h"
#include "dtrt/verify/Verifier.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace dtrt::test {

namespace {

/// A plan that cannot be built is a mistake of the test.
void require(bool holds, const std::string &text) {
  if (holds)
    return;
  std::fprintf(stderr, "test plan: %s\n", text.c_str());
  std::abort();
}

struct Box {
  std::vector<int64_t> offset, size;
};

std::optional<Box> intersect(const Box &a, const Box &b) {
  Box out = a;
  for (size_t d = 0; d < a.size.size(); ++d) {
    int64_t lo = std::max(a.offset[d], b.offset[d]);
    int64_t hi = std::min(a.offset[d] + a.size[d], b.offset[d] + b.size[d]);
    if (lo >= hi)
      return std::nullopt;
    out.offset[d] = lo;
    out.size[d] = hi - lo;
  }
  return out;
}

/// a without b, as disjoint boxes.
std::vector<Box> subtract(Box a, const Box &b) {
  std::vector<Box> out;
  for (size_t d = 0; d < a.size.size(); ++d) {
    int64_t lo = a.offset[d], hi = lo + a.size[d];
    int64_t cutLo = b.offset[d], cutHi = cutLo + b.size[d];
    Box part = a;
    if (lo < cutLo) {
      part.size[d] = cutLo - lo;
      out.push_back(part);
    }
    if (cutHi < hi) {
      part.offset[d] = cutHi;
      part.size[d] = hi - cutHi;
      out.push_back(part);
    }
    a.offset[d] = std::max(lo, cutLo);
    a.size[d] = std::min(hi, cutHi) - a.offset[d];
  }
  return out;
}

/// All boxes that take one interval of each dim, row-major.
std::vector<Box> productBoxes(const std::vector<std::vector<Interval>> &dims) {
  std::vector<Box> boxes = {{}};
  for (const auto &intervals : dims) {
    std::vector<Box> next;
    for (const Box &box : boxes)
      for (const Interval &interval : intervals) {
        if (interval.size() == 0)
          continue;
        next.push_back(box);
        next.back().offset.push_back(interval.lo);
        next.back().size.push_back(interval.size());
      }
    boxes = std::move(next);
  }
  return boxes;
}

/// A flat shard is cut into one-row boxes: slow and plain.
std::vector<Box> shardBoxes(const Family &family, const ShardRecord &shard) {
  if (!shard.flat)
    return productBoxes(shard.dims);
  std::vector<std::vector<Interval>> rows = shard.dims;
  for (size_t d = family.numLeading(); d + 1 < rows.size(); ++d) {
    std::vector<Interval> single;
    for (const Interval &interval : shard.dims[d])
      for (int64_t i = interval.lo; i < interval.hi; ++i)
        single.push_back({i, i + 1});
    rows[d] = single;
  }
  std::vector<Box> out;
  DimVector shape = localShape(shard);
  for (const Box &row : productBoxes(rows)) {
    ShardRecord whole = shard;
    whole.flat = false;
    auto view = viewOf(family, whole, row.offset, row.size);
    int64_t lo = std::max(view->offset, shard.range.lo);
    int64_t hi = std::min(view->offset + row.size.back(), shard.range.hi);
    if (lo >= hi)
      continue;
    Box part = row;
    part.offset.back() += lo - view->offset;
    part.size.back() = hi - lo;
    out.push_back(part);
  }
  return out;
}

Box wholeFamily(const Family &family) {
  Box whole;
  for (const LeadingDim &dim : family.leading)
    whole.size.push_back(dim.count);
  whole.size.insert(whole.size.end(), family.shape.begin(), family.shape.end());
  whole.offset.resize(whole.size.size());
  return whole;
}

Segment makeSegment(const ShardRecord &shard, uint32_t index, Side side,
                    uint64_t states, const Box &box) {
  return {shard.family, states, side, index, box.offset, box.size};
}

class Router {
public:
  Router(TestPlan &plan) : plan(plan), count(plan.programs.size()) {
    edges.resize(count * count);
    zeros.resize(count);
  }

  void route() {
    for (uint32_t d = 0; d < count; ++d)
      for (uint32_t s = 0; s < plan.programs[d].destination.size(); ++s)
        routeShard(d, s);
    for (uint32_t d = 0; d < count; ++d)
      emit(d);
  }

private:
  struct Edge {
    std::vector<Segment> from, to;
  };

  void routeShard(uint32_t device, uint32_t index) {
    RankProgram &program = plan.programs[device];
    const ShardRecord &shard = program.destination[index];
    const Family &family = plan.common.families[shard.family];
    Box whole = wholeFamily(family);
    for (const Box &held : shardBoxes(family, shard)) {
      auto inside = intersect(held, whole);
      for (const Box &padding :
           inside ? subtract(held, *inside) : std::vector<Box>{held})
        zeros[device].push_back(makeSegment(shard, index, Side::Destination,
                                            shard.states, padding));
      if (!inside)
        continue;
      for (unsigned state : statesOf(shard.states))
        findHolders(device, index, uint64_t(1) << state, *inside);
    }
  }

  void findHolders(uint32_t device, uint32_t index, uint64_t state,
                   const Box &box) {
    const ShardRecord &wanted = plan.programs[device].destination[index];
    const Family &family = plan.common.families[wanted.family];
    std::vector<Box> missing = {box};
    for (uint32_t step = 0; step < count && !missing.empty(); ++step) {
      uint32_t holder = (device + step) % count;
      const auto &shards = plan.programs[holder].source;
      for (uint32_t s = 0; s < shards.size(); ++s) {
        if (shards[s].family != wanted.family || !(shards[s].states & state))
          continue;
        for (const Box &held : shardBoxes(family, shards[s])) {
          std::vector<Box> rest;
          for (const Box &need : missing) {
            auto common = intersect(need, held);
            if (!common) {
              rest.push_back(need);
              continue;
            }
            Edge &edge = edges[holder * count + device];
            edge.from.push_back(
                makeSegment(shards[s], s, Side::Source, state, *common));
            edge.to.push_back(
                makeSegment(wanted, index, Side::Destination, state, *common));
            for (Box &part : subtract(need, *common))
              rest.push_back(part);
          }
          missing = std::move(rest);
        }
      }
    }
    require(missing.empty(), "nobody holds a part of " + family.name);
  }

  uint64_t bytesOf(const std::vector<Segment> &segments) const {
    uint64_t bytes = 0;
    for (const Segment &segment : segments)
      bytes += segmentBytes(plan.common.families[segment.family], segment);
    return bytes;
  }

  std::vector<Segment> allMembers(const std::vector<ShardRecord> &shards,
                                  Side side) const {
    std::vector<Segment> all;
    for (uint32_t s = 0; s < shards.size(); ++s)
      for (Segment &segment : wholeStorage(
               plan.common.families[shards[s].family], shards[s], side, s))
        all.push_back(std::move(segment));
    return all;
  }

  void emitLocal(uint32_t device) {
    RankProgram &program = plan.programs[device];
    bool flat = plan.common.summary.mode == MemoryMode::Flat;
    if (flat) {
      Instruction create;
      create.op = Opcode::Create;
      create.segments = allMembers(program.destination, Side::Destination);
      program.instructions.push_back(create);
    }
    if (!zeros[device].empty()) {
      Instruction zero;
      zero.op = Opcode::Zero;
      zero.segments = zeros[device];
      program.instructions.push_back(zero);
    }
    const Edge &local = edges[device * count + device];
    if (local.from.empty())
      return;
    Instruction copy;
    copy.op = Opcode::Copy;
    for (size_t i = 0; i < local.from.size(); ++i) {
      copy.segments.push_back(local.from[i]);
      copy.segments.push_back(local.to[i]);
    }
    program.instructions.push_back(copy);
  }

  void emitWave(uint32_t device, uint32_t wave) {
    RankProgram &program = plan.programs[device];
    uint32_t to = (device + wave + 1) % count;
    uint32_t from = (device + count - wave - 1) % count;
    const Edge &out = edges[device * count + to];
    const Edge &in = edges[from * count + device];
    Instruction pack, group, unpack;
    pack.op = Opcode::Pack;
    group.op = Opcode::Group;
    unpack.op = Opcode::Unpack;
    pack.wave = group.wave = unpack.wave = int32_t(wave);
    uint64_t sent = bytesOf(out.from), received = bytesOf(in.to);
    // Every message has bytes of its own, so packs may run early.
    uint64_t base = program.stagingBytes;
    if (sent) {
      pack.segments = out.from;
      pack.slot = base;
      pack.bytes = sent;
      program.instructions.push_back(pack);
      group.messages.push_back({false, to, sent, false, base, {}});
    }
    if (received)
      group.messages.push_back({true, from, received, false, base + sent, {}});
    if (!group.messages.empty())
      program.instructions.push_back(group);
    if (received) {
      unpack.segments = in.to;
      unpack.slot = base + sent;
      unpack.bytes = received;
      program.instructions.push_back(unpack);
    }
    program.stagingBytes = base + sent + received;
  }

  void emit(uint32_t device) {
    emitLocal(device);
    for (uint32_t wave = 0; wave + 1 < count; ++wave)
      emitWave(device, wave);
    RankProgram &program = plan.programs[device];
    if (plan.common.summary.mode != MemoryMode::Flat)
      return;
    Instruction release;
    release.op = Opcode::Release;
    release.segments = allMembers(program.source, Side::Source);
    program.instructions.push_back(release);
  }

  TestPlan &plan;
  uint32_t count;
  std::vector<Edge> edges;
  std::vector<std::vector<Segment>> zeros;
};

/// VPS elements of a shard, padding excluded.
uint64_t realBytes(const Family &family, const ShardRecord &shard) {
  uint64_t bytes = 0;
  Box whole = wholeFamily(family);
  for (const Box &held : shardBoxes(family, shard))
    if (auto inside = intersect(held, whole)) {
      uint64_t elements = 1;
      for (int64_t size : inside->size)
        elements *= uint64_t(size);
      bytes +=
          elements * bytesPerElement(family, shard.states, Side::Destination);
    }
  return bytes;
}

/// What the verifier measures; nothing when the plan is wrong.
std::optional<PlanSummary> trueSummary(const TestPlan &plan) {
  auto bytes = plan.encoded();
  auto reader = bytes.ok() ? PlanReader::fromBytes(std::move(*bytes))
                           : Result<PlanReader>(bytes.status());
  if (!reader.ok())
    return std::nullopt;
  auto measured = measurePlan(*reader);
  return measured.ok() ? std::optional<PlanSummary>(*measured) : std::nullopt;
}

} // namespace

/// Whether what goes to a peer crosses the network; what a collective gives to
/// all does so once for each node.
static bool entersNode(const PlanCommon &common, int64_t device,
                       const Instruction &group, int64_t peer) {
  int64_t perNode = common.cluster.devicesPerNode;
  if (device / perNode == peer / perNode)
    return false;
  if (!group.collective || group.collective->kind == CollectiveKind::AllToAll)
    return true;
  for (int64_t member : common.memberSets[group.collective->members])
    if (member / perNode == peer / perNode)
      return member == peer;
  return false;
}

void summarize(TestPlan &plan) {
  PlanSummary &summary = plan.common.summary;
  MemoryMode mode = summary.mode;
  summary = {};
  summary.mode = mode;
  std::vector<int32_t> waves;
  for (const RankProgram &program : plan.programs) {
    uint64_t source = 0, destination = 0;
    for (const ShardRecord &shard : program.source)
      source +=
          shardBytes(plan.common.families[shard.family], shard, Side::Source);
    for (const ShardRecord &shard : program.destination) {
      const Family &family = plan.common.families[shard.family];
      destination += shardBytes(family, shard, Side::Destination);
      summary.bytesDestination += realBytes(family, shard);
    }
    summary.sourceMax = std::max(summary.sourceMax, source);
    summary.destinationMax = std::max(summary.destinationMax, destination);
    summary.stagingPeak = std::max(summary.stagingPeak, program.stagingBytes);
    summary.devicePeak =
        std::max(summary.devicePeak, peakBytes(plan.common, program));
    std::vector<uint64_t> staying = stayingMasks(plan.common, program);
    for (const Instruction &instruction : program.instructions) {
      if (instruction.op == Opcode::Copy)
        for (size_t i = 1; i < instruction.segments.size(); i += 2) {
          const Segment &to = instruction.segments[i];
          const Family &family = plan.common.families[to.family];
          uint64_t moved = storedBytes(family, movedPart(to, staying));
          summary.bytesLocal += moved;
          summary.bytesInPlace += storedBytes(family, to) - moved;
        }
      if (const auto &call = instruction.collective)
        summary.libraryCollectives +=
            plan.common.memberSets[call->members].front() == program.device;
      if (instruction.op == Opcode::Relay)
        summary.bytesRelayed += instruction.bytes;
      for (const Message &message : instruction.messages) {
        waves.push_back(instruction.wave);
        if (message.receive)
          continue;
        summary.messages += !instruction.collective;
        summary.bytesWire += message.bytes;
        if (entersNode(plan.common, program.device, instruction, message.peer))
          summary.bytesInterNode += message.bytes;
      }
    }
  }
  std::sort(waves.begin(), waves.end());
  waves.erase(std::unique(waves.begin(), waves.end()), waves.end());
  summary.waves = waves.size();
  summary.stagingLimit = std::max(summary.stagingPeak, uint64_t(1) << 20);
  if (auto measured = trueSummary(plan)) {
    summary.bytesWireLowerBound = measured->bytesWireLowerBound;
    summary.bytesInterNodeLowerBound = measured->bytesInterNodeLowerBound;
    summary.timePredicted = measured->timePredicted;
    summary.timeLowerBound = measured->timeLowerBound;
  }
}

void makeSummaryTrue(TestPlan &plan) {
  if (auto measured = trueSummary(plan))
    plan.common.summary = *measured;
}

uint64_t mostAbove(const TestPlan &plan) {
  uint64_t most = 0;
  for (const RankProgram &program : plan.programs) {
    uint64_t sides[2] = {0, 0};
    for (const ShardRecord &shard : program.source)
      sides[0] +=
          shardBytes(plan.common.families[shard.family], shard, Side::Source);
    for (const ShardRecord &shard : program.destination)
      sides[1] += shardBytes(plan.common.families[shard.family], shard,
                             Side::Destination);
    uint64_t peak = peakBytes(plan.common, program);
    uint64_t larger = std::max(sides[0], sides[1]);
    most = std::max(most, peak > larger ? peak - larger : 0);
  }
  return most;
}

TestPlan makePlan(std::vector<Family> families, const Holdings &source,
                  const Holdings &destination, MemoryMode mode) {
  TestPlan plan;
  PlanCommon &common = plan.common;
  common.compilerVersion = "test";
  common.requestHash = std::string(32, '0');
  common.sourceFingerprint = std::string(32, '1');
  common.destinationFingerprint = std::string(32, '2');
  common.families = std::move(families);
  common.summary.mode = mode;
  common.cluster.devicesPerNode = 2;
  uint32_t count = uint32_t(source.size());
  common.sourceWorld = common.destinationWorld = count;
  for (uint32_t device = 0; device < count; ++device) {
    common.sourceDevices.push_back(device);
    common.destinationDevices.push_back(device);
    RankProgram program;
    program.device = device;
    program.sourceRank = program.destinationRank = device;
    program.source = source[device];
    program.destination = destination[device];
    plan.programs.push_back(std::move(program));
  }
  Router(plan).route();
  summarize(plan);
  return plan;
}

std::string TestPlan::bytes() const {
  auto out = encoded();
  require(out.ok(), out.status().message());
  return std::move(*out);
}

PlanReader TestPlan::reader() const {
  auto reader = PlanReader::fromBytes(bytes());
  require(reader.ok(), reader.status().message());
  return std::move(*reader);
}

Result<std::string> TestPlan::encoded() const {
  return encodePlan(common, programs);
}

std::string TestPlan::verdict() const {
  auto file = encoded();
  if (!file.ok())
    return file.status().message();
  auto read = PlanReader::fromBytes(*file);
  return (read.ok() ? verifyPlan(*read) : read.status()).message();
}

Result<TestPlan> TestPlan::from(const PlanReader &reader) {
  TestPlan plan;
  plan.common = reader.common();
  for (uint32_t device : reader.devices()) {
    auto program = reader.program(device);
    DTRT_RETURN_IF_ERROR(program);
    plan.programs.push_back(std::move(*program));
  }
  return plan;
}

std::vector<uint32_t> TestPlan::devices() const {
  std::vector<uint32_t> out;
  for (const RankProgram &program : programs)
    out.push_back(program.device);
  return out;
}

Family makeFamily(std::string name, std::vector<LeadingDim> leading,
                  std::vector<int64_t> shape, std::vector<StateInfo> states) {
  return {std::move(name),   std::move(leading), std::move(shape),
          std::move(states), /*partial=*/false,  /*storage=*/""};
}

ShardRecord box(uint32_t family, const std::vector<Interval> &dims,
                uint64_t states) {
  ShardRecord shard;
  shard.family = family;
  shard.states = states;
  for (const Interval &range : dims)
    shard.dims.push_back({range});
  return shard;
}

TestPlan reshapePlan(MemoryMode mode) {
  std::vector<StateInfo> two = {{"param", DType::BF16, DType::BF16},
                                {"master", DType::F32, DType::F32}};
  std::vector<Family> families = {
      makeFamily("layers.{}.mlp.fc1.weight", {{0, 1, 4}}, {16, 6}, two),
      makeFamily("embedding.weight", {}, {10, 4}),
      makeFamily("layers.{}.norm.exp_avg", {{0, 1, 4}}, {8, 5},
                 {{"exp_avg", DType::F32, DType::F32}}),
      makeFamily("step", {}, {}, {{"step", DType::I64, DType::I64}})};
  auto holdings = [](int64_t tp, int64_t vocab) {
    Holdings out(4);
    for (int64_t d = 0; d < 4; ++d) {
      int64_t r = d % tp, gate = 8 / tp;
      ShardRecord glu = box(0, {{0, 4}, {}, {0, 6}}, 3);
      glu.dims[1] = {{r * gate, (r + 1) * gate},
                     {8 + r * gate, 8 + (r + 1) * gate}};
      ShardRecord range = box(2, {{0, 4}, {0, 8}, {0, 5}});
      range.flat = true;
      range.range = {40 * r / tp, 40 * (r + 1) / tp};
      int64_t rows = vocab / tp;
      out[d] = {glu, box(1, {{r * rows, (r + 1) * rows}, {0, 4}}), range,
                box(3, {})};
    }
    return out;
  };
  return makePlan(families, holdings(4, 16), holdings(2, 12), mode);
}

TestPlan forwardingPlan() {
  Family family = makeFamily("w", {}, {4, 4});
  ShardRecord whole = box(0, {{0, 4}, {0, 4}});
  Holdings source = {{whole}, {}, {}};
  Holdings destination = {{whole}, {whole}, {whole}};
  TestPlan plan = makePlan({family}, source, destination);
  // Instead of sending twice, device 0 sends to 1, and 1 to 2.
  Segment held = {0, 1, Side::Source, 0, {0, 0}, {4, 4}};
  Segment wanted = {0, 1, Side::Destination, 0, {0, 0}, {4, 4}};
  auto group = [](int32_t wave, Message message) {
    Instruction instruction;
    instruction.op = Opcode::Group;
    instruction.wave = wave;
    instruction.messages = {message};
    return instruction;
  };
  auto &programs = plan.programs;
  Instruction copy;
  copy.segments = {held, wanted};
  programs[0].instructions = {copy, group(0, {false, 1, 32, true, 0, held})};
  programs[1].instructions = {group(0, {true, 0, 32, true, 0, wanted}),
                              group(1, {false, 2, 32, true, 0, wanted})};
  programs[2].instructions = {group(1, {true, 1, 32, true, 0, wanted})};
  for (RankProgram &program : programs)
    program.stagingBytes = 0;
  summarize(plan);
  plan.common.summary.multicasts = 1;
  return plan;
}

TestPlan relayPlan() {
  StateInfo param = {"param", DType::BF16, DType::BF16};
  StateInfo master = {"master", DType::F32, DType::F32};
  ShardRecord whole = box(0, {{0, 4}, {0, 4}}, 3);
  ShardRecord scale = box(1, {{0, 4}});
  TestPlan plan = makePlan(
      {makeFamily("w", {}, {4, 4}, {param, master}), makeFamily("s", {}, {4})},
      {{whole, scale}, {scale}, {scale}}, {{scale}, {scale}, {whole, scale}});
  plan.common.cluster.relays = true;
  constexpr uint64_t kBytes = 2 * 4 * 6, kSlot = 128;
  auto half = [](Instruction staged, Side side, uint32_t shard, int64_t row) {
    staged.segments = {{0, 3, side, shard, {row, 0}, {2, 4}}};
    return staged;
  };
  auto message = [](bool receive, uint32_t peer, uint64_t slot) {
    return Message{receive, peer, kBytes, false, slot, {}};
  };
  auto pack = [&](uint64_t slot, int64_t row) {
    return half(packOf(slot, kBytes), Side::Source, 0, row);
  };
  auto unpack = [&](uint64_t slot, int64_t row) {
    return half(unpackOf(slot, kBytes), Side::Destination, 0, row);
  };
  auto relay = [&](uint64_t slot, int64_t row) {
    return half(workOf(Opcode::Relay, Side::Source, slot, kBytes), Side::Source,
                kNoShard, row);
  };
  auto &programs = plan.programs;
  programs[0].instructions = {inWave(0, pack(0, 0)),
                              inWave(0, groupOf({message(false, 1, 0)})),
                              inWave(1, pack(kSlot, 2)),
                              inWave(1, groupOf({message(false, 1, kSlot)}))};
  programs[1].instructions = {
      inWave(0, groupOf({message(true, 0, 0)})), inWave(1, relay(0, 0)),
      inWave(1, groupOf({message(false, 2, 0), message(true, 0, kSlot)})),
      inWave(2, relay(kSlot, 2)),
      inWave(2, groupOf({message(false, 2, kSlot)}))};
  programs[2].instructions = {inWave(1, groupOf({message(true, 1, 0)})),
                              inWave(1, unpack(0, 0)),
                              inWave(2, groupOf({message(true, 1, kSlot)})),
                              inWave(2, unpack(kSlot, 2))};
  for (RankProgram &program : programs) {
    Instruction keep;
    for (Side side : {Side::Source, Side::Destination}) {
      bool isSecond = program.device == (side == Side::Source ? 0 : 2);
      keep.segments.push_back({1, 1, side, isSecond, {0}, {4}});
    }
    program.instructions.push_back(keep);
    program.stagingBytes = kSlot + kBytes;
  }
  summarize(plan);
  plan.common.summary.timeWithoutRelays = 1;
  return plan;
}

namespace {

constexpr uint64_t kBlock = 128;
/// Every wave has bytes of its own.
constexpr uint64_t giveSlot(int32_t wave) { return uint64_t(wave) * 1024; }
constexpr uint64_t getSlot(int32_t wave) { return giveSlot(wave) + 3 * kBlock; }

/// A device's part in a collective of all three devices of collectivePlan.
Instruction callOf(int32_t wave, CollectiveKind kind, uint32_t root,
                   uint64_t give, uint64_t get) {
  Instruction group;
  group.op = Opcode::Group;
  group.wave = wave;
  group.collective = {kind, 0, root, kBlock, give, get};
  return group;
}

Segment segmentOf(uint32_t family, Side side, std::vector<int64_t> offset,
                  std::vector<int64_t> size) {
  return {family, 1, side, family, std::move(offset), std::move(size)};
}

/// All of a wave on device d: what it gives, by peer, and gets.
class CallWriter {
public:
  CallWriter(RankProgram &program, Instruction call)
      : program(program), call(std::move(call)) {}

  void give(const std::vector<uint32_t> &peers, uint64_t block,
            const Segment &segment, uint64_t bytes) {
    Instruction pack;
    pack.op = Opcode::Pack;
    pack.wave = call.wave;
    pack.segments = {segment};
    pack.slot = giveSlot(call.wave) + block * kBlock;
    pack.bytes = bytes;
    program.instructions.push_back(pack);
    for (uint32_t peer : peers)
      call.messages.push_back({false, peer, bytes, false, pack.slot, {}});
  }
  void get(uint32_t peer, uint64_t block, const Segment &segment,
           uint64_t bytes) {
    Instruction unpack;
    unpack.op = Opcode::Unpack;
    unpack.wave = call.wave;
    unpack.segments = {segment};
    unpack.slot = getSlot(call.wave) + block * kBlock;
    unpack.bytes = bytes;
    unpacks.push_back(unpack);
    call.messages.push_back({true, peer, bytes, false, unpack.slot, {}});
  }
  void finish() {
    program.instructions.push_back(std::move(call));
    for (Instruction &unpack : unpacks)
      program.instructions.push_back(std::move(unpack));
  }

private:
  RankProgram &program;
  Instruction call;
  std::vector<Instruction> unpacks;
};

void gatherWeight(RankProgram &program, const std::vector<uint32_t> &others) {
  int64_t self = program.device;
  auto rows = [](Side side, int64_t third) {
    return segmentOf(0, side, {2 * third, 0}, {2, 4});
  };
  CallWriter writer(program, callOf(0, CollectiveKind::AllGather, 0,
                                    giveSlot(0), getSlot(0)));
  writer.give(others, 0, rows(Side::Source, self), 16);
  for (uint32_t peer : others)
    writer.get(peer, peer, rows(Side::Destination, peer), 16);
  writer.finish();
}

void broadcastVector(RankProgram &program,
                     const std::vector<uint32_t> &others) {
  bool isRoot = program.device == 1;
  CallWriter writer(program,
                    callOf(1, CollectiveKind::Broadcast, 1,
                           isRoot ? giveSlot(1) : 0, isRoot ? 0 : getSlot(1)));
  if (isRoot)
    writer.give(others, 0, {1, 1, Side::Source, 2, {0}, {5}}, 10);
  else
    writer.get(1, 0, segmentOf(1, Side::Destination, {0}, {5}), 10);
  writer.finish();
}

void turnTable(RankProgram &program, const std::vector<uint32_t> &others) {
  int64_t self = program.device;
  CallWriter writer(
      program, callOf(2, CollectiveKind::AllToAll, 0, giveSlot(2), getSlot(2)));
  for (uint32_t peer : others)
    writer.give({peer}, peer,
                {2, 1, Side::Source, 1, {self, int64_t(peer)}, {1, 1}}, 2);
  for (uint32_t peer : others)
    writer.get(peer, peer,
               segmentOf(2, Side::Destination, {int64_t(peer), self}, {1, 1}),
               2);
  writer.finish();
}

/// What a device has on both sides.
void keepOwn(RankProgram &program) {
  int64_t self = program.device;
  Instruction copy;
  copy.op = Opcode::Copy;
  copy.segments = {segmentOf(0, Side::Source, {2 * self, 0}, {2, 4}),
                   segmentOf(0, Side::Destination, {2 * self, 0}, {2, 4}),
                   {2, 1, Side::Source, 1, {self, self}, {1, 1}},
                   segmentOf(2, Side::Destination, {self, self}, {1, 1})};
  if (self == 1) {
    copy.segments.push_back({1, 1, Side::Source, 2, {0}, {5}});
    copy.segments.push_back(segmentOf(1, Side::Destination, {0}, {5}));
  }
  program.instructions.push_back(copy);
}

} // namespace

TestPlan collectivePlan() {
  Holdings source, destination;
  for (int64_t device = 0; device < 3; ++device) {
    source.push_back({box(0, {{2 * device, 2 * device + 2}, {0, 4}}),
                      box(2, {{device, device + 1}, {0, 3}})});
    if (device == 1)
      source.back().push_back(box(1, {{0, 5}}));
    destination.push_back({box(0, {{0, 6}, {0, 4}}), box(1, {{0, 5}}),
                           box(2, {{0, 3}, {device, device + 1}})});
  }
  TestPlan plan =
      makePlan({makeFamily("w", {}, {6, 4}), makeFamily("v", {}, {5}),
                makeFamily("t", {}, {3, 3})},
               source, destination);
  plan.common.memberSets = {{0, 1, 2}};
  for (RankProgram &program : plan.programs) {
    std::vector<uint32_t> others;
    for (uint32_t device = 0; device < 3; ++device)
      if (device != program.device)
        others.push_back(device);
    program.instructions.clear();
    gatherWeight(program, others);
    broadcastVector(program, others);
    turnTable(program, others);
    keepOwn(program);
    program.stagingBytes = getSlot(2) + 3 * kBlock;
  }
  summarize(plan);
  return plan;
}

TestPlan derivedPlan() {
  StateInfo master = {"master", DType::F32, DType::F32};
  StateInfo param = {"param", DType::F32, DType::BF16, 0, false, true};
  StateInfo moment = {"exp_avg", DType::F32, DType::BF16};
  StateInfo grad = {"grad", DType::F32, DType::F32, -1, true, false};
  Family family = makeFamily("layers.{}.w{}", {{0, 1, 2}, {3, 2, 2}}, {8, 6},
                             {master, param, moment, grad});
  auto shard = [](Interval rows, Interval columns, uint64_t states) {
    return box(0, {{0, 2}, {0, 2}, rows, columns}, states);
  };
  // Device 1 gets a part of the master and makes its own param; device 0 gets
  // the rest, and device 2 the param of it.
  TestPlan plan = makePlan(
      {family}, {{shard({0, 3}, {0, 6}, 15)}, {shard({3, 8}, {0, 6}, 15)}, {}},
      {{shard({0, 8}, {2, 6}, 1)},
       {shard({0, 8}, {0, 2}, 5)},
       {shard({0, 8}, {2, 6}, 6)}});
  RankProgram &maker = plan.programs[1];
  maker.destination[0].states |= 2;
  Instruction make;
  Segment all = {0, 1, Side::Destination, 0, {0, 0, 0, 0}, {2, 2, 8, 2}};
  make.segments = {all, all};
  make.segments[1].states = 2;
  maker.instructions.push_back(make);
  plan.common.cluster.links = {{{false, 0}, {true, 0}, 50},
                               {{true, 0}, {true, 1}, 20}};
  plan.common.cluster.devicesPerNode = 4;
  plan.common.cluster.devicesPerNic = 2;
  plan.common.sourceLayout = "rows\n  of w\n";
  plan.common.destinationLayout = "columns\n";
  summarize(plan);
  PlanSummary &summary = plan.common.summary;
  summary.coverage = summary.deadlockFree = summary.memorySafe = "proved";
  summary.solver = "z3 4.8.12";
  summary.deviceLimit = 1 << 20;
  return plan;
}

TestPlan randomPlan(std::mt19937_64 &rng) {
  int64_t devices = 2 + int64_t(rng() % 4);
  std::vector<StateInfo> states = {{"param", DType::BF16, DType::BF16},
                                   {"master", DType::F32, DType::F32}};
  auto holdings = [&] {
    Holdings out;
    int64_t cuts = 1 + int64_t(rng() % uint64_t(devices));
    unsigned dim = 1 + unsigned(rng() % 2);
    for (int64_t d = 0; d < devices; ++d) {
      std::vector<Interval> dims = {{0, 2}, {0, 60}, {0, 4}};
      if (dim == 2)
        cuts = std::min<int64_t>(cuts, 4);
      int64_t extent = dims[dim].hi, part = d % cuts;
      dims[dim] = {extent * part / cuts, extent * (part + 1) / cuts};
      out.push_back({box(0, dims, 3)});
    }
    return out;
  };
  Holdings source = holdings(), destination = holdings();
  return makePlan({makeFamily("layers.{}.w", {{0, 1, 2}}, {60, 4}, states)},
                  source, destination,
                  rng() % 2 ? MemoryMode::Flat : MemoryMode::Rollback);
}

static bool isLifetime(const Instruction &instruction) {
  return instruction.op == Opcode::Create || instruction.op == Opcode::Release;
}

static void letStay(const PlanCommon &common, RankProgram &program) {
  RankProgram without = program;
  auto &others = without.instructions;
  others.erase(std::remove_if(others.begin(), others.end(), isLifetime),
               others.end());
  std::vector<StayingState> staying = stayingStates(common, without);
  auto &all = program.instructions;
  for (Instruction &instruction : all) {
    if (!isLifetime(instruction))
      continue;
    for (Segment &segment : instruction.segments)
      for (const StayingState &own : staying)
        if (segment.shard ==
            (segment.side == Side::Source ? own.source : own.destination))
          segment.states &= ~(uint64_t(1) << own.state);
    auto &named = instruction.segments;
    named.erase(
        std::remove_if(named.begin(), named.end(),
                       [](const Segment &segment) { return !segment.states; }),
        named.end());
  }
  all.erase(std::remove_if(all.begin(), all.end(),
                           [](const Instruction &instruction) {
                             return isLifetime(instruction) &&
                                    instruction.segments.empty();
                           }),
            all.end());
}

void letStay(TestPlan &plan) {
  for (RankProgram &program : plan.programs)
    letStay(plan.common, program);
  makeSummaryTrue(plan);
}

void copyBeside(TestPlan &plan) {
  for (RankProgram &program : plan.programs) {
    int32_t wave = -1; // of the next group
    auto &all = program.instructions;
    for (auto it = all.rbegin(); it != all.rend(); ++it) {
      bool isCopy =
          it->op == Opcode::Copy && it->segments.front().side == Side::Source;
      if (it->op == Opcode::Group)
        wave = it->wave;
      else if (isCopy)
        it->wave = wave;
    }
  }
  makeSummaryTrue(plan);
}

TestPlan keptSquare() {
  Family square = makeFamily("square", {}, {4, 4},
                             {{"param", DType::BF16, DType::BF16},
                              {"master", DType::F32, DType::F32}});
  ShardRecord held = box(0, {{0, 4}, {0, 4}}, 3);
  ShardRecord moved = box(1, {{0, 8}});
  TestPlan plan =
      makePlan({square, makeFamily("vector", {}, {8})}, {{held}, {moved}},
               {{held, moved}, {}}, MemoryMode::Flat);
  auto &all = plan.programs[0].instructions;
  auto isCopy = [](const Instruction &instruction) {
    return instruction.op == Opcode::Copy;
  };
  auto first = std::find_if(all.begin(), all.end(), isCopy);
  require(first != all.end(), "the square is copied");
  first->segments.resize(2);
  first->segments[0].states = first->segments[1].states = 3;
  all.erase(std::remove_if(first + 1, all.end(), isCopy), all.end());
  letStay(plan);
  return plan;
}

TestPlan movedStages() {
  std::vector<StateInfo> states = {{"param", DType::BF16, DType::BF16},
                                   {"master", DType::F32, DType::F32}};
  auto make = [&](const char *name) {
    return makeFamily(name, {{0, 1, 6}}, {4, 8}, states);
  };
  Holdings source = {{box(0, {{0, 4}, {0, 4}, {0, 8}}, 3),
                      box(1, {{0, 6}, {0, 2}, {0, 8}}, 3)},
                     {box(0, {{4, 6}, {0, 4}, {0, 8}}, 3),
                      box(1, {{0, 6}, {2, 4}, {0, 8}}, 3)}};
  Holdings destination = {{box(0, {{0, 2}, {0, 4}, {0, 8}}, 3),
                           box(1, {{0, 6}, {0, 4}, {0, 4}}, 3)},
                          {box(0, {{2, 6}, {0, 4}, {0, 8}}, 3),
                           box(1, {{0, 6}, {0, 4}, {4, 8}}, 3)}};
  return makePlan({make("layers.{}.whole"), make("layers.{}.cut")}, source,
                  destination, MemoryMode::Flat);
}

TestPlan anyPlan(std::mt19937_64 &rng) {
  switch (rng() % 12) {
  case 0:
    return reshapePlan();
  case 1:
    return reshapePlan(MemoryMode::Flat);
  case 2:
    return forwardingPlan();
  case 3:
    return derivedPlan();
  case 4:
    return keptSquare();
  case 5: {
    TestPlan plan = reshapePlan(MemoryMode::Flat);
    letStay(plan);
    return plan;
  }
  case 6:
    return rng() % 2   ? viewedPlan()
           : rng() % 2 ? listedPlan()
           : rng() % 2 ? permutedPlan()
           : rng() % 2 ? filledPlan(MemoryMode::Flat)
                       : flattenedPlan();
  case 8:
    return relayPlan();
  case 11:
    return movedStages();
  case 7: {
    TestPlan plan = reshapePlan(MemoryMode::Flat);
    copyBeside(plan);
    return plan;
  }
  default:
    return randomPlan(rng);
  }
}

TestPlan viewedPlan() {
  auto rows = [](std::vector<Interval> rows) {
    ShardRecord shard = box(0, {{0, 2}, {0, 12}, {0, 4}});
    shard.dims[1] = std::move(rows);
    return shard;
  };
  Holdings source = {{rows({{0, 6}})}, {rows({{6, 12}})}};
  Holdings destination = {
      {rows({{0, 4}, {6, 8}}), rows({{4, 5}})},
      {rows({{8, 10}}), rows({{10, 11}}), rows({{11, 12}, {5, 6}})}};
  TestPlan plan = makePlan({makeFamily("layers.{}.qkv", {{0, 1, 2}}, {12, 4})},
                           source, destination);
  auto add = [&](const char *name, std::vector<Interval> rows) {
    plan.common.views.push_back({Side::Destination,
                                 0,
                                 name,
                                 {{1, 2, 2}},
                                 {{std::move(rows)}, {{{0, 4}}}}});
  };
  add("h.{}.q", {{0, 4}, {6, 10}});
  add("h.{}.k", {{4, 5}, {10, 11}});
  add("h.{}.v", {{11, 12}, {5, 6}});
  for (RankProgram &program : plan.programs)
    for (size_t i = 0; i < program.destination.size(); ++i)
      program.destination[i].view = uint32_t(i);
  return plan;
}

TestPlan listedPlan() {
  TestPlan plan = viewedPlan();
  plan.common.families[0].leading = {{0, 0, 2, {0, 5}}};
  for (NamedView &view : plan.common.views)
    view.leading = {{3, 0, 2, {3, 1}}};
  return plan;
}

TestPlan permutedPlan() {
  TestPlan plan = viewedPlan();
  for (NamedView &view : plan.common.views)
    view.order = *Permutation::of({1, 0});
  for (RankProgram &program : plan.programs)
    for (ShardRecord &shard : program.destination)
      shard.order = plan.common.views[shard.view].order;
  return plan;
}

TestPlan flattenedPlan() {
  TestPlan plan = permutedPlan();
  for (NamedView &view : plan.common.views)
    view.parts = {2};
  return plan;
}

TestPlan filledPlan(MemoryMode mode) {
  TestPlan plan = reshapePlan(mode);
  NamedView view = {
      Side::Destination, 1, "embed", {}, {{{{0, 10}}}, {{{0, 4}}}}};
  view.fill = {kTestFill};
  plan.common.views = {view};
  for (RankProgram &program : plan.programs)
    for (ShardRecord &shard : program.destination)
      if (shard.family == 1)
        shard.view = 0;
  return plan;
}

TestPlan planByTensor(bool shared) {
  TestPlan plan = reshapePlan(MemoryMode::Flat);
  plan.common.summary.granularity = Granularity::Tensor;
  for (Family &family : plan.common.families)
    family.storage = shared ? "all" : "";
  return plan;
}

Instruction workOf(Opcode op, Side side, uint64_t slot, uint64_t bytes) {
  Instruction instruction;
  instruction.op = op;
  instruction.slot = slot;
  instruction.bytes = bytes;
  instruction.segments.resize(1);
  instruction.segments[0].side = side;
  instruction.segments[0].states = 1;
  return instruction;
}

Instruction packOf(uint64_t slot, uint64_t bytes, Side side) {
  return workOf(Opcode::Pack, side, slot, bytes);
}

Instruction unpackOf(uint64_t slot, uint64_t bytes) {
  return workOf(Opcode::Unpack, Side::Destination, slot, bytes);
}

Instruction groupOf(std::vector<Message> messages) {
  Instruction instruction;
  instruction.op = Opcode::Group;
  instruction.messages = std::move(messages);
  return instruction;
}

Instruction inWave(int32_t wave, Instruction instruction) {
  instruction.wave = wave;
  return instruction;
}

} // namespace dtrt::test
