//===- LossNote.cpp - What is gone with a rank, in words ------------------===//

#include "LossNote.h"

#include "dtrt/format/ShardView.h"
#include "dtrt/format/Text.h"
#include "dtrt/store/Rendezvous.h"

#include <algorithm>

namespace dtrt {

namespace {

/// Regions in an error.
constexpr size_t kMostNamed = 6;

/// "3", or "0-3" of those that a leading dim counts; each that one lists.
std::string numbersText(const LeadingDim &dim, int64_t offset, int64_t size) {
  std::string text = std::to_string(dim.number(offset));
  if (size == 1)
    return text;
  if (!dim.list.empty()) {
    for (int64_t i = 1; i < size; ++i)
      text += ", " + std::to_string(dim.number(offset + i));
    return text;
  }
  text += "-" + std::to_string(dim.number(offset + size - 1));
  return dim.step == 1 ? text : text + " step " + std::to_string(dim.step);
}

/// 'layers.{0-3}.w' {param, master} [0:4) [0:8)
std::string regionText(const Family &family, const LostRegion &region) {
  std::string name = family.name, states, box;
  size_t from = 0;
  for (unsigned dim = 0; dim < family.numLeading(); ++dim) {
    std::string number =
        numbersText(family.leading[dim], region.offset[dim], region.size[dim]);
    size_t at = name.find("{}", from);
    if (at == std::string::npos)
      break;
    if (region.size[dim] > 1)
      number = "{" + number + "}";
    name.replace(at, 2, number);
    from = at + number.size();
  }
  for (unsigned state : statesOf(region.states))
    states +=
        (states.empty() ? "" : ", ") + shortened(family.states[state].name);
  for (unsigned dim = family.numLeading(); dim < family.rank(); ++dim)
    box += " [" + std::to_string(region.offset[dim]) + ":" +
           std::to_string(region.offset[dim] + region.size[dim]) + ")";
  return "'" + shortened(name) + "' {" + states + "}" + box;
}

std::string ranksOf(const std::vector<uint32_t> &named,
                    const std::vector<uint32_t> &devices) {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < devices.size(); ++rank)
    if (std::find(named.begin(), named.end(), devices[rank]) != named.end())
      ranks.push_back(rank);
  return rankNames(ranks);
}

/// "lost: 64 bytes, 'w' {param} [0:4) and 3 more regions"
std::string listText(const PlanCommon &common, const LostRegions &lost,
                     bool isSure, uint64_t bytes) {
  std::string text = std::to_string(bytes) + " bytes";
  size_t named = 0;
  for (const LostRegion &region : lost.regions) {
    if (region.isSure != isSure || named == kMostNamed)
      continue;
    text += (named++ == 0 ? ": " : ", ") +
            regionText(common.families[region.family], region);
  }
  return text;
}

} // namespace

std::string lossNote(const PlanReader &plan, const SeenFailure &failure,
                     const std::vector<uint32_t> &devices) {
  std::string with = "with " + ranksOf(failure.gone, devices);
  auto found = findLostRegions(plan, failure);
  if (!found.ok())
    return "what is lost " + with +
           " cannot be told: " + found.status().message();
  const LostRegions &lost = *found;
  const PlanCommon &common = plan.common();
  std::string text = "lost " + with + ": ";
  text += lost.lostBytes == 0
              ? "nothing for sure"
              : listText(common, lost, /*isSure=*/true, lost.lostBytes);
  if (lost.uncertainBytes > 0)
    text += "; perhaps lost: " +
            listText(common, lost, /*isSure=*/false, lost.uncertainBytes);
  if (lost.numRegions > kMostNamed)
    text += " (of " + std::to_string(lost.numRegions) +
            " regions the largest are named)";
  if (lost.savedBytes > 0)
    text += "; the other " + std::to_string(lost.savedBytes) +
            " bytes that can have been there are on " +
            ranksOf(lost.savers, devices);
  return text;
}

} // namespace dtrt
