//===- LayoutDiff.h - What differs between two layouts ----------*- C++ -*-===//

#ifndef DTRT_REPORT_LAYOUTDIFF_H
#define DTRT_REPORT_LAYOUTDIFF_H

#include "DiffReport.h"

namespace dtrt {

/// Compares two layouts in words: sizes of axes ("tp 8 -> 4"), then each op
/// by its symbol. `side` is "source" or "destination".
void compareLayouts(const std::string &side, const std::string &a,
                    const std::string &b, DiffReport &report);

} // namespace dtrt

#endif // DTRT_REPORT_LAYOUTDIFF_H
