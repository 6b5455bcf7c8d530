//===- Diff.h - What differs between two plans ------------------*- C++ -*-===//

#ifndef DTRT_REPORT_DIFF_H
#define DTRT_REPORT_DIFF_H

#include "dtrt/format/PlanReader.h"

#include <iosfwd>

namespace dtrt {

/// How much of what differs is printed: less than 60 lines of less than 120
/// columns, in which what is left out is counted, or everything.
enum class DiffLength { Screen, All };

/// What differs in meaning; true, and nothing printed, when nothing does.
Result<bool> writeDifferences(const PlanReader &a, const PlanReader &b,
                              std::ostream &out,
                              DiffLength length = DiffLength::Screen);

} // namespace dtrt

#endif // DTRT_REPORT_DIFF_H
