//===- Features.h - What a plan asks of its reader --------------*- C++ -*-===//
//
// A plan lists by name what a reader must be able to do beyond format 1.3. A
// reader refuses a plan that lists what it does not know, and says what that
// is. A plan that lists nothing is written in format 1.3, for readers that know
// of no features.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_FORMAT_FEATURES_H
#define DTRT_LIB_FORMAT_FEATURES_H

#include "dtrt/format/PlanModel.h"
#include "dtrt/types/Status.h"

namespace dtrt {

/// In the order in which a plan lists them.
std::vector<std::string> featuresOf(const PlanCommon &common);
/// Of the oldest format that can say the plan.
uint16_t formatMinorOf(const PlanCommon &common);
/// Fails where this library does not know the feature.
Status checkFeature(const std::string &name);

} // namespace dtrt

#endif // DTRT_LIB_FORMAT_FEATURES_H
