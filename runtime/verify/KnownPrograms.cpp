//===- KnownPrograms.cpp - What a check of programs found -----------------===//

#include "KnownPrograms.h"

#include "dtrt/format/PlanWriter.h"

namespace dtrt {

namespace {

/// All that a program is checked against, but for the worlds: ranks are looked
/// at each time, and that peers have programs follows from their messages.
std::string checkedAgainst(PlanCommon common) {
  PlanSummary limits;
  limits.mode = common.summary.mode;
  limits.granularity = common.summary.granularity;
  limits.stagingLimit = common.summary.stagingLimit;
  limits.deviceLimit = common.summary.deviceLimit;
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

KnownPrograms::KnownPrograms(const PlanReader &plan, VerifiedPrograms *known)
    : plan(plan), state(known ? &known->get() : nullptr) {
  if (!state)
    return;
  std::string against = checkedAgainst(plan.common());
  if (state->against != against)
    state->programs.clear();
  state->against = std::move(against);
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

Result<const KnownProgram *> KnownPrograms::find(uint32_t device) {
  const KnownProgram *none = nullptr;
  if (!state)
    return none;
  auto found = state->programs.find(device);
  if (found == state->programs.end() || !hasItsRanks(found->second.shards))
    return none;
  auto sum = plan.storedSum(device);
  DTRT_RETURN_IF_ERROR(sum);
  return *sum == found->second.sum ? &found->second : none;
}

Status KnownPrograms::add(const RankProgram &program, ProgramTotals found) {
  auto sum = plan.storedSum(program.device);
  DTRT_RETURN_IF_ERROR(sum);
  KnownProgram known;
  known.sum = *sum;
  known.shards.device = program.device;
  known.shards.sourceRank = program.sourceRank;
  known.shards.destinationRank = program.destinationRank;
  known.shards.source = program.source;
  known.shards.destination = program.destination;
  known.totals = std::move(found);
  known.totals.shards = ShardTable();
  std::lock_guard<std::mutex> lock(state->mutex);
  state->programs[program.device] = std::move(known);
  return {};
}

} // namespace dtrt
