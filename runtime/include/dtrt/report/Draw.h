//===- Draw.h - A plan as one HTML page -------------------------*- C++ -*-===//

#ifndef DTRT_REPORT_DRAW_H
#define DTRT_REPORT_DRAW_H

#include "dtrt/format/PlanReader.h"

#include <iosfwd>

namespace dtrt {

/// A self-contained HTML page.
Status writeDrawing(const PlanReader &plan, std::ostream &out);

} // namespace dtrt

#endif // DTRT_REPORT_DRAW_H
