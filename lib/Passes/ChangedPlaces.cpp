//===- ChangedPlaces.cpp - Who has another device's rank now --------------===//

#include "ChangedPlaces.h"

#include "dtrt/format/PlanWriter.h"

namespace dt {

namespace {

/// What both must have in common.
std::string sharedPart(dtrt::PlanCommon common) {
  dtrt::PlanSummary limits;
  limits.mode = common.summary.mode;
  limits.granularity = common.summary.granularity;
  limits.stagingLimit = common.summary.stagingLimit;
  limits.deviceLimit = common.summary.deviceLimit;
  limits.overNccl = common.summary.overNccl;
  common.summary = limits;
  common.compilerVersion = common.requestHash = "";
  common.destinationFingerprint = common.destinationLayout = "";
  common.destinationDevices.clear();
  common.features = 0;
  return dtrt::encodeCommonSection(common);
}

} // namespace

std::optional<std::string> findChangedPlaces(const dtrt::PlanCommon &before,
                                             const dtrt::PlanCommon &now,
                                             ChangedPlaces &out) {
  const auto &was = before.destinationDevices, &is = now.destinationDevices;
  if (was.size() != is.size())
    return "the destination has another number of ranks";
  if (now.summary.mode == dtrt::MemoryMode::Flat)
    return "flat memory orders all moves";
  if (now.cluster.relays || !before.memberSets.empty() ||
      now.cluster.collectives == dtrt::CollectiveChoice::Library)
    return "relays and collectives are chosen for all messages";
  if (sharedPart(before) != sharedPart(now))
    return "more than devices of the destination differs";
  for (size_t rank = 0; rank < is.size(); ++rank)
    if (was[rank] != is[rank]) {
      out.heirs[was[rank]] = is[rank];
      out.allHeirs.insert(is[rank]);
    }
  if (2 * out.heirs.size() > is.size())
    return "most ranks have other devices";
  return std::nullopt;
}

} // namespace dt
