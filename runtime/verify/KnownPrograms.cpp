//===- KnownPrograms.cpp - What a check of programs found -----------------===//

#include "KnownPrograms.h"

#include "dtrt/format/PlanWriter.h"

#include <algorithm>

namespace dtrt {

namespace {

/// Bytes of sections, and of shards, that are remembered.
constexpr size_t kMostStored = size_t(256) << 20;
constexpr size_t kMostShards = size_t(64) << 20;

/// All that a program is checked against, but for the worlds: ranks are looked
/// at each time, and that peers have programs follows from their messages.
std::string checkedAgainst(PlanCommon common) {
  PlanSummary limits;
  limits.mode = common.summary.mode;
  limits.granularity = common.summary.granularity;
  limits.stagingLimit = common.summary.stagingLimit;
  limits.deviceLimit = common.summary.deviceLimit;
  limits.overNccl = common.summary.overNccl;
  common.summary = limits;
  common.compilerVersion = common.requestHash = "";
  common.sourceFingerprint = common.destinationFingerprint = "";
  common.sourceLayout = common.destinationLayout = "";
  common.sourceDevices.clear();
  common.destinationDevices.clear();
  return encodeCommonSection(common);
}

std::unordered_map<uint32_t, int64_t>
ranksOf(const std::vector<uint32_t> &devices) {
  std::unordered_map<uint32_t, int64_t> out;
  for (size_t rank = 0; rank < devices.size(); ++rank)
    out[devices[rank]] = int64_t(rank);
  return out;
}

} // namespace

VerifiedPrograms::VerifiedPrograms() : state(std::make_unique<State>()) {}
VerifiedPrograms::~VerifiedPrograms() = default;

void VerifiedPrograms::prepare() {
  ShardTable table(state->numbers);
  for (auto &[device, program] : state->programs)
    if (!program.numbers)
      program.numbers = table.numbersOf(program.shards);
  KnownTogether::Programs programs;
  for (const auto &[device, program] : state->programs)
    programs.emplace_back(device, &program.totals);
  std::sort(programs.begin(), programs.end());
  state->together = std::make_shared<KnownTogether>(programs);
}

void VerifiedPrograms::State::forget() {
  programs.clear();
  bytes = 0;
  numbers = std::make_shared<ShardNumbers>();
  cells = KnownCells();
  together = nullptr;
}

KnownPrograms::KnownPrograms(const PlanReader &plan, VerifiedPrograms *known)
    : plan(plan), state(known ? &known->get() : nullptr) {
  if (!state)
    return;
  std::string against = checkedAgainst(plan.common());
  if (state->against != against || !state->numbers ||
      state->numbers->bytes() > kMostShards)
    state->forget();
  state->against = std::move(against);
  taken.together = state->together;
  if (taken.together)
    taken.isTaken.resize(taken.together->numPrograms());
  sourceRanks = ranksOf(plan.common().sourceDevices);
  destinationRanks = ranksOf(plan.common().destinationDevices);
}

bool KnownPrograms::hasItsRanks(const RankProgram &program) const {
  auto isRank = [&](const auto &ranks, int64_t rank) {
    auto found = ranks.find(program.device);
    return rank == (found == ranks.end() ? -1 : found->second);
  };
  return isRank(sourceRanks, program.sourceRank) &&
         isRank(destinationRanks, program.destinationRank);
}

Result<KnownProgram *> KnownPrograms::find(uint32_t device) {
  KnownProgram *none = nullptr;
  auto found = state->programs.find(device);
  if (found == state->programs.end() || !hasItsRanks(found->second.shards))
    return none;
  auto stored = plan.storedProgram(device);
  DTRT_RETURN_IF_ERROR(stored);
  return *stored == found->second.stored ? &found->second : none;
}

ShardTable KnownPrograms::table() const {
  return state ? ShardTable(state->numbers) : ShardTable();
}

void KnownPrograms::reserve(ProgramTotals &out) const {
  if (taken.together)
    return;
  size_t sends = out.sends.size(), receives = out.receives.size();
  for (const auto &[device, program] : state->programs) {
    sends += program.totals.sends.size();
    receives += program.totals.receives.size();
  }
  out.sends.reserve(sends);
  out.receives.reserve(receives);
}

Result<const RankProgram *> KnownPrograms::take(uint32_t device,
                                                ProgramTotals &out) {
  auto found = find(device);
  DTRT_RETURN_IF_ERROR(found);
  KnownProgram *known = *found;
  if (!known)
    return nullptr;
  if (!known->numbers)
    known->numbers = out.shards.numbersOf(known->shards);
  if (taken.together) {
    taken.isTaken[taken.together->numberOf(device)] = true;
    taken.totals.push_back(&known->totals);
    out.addNumbers(known->totals);
  } else {
    out.add(ProgramTotals(known->totals));
  }
  out.shards.add(device, *known->numbers);
  return &known->shards;
}

Status KnownPrograms::add(const RankProgram &program, ProgramTotals found) {
  auto stored = plan.storedProgram(program.device);
  DTRT_RETURN_IF_ERROR(stored);
  KnownProgram known;
  known.stored = std::move(*stored);
  known.shards.device = program.device;
  known.shards.sourceRank = program.sourceRank;
  known.shards.destinationRank = program.destinationRank;
  known.shards.source = program.source;
  known.shards.destination = program.destination;
  known.totals = std::move(found);
  known.totals.shards = ShardTable();
  std::lock_guard<std::mutex> lock(state->mutex);
  state->together = nullptr;
  KnownProgram &own = state->programs[program.device];
  state->bytes += known.stored.size() - own.stored.size();
  own = std::move(known);
  if (state->bytes > kMostStored) {
    state->bytes -= own.stored.size();
    state->programs.erase(program.device);
  }
  return {};
}

} // namespace dtrt
