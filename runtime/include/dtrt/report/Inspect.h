//===- Inspect.h - The numbers of a plan ------------------------*- C++ -*-===//

#ifndef DTRT_REPORT_INSPECT_H
#define DTRT_REPORT_INSPECT_H

#include "dtrt/format/PlanReader.h"
#include "dtrt/report/OutputFormat.h"

#include <iosfwd>

namespace dtrt {

/// The plan's numbers; with a device also that device's. In flat memory also
/// what a failure would lose, unless a device is asked for: all programs are
/// read for it.
Status writeInspection(const PlanReader &plan, std::optional<uint32_t> device,
                       OutputFormat format, std::ostream &out);

} // namespace dtrt

#endif // DTRT_REPORT_INSPECT_H
