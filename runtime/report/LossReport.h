//===- LossReport.h - What a failure would lose, in words -------*- C++ -*-===//

#ifndef DTRT_REPORT_LOSSREPORT_H
#define DTRT_REPORT_LOSSREPORT_H

#include "dtrt/verify/Losses.h"

#include <nlohmann/json.hpp>

namespace dtrt {

/// The value of the key "losses" of `inspect --json`; docs/FlatMemory.md says
/// what its keys are.
nlohmann::ordered_json lossesJson(const Result<PlanLosses> &losses);

/// When a switch cannot be undone any more. Without `losses`: not where the
/// first storage goes.
std::string noReturnText(MemoryMode mode, const Result<PlanLosses> *losses);

/// A name and a value per line; no more lines than a screen has, whatever the
/// number of waves.
std::vector<std::pair<std::string, std::string>>
lossRows(const Result<PlanLosses> &losses);

} // namespace dtrt

#endif // DTRT_REPORT_LOSSREPORT_H
