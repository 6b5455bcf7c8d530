//===- Inspect.h - The numbers of a plan ------------------------*- C++ -*-===//

#ifndef DTRT_REPORT_INSPECT_H
#define DTRT_REPORT_INSPECT_H

#include "dtrt/format/PlanReader.h"
#include "dtrt/report/OutputFormat.h"

#include <iosfwd>

namespace dtrt {

/// The plan's numbers; with a device also that device's.
Status writeInspection(const PlanReader &plan, std::optional<uint32_t> device,
                       OutputFormat format, std::ostream &out);

} // namespace dtrt

#endif // DTRT_REPORT_INSPECT_H
