//===- SummaryCheck.cpp - Does the summary tell the truth? ----------------===//

#include "SummaryCheck.h"

#include "CollectiveCheck.h"
#include "LowerBounds.h"
#include "dtrt/cost/TimedCollectives.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <tuple>

namespace dtrt {

namespace {

/// Sums of the same times in another order, rates in other units.
constexpr double kRounding = 1e-9;

std::vector<TimedMessage> timedMessages(const PlanCommon &common,
                                        const ProgramTotals &totals) {
  std::vector<TimedMessage> out;
  out.reserve(totals.sends.size());
  for (size_t i = 0; i < totals.sends.size(); ++i) {
    const UnpairedEnd &send = totals.sends[i];
    if (send.collective)
      continue;
    out.push_back({send.wave, send.source, send.destination,
                   int64_t(send.bytes), !send.direct,
                   !totals.receives[i].direct, send.forward});
  }
  if (totals.collectives.empty())
    return out;
  for (const TimedCollective &each : collectivesOf(common, totals.collectives))
    addCollective(each, common.cluster, out);
  sortMessages(out);
  return out;
}

/// Programs were seen in the order of their devices, on some threads each. Of
/// one device and wave there is one copy beside the group and one before it.
std::vector<TimedCopy> timedCopies(const ProgramTotals &totals) {
  std::vector<TimedCopy> out = totals.copies;
  std::sort(out.begin(), out.end(), [](const TimedCopy &a, const TimedCopy &b) {
    return std::tie(a.wave, a.device, a.isBeside) <
           std::tie(b.wave, b.device, b.isBeside);
  });
  return out;
}

uint64_t countWaves(const std::vector<UnpairedEnd> &sends) {
  uint64_t waves = 0;
  int32_t last = -1;
  for (const UnpairedEnd &send : sends) { // sorted by wave
    waves += send.wave != last;
    last = send.wave;
  }
  return waves;
}

std::string milliseconds(double seconds) {
  std::ostringstream text;
  text << std::setprecision(10) << seconds * 1e3 << " ms";
  return text.str();
}

struct Row {
  const char *name;
  uint64_t PlanSummary::*number;
};
constexpr Row kOfPrograms[] = {
    {"destination bytes", &PlanSummary::bytesDestination},
    {"local bytes", &PlanSummary::bytesLocal},
    {"bytes in place", &PlanSummary::bytesInPlace},
    {"wire bytes", &PlanSummary::bytesWire},
    {"relayed bytes", &PlanSummary::bytesRelayed},
    {"inter-node bytes", &PlanSummary::bytesInterNode},
    {"staging peak", &PlanSummary::stagingPeak},
    {"device peak", &PlanSummary::devicePeak},
    {"most source bytes", &PlanSummary::sourceMax},
    {"most destination bytes", &PlanSummary::destinationMax},
    {"messages", &PlanSummary::messages},
    {"waves", &PlanSummary::waves},
    {"multicasts", &PlanSummary::multicasts},
    {"library collectives", &PlanSummary::libraryCollectives},
};
constexpr Row kOfLayouts[] = {
    {"wire bytes", &PlanSummary::bytesWireLowerBound},
    {"inter-node bytes", &PlanSummary::bytesInterNodeLowerBound},
};

Status checkSeconds(const char *name, double stated, const char *whose,
                    double measured) {
  if (std::abs(stated - measured) <= kRounding * std::max(stated, measured))
    return {};
  return makeError(name, ": stated ", milliseconds(stated), ", ", whose, " ",
                   milliseconds(measured));
}

} // namespace

Result<PlanSummary> measureTotals(const PlanCommon &common,
                                  const ProgramTotals &totals,
                                  KnownCells *known) {
  auto cells = LayoutCells::of(common.families, totals.shards,
                               totals.sends.size(), known);
  DTRT_RETURN_IF_ERROR(cells);
  auto bounds = lowerBounds(*cells, common.cluster);
  DTRT_RETURN_IF_ERROR(bounds);
  PlanSummary out = common.summary;
  out.bytesDestination = totals.bytesDestination;
  out.bytesLocal = totals.bytesLocal;
  out.bytesInPlace = totals.bytesInPlace;
  out.bytesWire = totals.bytesWire;
  out.bytesRelayed = totals.bytesRelayed;
  out.bytesWireLowerBound = bounds->wireBytes;
  out.bytesInterNode = totals.bytesInterNode;
  out.bytesInterNodeLowerBound = bounds->interNodeBytes;
  out.timePredicted = predictSeconds(timedMessages(common, totals),
                                     common.cluster, timedCopies(totals));
  out.timeLowerBound = bounds->seconds;
  out.stagingPeak = totals.stagingPeak;
  out.devicePeak = totals.devicePeak;
  out.sourceMax = totals.sourceMax;
  out.destinationMax = totals.destinationMax;
  out.waves = countWaves(totals.sends);
  out.messages = size_t(
      std::count_if(totals.sends.begin(), totals.sends.end(),
                    [](const UnpairedEnd &send) { return !send.collective; }));
  out.libraryCollectives = collectivesOf(common, totals.collectives).size();
  return out;
}

Status checkSummary(const PlanSummary &stated, const PlanSummary &measured) {
  for (const Row &row : kOfPrograms)
    if (stated.*row.number != measured.*row.number)
      return makeError("summary says ", stated.*row.number, " ", row.name,
                       ", the programs have ", measured.*row.number);
  for (const Row &row : kOfLayouts)
    if (stated.*row.number != measured.*row.number)
      return makeError("summary says ", stated.*row.number, " ", row.name,
                       " at least, the layouts need ", measured.*row.number);
  DTRT_RETURN_IF_ERROR(checkSeconds("predicted time", stated.timePredicted,
                                    "its waves take", measured.timePredicted));
  return checkSeconds("lower bound of the time", stated.timeLowerBound,
                      "its layouts need", measured.timeLowerBound);
}

} // namespace dtrt
