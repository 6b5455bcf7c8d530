//===- Deliveries.h - Every region that arrives -----------------*- C++ -*-===//

#ifndef DTRT_REPORT_DELIVERIES_H
#define DTRT_REPORT_DELIVERIES_H

#include "dtrt/format/PlanReader.h"

#include <iosfwd>

namespace dtrt {

/// One JSON object per line for every box of every tensor and state that
/// arrives somewhere, in coordinates of the user's own tensor.
Status writeDeliveries(const PlanReader &plan, std::ostream &out);

} // namespace dtrt

#endif // DTRT_REPORT_DELIVERIES_H
