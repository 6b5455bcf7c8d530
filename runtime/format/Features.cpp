//===- Features.cpp - What a plan asks of its reader ----------------------===//

#include "Features.h"

#include "dtrt/format/Text.h"

namespace dtrt {

namespace {
struct Feature {
  const char *name;
  bool (*isIn)(const PlanCommon &common);
};

constexpr Feature kFeatures[] = {
    {"flat by tensor",
     [](const PlanCommon &common) {
       return common.summary.granularity == Granularity::Tensor;
     }},
};
} // namespace

std::vector<std::string> featuresOf(const PlanCommon &common) {
  std::vector<std::string> names;
  for (const Feature &feature : kFeatures)
    if (feature.isIn(common))
      names.push_back(feature.name);
  return names;
}

uint16_t formatMinorOf(const PlanCommon &common) {
  constexpr uint16_t kWithoutFeatures = 3;
  return featuresOf(common).empty() ? kWithoutFeatures : kFormatMinor;
}

Status checkFeature(const std::string &name) {
  std::string known;
  for (const Feature &feature : kFeatures) {
    if (name == feature.name)
      return {};
    known += (known.empty() ? "'" : ", '") + std::string(feature.name) + "'";
  }
  return makeError("the plan needs '", shortened(name),
                   "', which this library does not know; it knows ", known);
}

} // namespace dtrt
