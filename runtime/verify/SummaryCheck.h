//===- SummaryCheck.h - Does the summary tell the truth? --------*- C++ -*-===//

#ifndef DTRT_LIB_VERIFY_SUMMARYCHECK_H
#define DTRT_LIB_VERIFY_SUMMARYCHECK_H

#include "CellShapes.h"
#include "ProgramVerifier.h"

namespace dtrt {

/// The summary of programs that are right, whose messages are paired: the i-th
/// send meets the i-th receive, sorted by wave. Mode, limits, proofs and the
/// number of multicasts are those of the plan's own. Fails where the layouts do
/// not have all of what they should. `known`: cells of plans of the same
/// families; null: none.
Result<PlanSummary> measureTotals(const PlanCommon &common,
                                  const ProgramTotals &totals,
                                  KnownCells *known = nullptr);

/// The first number that is stated otherwise than it was measured. Times may
/// differ by what rounding does to them.
Status checkSummary(const PlanSummary &stated, const PlanSummary &measured);

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_SUMMARYCHECK_H
