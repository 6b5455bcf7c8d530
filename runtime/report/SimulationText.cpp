//===- SimulationText.cpp - A simulation for people and scripts -----------===//

#include "SimulationText.h"

#include "ReportText.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <ostream>

namespace dtrt {

namespace {

using Json = nlohmann::ordered_json;
using Kind = DeviceStep::Kind;

/// Parts of the path that are less than so much of it are rounding.
constexpr double kLeastShare = 1e-6;
/// Rows of each table for people, so that all of them fit a screen.
constexpr size_t kRows = 6;

const char *kindName(Kind kind) {
  switch (kind) {
  case Kind::Pack:
    return "pack";
  case Kind::Unpack:
    return "unpack";
  case Kind::Local:
    return "local";
  case Kind::Group:
    return "message";
  }
  return "";
}

std::vector<std::pair<const char *, double>> named(const SpentSeconds &spent) {
  return {{"wire", spent.wire},       {"latency", spent.latency},
          {"launch", spent.launch},   {"copies", spent.copies},
          {"sharing", spent.sharing}, {"slow", spent.slow},
          {"jitter", spent.jitter}};
}

//===----------------------------------------------------------------------===//
// Legs
//===----------------------------------------------------------------------===//

/// A leg over one port of the message at `first`, up to the first step that is
/// elsewhere.
PathLeg legFrom(const std::vector<PathStep> &path, size_t first, bool out,
                const Cluster &cluster, size_t &last) {
  auto deviceOf = [&](const PathStep &step) {
    return out ? step.device : step.peer;
  };
  PathLeg leg;
  leg.device = deviceOf(path[first]);
  leg.out = out;
  leg.interNode = !cluster.sameNode(path[first].device, path[first].peer);
  leg.firstWave = path[first].wave;
  for (last = first; last < path.size(); ++last) {
    const PathStep &step = path[last];
    if (step.kind != Kind::Group) {
      if (step.device != leg.device)
        break;
      ++leg.copies;
      continue;
    }
    if (deviceOf(step) != leg.device ||
        !cluster.sameNode(step.device, step.peer) != leg.interNode)
      break;
    ++leg.messages;
    leg.lastWave = step.wave;
  }
  return leg;
}

/// Copies before the first message of a path, or alone.
PathLeg copiesFrom(const std::vector<PathStep> &path, size_t first,
                   size_t &last) {
  PathLeg leg;
  leg.device = path[first].device;
  for (last = first; last < path.size() && path[last].kind != Kind::Group &&
                     path[last].device == leg.device;
       ++last)
    ++leg.copies;
  return leg;
}

} // namespace

std::vector<PathLeg> legsOf(const std::vector<PathStep> &path,
                            const Cluster &cluster) {
  std::vector<PathLeg> legs;
  double begin = 0;
  for (size_t at = 0; at < path.size();) {
    size_t end = at;
    PathLeg leg;
    if (path[at].kind == Kind::Group) {
      size_t endIn = at;
      leg = legFrom(path, at, /*out=*/true, cluster, end);
      PathLeg in = legFrom(path, at, /*out=*/false, cluster, endIn);
      if (endIn > end) {
        leg = in;
        end = endIn;
      }
    } else {
      leg = copiesFrom(path, at, end);
    }
    leg.begin = begin;
    leg.end = begin = path[end - 1].end;
    legs.push_back(leg);
    at = end;
  }
  return legs;
}

std::vector<std::pair<const char *, double>>
lostSeconds(const SpentSeconds &spent, const PlanCommon &plan) {
  std::vector<std::pair<const char *, double>> lost = named(spent);
  const Cluster &cluster = plan.cluster;
  double boundWire =
      std::max(0.0, plan.summary.timeLowerBound - cluster.leastWaveSeconds());
  lost[0] = {"order", std::max(0.0, spent.wire - boundWire)};
  lost[1].second = std::max(0.0, spent.latency - cluster.latencySeconds());
  lost[2].second = std::max(0.0, spent.launch - cluster.launchUs * 1e-6);
  return lost;
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

namespace {

Json object(const std::vector<std::pair<const char *, double>> &numbers) {
  Json out = Json::object();
  for (const auto &[name, value] : numbers)
    out[name] = value;
  return out;
}

Json optionsJson(const SimulationOptions &options) {
  Json devices = Json::array(), links = Json::array();
  for (const SlowDevice &slow : options.slowDevices)
    devices.push_back({{"device", slow.device}, {"factor", slow.factor}});
  for (const SlowLink &slow : options.slowLinks)
    links.push_back(
        {{"from", slow.from}, {"to", slow.to}, {"factor", slow.factor}});
  return {{"latency_us", options.latencyUs},
          {"launch_us", options.launchUs},
          {"jitter_percent", options.jitter * 100},
          {"seed", options.seed},
          {"slow_devices", devices},
          {"slow_links", links}};
}

Json disturbancesJson(const SimulationReport &report) {
  Json out = Json::array();
  for (const Disturbance &one : report.disturbances)
    out.push_back({{"what", one.what},
                   {"alone_s", one.seconds},
                   {"lost_s", one.seconds - report.undisturbed}});
  return out;
}

Json legsJson(const std::vector<PathLeg> &legs) {
  Json out = Json::array();
  for (const PathLeg &leg : legs) {
    Json port = nullptr;
    if (leg.messages > 0)
      port = std::string(leg.interNode ? "nic" : "island") +
             (leg.out ? "_out" : "_in");
    out.push_back({{"device", leg.device},
                   {"port", port},
                   {"messages", leg.messages},
                   {"copies", leg.copies},
                   {"first_wave", leg.firstWave},
                   {"last_wave", leg.lastWave},
                   {"begin_s", leg.begin},
                   {"end_s", leg.end}});
  }
  return out;
}

Json pathJson(const std::vector<PathStep> &path) {
  Json out = Json::array();
  for (const PathStep &step : path)
    out.push_back({{"what", kindName(step.kind)},
                   {"wave", step.wave},
                   {"device", step.device},
                   {"peer", step.peer < 0 ? Json() : Json(step.peer)},
                   {"begin_s", step.begin},
                   {"end_s", step.end},
                   {"spent_s", object(named(step.spent))}});
  return out;
}

Json wavesJson(const std::vector<WaveSeconds> &waves) {
  Json out = Json::array();
  for (const WaveSeconds &wave : waves)
    out.push_back({{"wave", wave.wave},
                   {"begin_s", wave.begin},
                   {"end_s", wave.end},
                   {"messages", wave.messages},
                   {"bytes", wave.bytes},
                   {"on_path_s", object(named(wave.onPath))}});
  return out;
}

Json devicesJson(const std::vector<DeviceSeconds> &devices) {
  Json out = Json::array();
  for (const DeviceSeconds &device : devices)
    out.push_back(
        {{"device", device.device},
         {"carrying_s", device.carrying},
         {"copying_s", device.copying},
         {"waiting_s", device.waiting},
         {"waited_for", device.waitedFor < 0 ? Json() : Json(device.waitedFor)},
         {"waited_for_s", device.waitedForSeconds},
         {"kept_waiting_s", device.keptWaiting},
         {"end_s", device.end}});
  return out;
}

} // namespace

void writeSimulationJson(const PlanReader &plan, const SimulationReport &report,
                         std::ostream &out) {
  const PlanSummary &summary = plan.common().summary;
  const SimulationResult &result = report.result;
  Json json;
  json["simulated_s"] = result.seconds;
  json["undisturbed_s"] = report.undisturbed;
  json["predicted_s"] = summary.timePredicted;
  json["lower_bound_s"] = summary.timeLowerBound;
  json["lost_s"] = object(lostSeconds(result.spent, plan.common()));
  json["spent_s"] = object(named(result.spent));
  json["options"] = optionsJson(report.options);
  json["disturbances"] = disturbancesJson(report);
  json["legs"] = legsJson(report.legs);
  json["path"] = pathJson(result.path);
  json["waves"] = wavesJson(result.waves);
  json["devices"] = devicesJson(result.devices);
  out << json.dump(2) << "\n";
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

namespace {

std::string fixedText(double value, int digits) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(digits) << value;
  return text.str();
}

/// "1.02 x predicted 3 ms"
std::string timesText(double seconds, const char *what, double other) {
  std::string text = std::string(what) + " " + secondsText(other);
  return other > 0 ? fixedText(seconds / other, 3) + " x " + text : text;
}

std::string shareText(double part, double whole) {
  return whole > 0 ? fixedText(100 * part / whole, 1) + " %" : "-";
}

/// One row: the first text to the left, all others to the right.
void writeRow(std::ostream &out, const std::vector<std::string> &texts,
              const std::vector<int> &widths) {
  out << "  " << std::left << std::setw(widths[0]) << texts[0] << std::right;
  for (size_t i = 1; i < texts.size(); ++i)
    out << std::setw(widths[i]) << texts[i];
  out << "\n";
}

/// The rows that come first by `less`, no more than a table has.
template <typename Row, typename Less>
std::vector<const Row *> firstRows(const std::vector<Row> &rows, Less less) {
  std::vector<const Row *> out;
  for (const Row &row : rows)
    out.push_back(&row);
  std::stable_sort(out.begin(), out.end(),
                   [&](const Row *a, const Row *b) { return less(*a, *b); });
  out.resize(std::min(out.size(), kRows));
  return out;
}

void writeHead(const PlanReader &plan, const SimulationReport &report,
               std::ostream &out) {
  const PlanSummary &summary = plan.common().summary;
  const SimulationOptions &options = report.options;
  double seconds = report.result.seconds;
  out << "simulated   " << secondsText(seconds) << ", "
      << timesText(seconds, "predicted", summary.timePredicted) << ", "
      << timesText(seconds, "lower bound", summary.timeLowerBound) << "\n";
  out << "with        latency " << options.latencyUs << " us per message, "
      << "launch " << options.launchUs << " us per group\n";
}

void writeDisturbances(const SimulationReport &report, std::ostream &out) {
  if (report.disturbances.empty())
    return;
  double without = report.undisturbed;
  const std::vector<int> widths = {44, 16, 16, 12};
  out << "\nlost to disturbances, against " << secondsText(without)
      << " without them\n";
  writeRow(out, {"by", "takes", "lost", "share"}, widths);
  auto row = [&](const std::string &what, double seconds) {
    writeRow(out,
             {what, secondsText(seconds), secondsText(seconds - without),
              shareText(seconds - without, without)},
             widths);
  };
  for (size_t i = 0; i < std::min(report.disturbances.size(), kRows); ++i)
    row(report.disturbances[i].what + ", alone",
        report.disturbances[i].seconds);
  if (report.disturbances.size() > kRows)
    out << "  and " << report.disturbances.size() - kRows << " more, alone\n";
  row("all together", report.result.seconds);
}

void writeSpent(const PlanReader &plan, const SimulationReport &report,
                std::ostream &out) {
  const SpentSeconds &spent = report.result.spent;
  auto lost = lostSeconds(spent, plan.common());
  const std::vector<int> widths = {12, 16, 12, 28};
  out << "\nwhere the time goes, on the path that decides\n";
  writeRow(out, {"what", "takes", "share", "beyond the lower bound"}, widths);
  auto parts = named(spent);
  for (size_t i = 0; i < parts.size(); ++i)
    if (std::abs(parts[i].second) > kLeastShare * spent.total())
      writeRow(out,
               {parts[i].first, secondsText(parts[i].second),
                shareText(parts[i].second, spent.total()),
                secondsText(lost[i].second)},
               widths);
}

std::string waveText(int32_t first, int32_t last) {
  if (first == last)
    return first < 0 ? "-" : std::to_string(first);
  return std::to_string(first) + "-" + std::to_string(last);
}

std::string portText(const PathLeg &leg) {
  std::string device = "device " + std::to_string(leg.device);
  if (leg.messages == 0)
    return device + " copies";
  return std::string(leg.out ? "out of " : "into ") + device +
         (leg.interNode ? " over its NIC" : " over its island port");
}

void writeLegs(const std::vector<PathLeg> &legs, std::ostream &out) {
  const std::vector<int> widths = {40, 14, 10, 10, 16};
  out << "\nthe path, its longest parts of " << legs.size() << "\n";
  writeRow(out, {"port", "waves", "messages", "copies", "takes"}, widths);
  auto longest = firstRows(legs, [](const PathLeg &a, const PathLeg &b) {
    return a.end - a.begin > b.end - b.begin;
  });
  std::sort(longest.begin(), longest.end());
  for (const PathLeg *leg : longest)
    writeRow(out,
             {portText(*leg), waveText(leg->firstWave, leg->lastWave),
              std::to_string(leg->messages), std::to_string(leg->copies),
              secondsText(leg->end - leg->begin)},
             widths);
}

void writeWaves(const std::vector<WaveSeconds> &waves, std::ostream &out) {
  const std::vector<int> widths = {8, 14, 14, 10, 14, 16, 16};
  out << "\nwaves with most of the path, of " << waves.size() << "\n";
  writeRow(out,
           {"wave", "begins", "lasts", "messages", "bytes", "on the path",
            "of that, wire"},
           widths);
  for (const WaveSeconds *wave :
       firstRows(waves, [](const WaveSeconds &a, const WaveSeconds &b) {
         return a.onPath.total() > b.onPath.total();
       }))
    writeRow(out,
             {std::to_string(wave->wave), secondsText(wave->begin),
              secondsText(wave->end - wave->begin),
              std::to_string(wave->messages), bytesText(uint64_t(wave->bytes)),
              secondsText(wave->onPath.total()),
              secondsText(wave->onPath.wire)},
             widths);
}

void writeDevices(const std::vector<DeviceSeconds> &devices, double seconds,
                  const char *title,
                  const std::vector<const DeviceSeconds *> &rows,
                  std::ostream &out) {
  const std::vector<int> widths = {8, 12, 12, 16, 24, 20};
  out << "\n" << title << ", of " << devices.size() << "\n";
  writeRow(out,
           {"device", "carries", "copies", "waits", "most for device",
            "kept others waiting"},
           widths);
  for (const DeviceSeconds *device : rows) {
    std::string peer = "-";
    if (device->waitedFor >= 0)
      peer = std::to_string(device->waitedFor) + " (" +
             secondsText(device->waitedForSeconds) + ")";
    writeRow(out,
             {std::to_string(device->device),
              shareText(device->carrying, seconds),
              shareText(device->copying, seconds), secondsText(device->waiting),
              peer, secondsText(device->keptWaiting)},
             widths);
  }
}

} // namespace

void writeSimulationText(const PlanReader &plan, const SimulationReport &report,
                         std::ostream &out) {
  const SimulationResult &result = report.result;
  writeHead(plan, report, out);
  writeDisturbances(report, out);
  writeSpent(plan, report, out);
  writeLegs(report.legs, out);
  writeWaves(result.waves, out);
  writeDevices(result.devices, result.seconds, "devices that wait longest",
               firstRows(result.devices,
                         [](const DeviceSeconds &a, const DeviceSeconds &b) {
                           return a.waiting > b.waiting;
                         }),
               out);
  writeDevices(result.devices, result.seconds,
               "devices that others wait for longest",
               firstRows(result.devices,
                         [](const DeviceSeconds &a, const DeviceSeconds &b) {
                           return a.keptWaiting > b.keptWaiting;
                         }),
               out);
}

} // namespace dtrt
