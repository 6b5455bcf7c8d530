//===- SmallPlans.cpp - Plans of three devices, and who judges them -------===//

#include "SmallPlans.h"

#include "PlanBuilder.h"
#include "dt/Emit/Programs.h"
#include "dtrt/verify/Verifier.h"

#include <algorithm>

namespace dt::testing {

namespace {
constexpr int64_t kBytes = 4; // of an element and of a cell
}

std::vector<std::pair<SmallEnd, int>> SmallPlan::endsOf(uint8_t device) const {
  std::map<SmallEnd, int> sizes;
  for (const SmallArrival &arrival : arrivals) {
    if (arrival.wave < 0)
      continue;
    if (arrival.from == device)
      ++sizes[{arrival.wave, device, arrival.to, false}];
    if (arrival.to == device)
      ++sizes[{arrival.wave, device, arrival.from, true}];
  }
  return {sizes.begin(), sizes.end()};
}

dtrt::PlanCommon smallCommon(unsigned devices, unsigned elements,
                             int64_t devicesPerNode, uint64_t limitBytes) {
  dtrt::PlanCommon common;
  common.compilerVersion = "test";
  common.requestHash = std::string(32, '0');
  common.sourceFingerprint = std::string(32, '1');
  common.destinationFingerprint = std::string(32, '2');
  common.families = {
      dtrt::test::makeFamily("w", {}, {int64_t(elements)},
                             {{"param", dtrt::DType::F32, dtrt::DType::F32}})};
  common.cluster.devicesPerNode = devicesPerNode;
  common.sourceWorld = common.destinationWorld = devices;
  for (uint32_t device = 0; device < devices; ++device) {
    common.sourceDevices.push_back(device);
    common.destinationDevices.push_back(device);
  }
  common.summary.stagingLimit = limitBytes;
  return common;
}

dtrt::Result<dtrt::PlanSummary>
verifiedFile(const dtrt::PlanCommon &common,
             const std::vector<dtrt::RankProgram> &programs) {
  auto bytes = dtrt::test::TestPlan{common, programs}.encoded();
  if (!bytes.ok())
    return bytes.status();
  auto reader = dtrt::PlanReader::fromBytes(std::move(*bytes));
  if (!reader.ok())
    return reader.status();
  return dtrt::measurePlan(*reader);
}

BuiltPlan::BuiltPlan(const SmallPlan &small)
    : small(small),
      common(smallCommon(kMostDevices, small.pieces, small.devicesPerNode,
                         uint64_t(small.limit * kBytes))) {
  common.summary.mode = small.mode;
  addShards();
  addSteps();
  Worlds worlds;
  for (int64_t device = 0; device < kMostDevices; ++device)
    worlds.sourceRank[device] = worlds.destinationRank[device] = device;
  ProgramBuilder builder(plan, worlds);
  for (int64_t device : builder.devices())
    programs.push_back(builder.build(device));
}

void BuiltPlan::addShards() {
  auto holdings = [](const std::array<uint8_t, kMostDevices> &masks) {
    std::vector<HeldBox> rows;
    for (unsigned device = 0; device < kMostDevices; ++device)
      if (unsigned mask = masks[device]) {
        int64_t lo = __builtin_ctz(mask), size = __builtin_popcount(mask);
        rows.push_back({int64_t(device), Box::fromOffsetSize({lo}, {size})});
      }
    return holdingsOf(rows);
  };
  source = holdings(small.held);
  destination = holdings(small.wanted);
  PlanFlow flow;
  flow.name = "@w";
  flow.shape = {int64_t(small.pieces)};
  flow.states = flow.readStates = 1;
  flow.sourceBuffers = flow.destinationBuffers = {{1, kBytes}};
  flow.source = &source;
  flow.destination = &destination;
  plan.flows = {flow};
  plan.isFlat = small.mode == dtrt::MemoryMode::Flat;
}

void BuiltPlan::addSteps() {
  using Kind = PlanStep::Kind;
  for (int wave = -1; wave <= kWaves; ++wave) {
    addStorage(small.creates, wave, Kind::Create);
    addStorage(small.releases, wave, Kind::Release);
    if (wave < kWaves)
      addPieces(wave);
  }
}

void BuiltPlan::addStorage(const std::vector<SmallStorage> &rows, int wave,
                           PlanStep::Kind kind) {
  const auto &masks =
      kind == PlanStep::Kind::Create ? small.wanted : small.held;
  PlanStep step;
  step.kind = kind;
  step.first = plan.storage.size();
  for (const SmallStorage &row : rows) {
    if (row.wave != wave)
      continue;
    PlanStorage storage;
    storage.states = 1;
    storage.step = uint32_t(plan.steps.size());
    storage.device = row.device;
    int64_t lo = row.element - __builtin_ctz(masks[row.device]);
    storage.box = Box::fromOffsetSize({lo}, {1});
    plan.storage.push_back(storage);
  }
  step.last = plan.storage.size();
  if (step.first < step.last)
    plan.steps.push_back(step);
}

/// Copies are a step before all waves; those of a wave are in packing order.
void BuiltPlan::addPieces(int wave) {
  PlanStep step;
  step.kind = wave < 0 ? PlanStep::Kind::Copy : PlanStep::Kind::Wave;
  step.wave = wave;
  step.first = plan.pieces.size();
  for (const SmallArrival &arrival : small.arrivals) {
    if (arrival.wave != wave)
      continue;
    PlanPiece piece;
    piece.step = uint32_t(plan.steps.size());
    piece.wave = wave;
    piece.from = arrival.from;
    piece.to = arrival.to;
    piece.bytes = kBytes;
    piece.box = Box::fromOffsetSize({arrival.piece}, {1});
    piece.atSource = small.held[arrival.from] >> arrival.piece & 1;
    plan.pieces.push_back(piece);
  }
  step.last = plan.pieces.size();
  if (step.first == step.last)
    return;
  std::stable_sort(plan.pieces.begin() + step.first, plan.pieces.end(),
                   [](const PlanPiece &a, const PlanPiece &b) {
                     return std::tie(a.from, a.to) < std::tie(b.from, b.to);
                   });
  step.firstSlot = plan.slots.size();
  if (wave >= 0)
    addSlots(step);
  step.lastSlot = plan.slots.size();
  plan.steps.push_back(step);
}

void BuiltPlan::addSlots(PlanStep &step) {
  for (uint8_t device = 0; device < kMostDevices; ++device)
    for (const auto &[end, size] : small.endsOf(device)) {
      if (end.wave != step.wave)
        continue;
      PlanSlot slot;
      slot.wave = end.wave;
      slot.device = device;
      slot.peer = end.peer;
      slot.receive = end.receive;
      slot.bytes = size * kBytes;
      auto given = small.slots.find(end);
      if (given == small.slots.end()) {
        slot.offset = nextCell[device] * kBytes;
        nextCell[device] += size;
      } else {
        slot.offset = given->second == kDirect ? -1 : given->second * kBytes;
      }
      plan.slots.push_back(slot);
    }
}

MaybeFault BuiltPlan::certificate() {
  TransportPlan own = plan;
  if (auto fault = placePieces(own))
    return fault;
  Arrivals arrivals(own.pieces, own.flows);
  MemoryLimits limits = {small.limit * kBytes, 0, small.mode};
  return checkRules(own, arrivals, wantedOf(own.flows), common.cluster, limits);
}

} // namespace dt::testing
