//===- Draw.cpp - A plan as one HTML page ---------------------------------===//
//
// Gathers what the page shows as one JSON object; the page's own script draws
// it. Worlds too large to see are drawn in groups of neighbouring devices.
//
//===----------------------------------------------------------------------===//

#include "dtrt/report/Draw.h"
#include "DrawPage.h"
#include "ReportText.h"
#include "Timeline.h"
#include "dtrt/report/DeviceTraffic.h"
#include "dtrt/report/Page.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <ostream>

namespace dtrt {

namespace {

using Json = nlohmann::ordered_json;

/// Rows of the matrix and bars of the memory chart.
constexpr size_t kMaxRows = 128;
/// Slices of the time axis.
constexpr size_t kMaxBins = 400;

/// Maps devices to rows of equal numbers of devices.
class DeviceRows {
public:
  explicit DeviceRows(const std::vector<uint32_t> &devices)
      : devices(devices), perRow(std::max<size_t>(
                              1, (devices.size() + kMaxRows - 1) / kMaxRows)) {}

  size_t count() const { return (devices.size() + perRow - 1) / perRow; }
  size_t rowOf(uint32_t device) const {
    auto at = std::lower_bound(devices.begin(), devices.end(), device);
    return size_t(at - devices.begin()) / perRow;
  }
  std::string label(size_t row) const {
    uint32_t first = devices[row * perRow];
    uint32_t last = devices[std::min(devices.size(), (row + 1) * perRow) - 1];
    return first == last ? std::to_string(first)
                         : std::to_string(first) + "-" + std::to_string(last);
  }

private:
  const std::vector<uint32_t> &devices;
  size_t perRow;
};

Json labelsJson(const DeviceRows &rows) {
  Json labels = Json::array();
  for (size_t row = 0; row < rows.count(); ++row)
    labels.push_back(rows.label(row));
  return labels;
}

/// [source row, target row, bytes]; local copies lie on the diagonal.
Json matrixJson(const PlanTraffic &traffic, const DeviceRows &rows) {
  std::map<std::pair<size_t, size_t>, uint64_t> cells;
  for (const auto &[edge, bytes] : traffic.edges)
    cells[{rows.rowOf(edge.first), rows.rowOf(edge.second)}] += bytes;
  for (const auto &[device, numbers] : traffic.devices)
    if (numbers.copied > 0)
      cells[{rows.rowOf(device), rows.rowOf(device)}] += numbers.copied;
  Json out = Json::array();
  for (const auto &[cell, bytes] : cells)
    out.push_back({cell.first, cell.second, bytes});
  return out;
}

/// [source, destination, staging, peak] per row: its fullest device.
Json memoryJson(const PlanTraffic &traffic, const DeviceRows &rows) {
  std::vector<DeviceTraffic> fullest(rows.count());
  for (const auto &[device, numbers] : traffic.devices) {
    DeviceTraffic &row = fullest[rows.rowOf(device)];
    if (numbers.peakBytes >= row.peakBytes)
      row = numbers;
  }
  Json out = Json::array();
  for (const DeviceTraffic &row : fullest)
    out.push_back({row.sourceBytes, row.destinationBytes, row.stagingBytes,
                   row.peakBytes});
  return out;
}

/// [wave, bytes, inter-node bytes, messages, seconds] each.
Json wavesJson(const PlanTraffic &traffic) {
  Json out = Json::array();
  for (const auto &[wave, numbers] : traffic.waves)
    out.push_back({wave, numbers.bytes, numbers.interNode, numbers.messages,
                   numbers.seconds});
  return out;
}

/// [wave, "broadcast of devices 0-2 from 1", bytes, seconds] of each library's
/// collective.
Json callsJson(const PlanCommon &common, const PlanTraffic &traffic) {
  Json out = Json::array();
  for (const auto &[wave, numbers] : traffic.waves)
    for (const auto &[set, call] : numbers.calls)
      out.push_back({wave, callText(common, call.kind, set, call.root),
                     call.bytes, call.seconds});
  return out;
}

/// How busy a lane of a row's devices is in each of kMaxBins slices of time:
/// one digit of base 36 per slice. Where nothing takes time all are idle.
std::string busyText(const std::vector<const std::vector<Span> *> &lanes,
                     double seconds) {
  if (!(seconds > 0))
    return std::string(kMaxBins, '0');
  std::vector<double> busy(kMaxBins, 0);
  double slice = seconds / kMaxBins;
  for (const std::vector<Span> *lane : lanes)
    for (const Span &span : *lane) {
      double length = std::max(span.end - span.begin, 1e-12);
      size_t first = std::min(size_t(span.begin / slice), kMaxBins - 1);
      size_t last = std::min(size_t(span.end / slice), kMaxBins - 1);
      for (size_t bin = first; bin <= last; ++bin) {
        double part = std::min(span.end, (bin + 1) * slice) -
                      std::max(span.begin, bin * slice);
        busy[bin] += std::max(part, 0.0) / length * span.busy;
      }
    }
  std::string out;
  for (double amount : busy) {
    double share = amount / (slice * std::max<size_t>(1, lanes.size()));
    int digit = int(std::min(share, 1.0) * 35 + 0.5);
    out += "0123456789abcdefghijklmnopqrstuvwxyz"[digit];
  }
  return out;
}

/// Per row the lanes over time.
Json lanesJson(const Timeline &timeline, const DeviceRows &rows) {
  std::vector<std::vector<const DeviceTimeline *>> devices(rows.count());
  for (const auto &[device, line] : timeline.devices)
    devices[rows.rowOf(uint32_t(device))].push_back(&line);
  Json out = Json::array();
  for (const auto &row : devices) {
    Json texts = Json::array();
    for (size_t lane = 0; lane < kNumLanes; ++lane) {
      std::vector<const std::vector<Span> *> spans;
      for (const DeviceTimeline *line : row)
        spans.push_back(&line->lanes[lane]);
      texts.push_back(busyText(spans, timeline.seconds));
    }
    out.push_back(std::move(texts));
  }
  return out;
}

/// [bytes on the busiest port, latency, end] in seconds of each row's last
/// device.
Json spentJson(const Timeline &timeline, const DeviceRows &rows) {
  std::vector<std::array<double, 3>> last(rows.count(), {0, 0, 0});
  for (const auto &[device, line] : timeline.devices) {
    double busiest = 0;
    for (size_t lane = 0; lane < size_t(Lane::Pack); ++lane) {
      double busy = 0;
      for (const Span &span : line.lanes[lane])
        busy += span.busy;
      busiest = std::max(busiest, busy);
    }
    auto &row = last[rows.rowOf(uint32_t(device))];
    if (line.end >= row[2])
      row = {busiest, line.latency, line.end};
  }
  Json out = Json::array();
  for (const auto &row : last)
    out.push_back({row[0], row[1], row[2]});
  return out;
}

Json drawingJson(const PlanReader &plan, const PlanTraffic &traffic,
                 const Timeline &timeline) {
  const PlanCommon &common = plan.common();
  const PlanSummary &s = common.summary;
  DeviceRows rows(plan.devices());
  Json out;
  out["digest"] = digestText(plan.digest());
  out["sourceWorld"] = common.sourceWorld;
  out["destinationWorld"] = common.destinationWorld;
  out["mode"] = memoryModeName(s.mode, s.granularity);
  out["bytes"] = {s.bytesDestination, s.bytesLocal, s.bytesWire,
                  s.bytesInterNode, s.bytesInPlace};
  out["predicted"] = s.timePredicted;
  out["bound"] = s.timeLowerBound;
  out["stagingLimit"] = s.stagingLimit;
  out["deviceLimit"] = s.deviceLimit;
  out["proved"] =
      !s.coverage.empty() && !s.deadlockFree.empty() && !s.memorySafe.empty();
  out["labels"] = labelsJson(rows);
  out["matrix"] = matrixJson(traffic, rows);
  out["memory"] = memoryJson(traffic, rows);
  out["waves"] = wavesJson(traffic);
  out["calls"] = callsJson(common, traffic);
  out["perNode"] = common.cluster.devicesPerNode;
  out["seconds"] = timeline.seconds;
  out["lanes"] = lanesJson(timeline, rows);
  out["spent"] = spentJson(timeline, rows);
  return out;
}

} // namespace

Status writeDrawing(const PlanReader &plan, std::ostream &out) {
  auto traffic = collectTraffic(plan);
  DTRT_RETURN_IF_ERROR(traffic);
  auto timeline = buildTimeline(plan);
  DTRT_RETURN_IF_ERROR(timeline);
  out << pageStart("DynaTrain plan", kPageStyle) << kPageHead
      << drawingJson(plan, *traffic, *timeline).dump() << kPageTail;
  return {};
}

} // namespace dtrt
