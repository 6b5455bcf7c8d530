//===- Simulate.cpp - A plan event by event -------------------------------===//

#include "dtrt/report/Simulate.h"

#include "SimulationText.h"

#include "dtrt/report/SimulatedPrograms.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace dtrt {

namespace {

/// A device that is slower than that is lost.
constexpr double kMostSlow = 1000;

/// All of the text as one number.
template <typename Number> bool parse(const std::string &text, Number &number) {
  const char *end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && at == end && !text.empty();
}

Status checkDevice(const PlanReader &plan, const std::string &argument,
                   uint32_t device) {
  const std::vector<uint32_t> &devices = plan.devices();
  if (std::binary_search(devices.begin(), devices.end(), device))
    return {};
  return makeError("--slow ", argument, ": the plan has no device ", device,
                   ", expected one of ", devices.size(), " up to ",
                   devices.empty() ? 0 : devices.back());
}

/// "3=2": device 3 takes twice as long; "3-8=2": what it sends to device 8.
Status addSlow(const PlanReader &plan, const std::string &argument,
               SimulationOptions &options) {
  size_t equals = argument.find('='), dash = argument.find('-');
  bool isLink = dash < equals;
  uint32_t from = 0, to = 0;
  double factor = 0;
  bool isRead =
      equals != std::string::npos &&
      parse(argument.substr(equals + 1), factor) &&
      parse(argument.substr(0, isLink ? dash : equals), from) &&
      (!isLink || parse(argument.substr(dash + 1, equals - dash - 1), to));
  if (!isRead)
    return makeError("--slow ", argument,
                     ": expected DEVICE=FACTOR or FROM-TO=FACTOR");
  if (!(factor >= 1 && factor <= kMostSlow))
    return makeError("--slow ", argument, ": the factor is ", factor,
                     ", expected how many times slower, 1 to ", kMostSlow);
  DTRT_RETURN_IF_ERROR(checkDevice(plan, argument, from));
  if (!isLink) {
    options.slowDevices.push_back({from, factor});
    return {};
  }
  DTRT_RETURN_IF_ERROR(checkDevice(plan, argument, to));
  options.slowLinks.push_back({from, to, factor});
  return {};
}

Status checkMicroseconds(const char *name, double value) {
  if (std::isfinite(value) && value >= 0)
    return {};
  return makeError(name, " ", value, ": expected 0 us or more");
}

Result<SimulationOptions> optionsOf(const PlanReader &plan,
                                    const SimulationRequest &request) {
  SimulationOptions options;
  options.latencyUs =
      request.latencyUs.value_or(plan.common().cluster.latencyUs);
  DTRT_RETURN_IF_ERROR(checkMicroseconds("--latency", options.latencyUs));
  options.launchUs = request.launchUs.value_or(plan.common().cluster.launchUs);
  DTRT_RETURN_IF_ERROR(checkMicroseconds("--launch", options.launchUs));
  if (!(request.jitterPercent >= 0 && request.jitterPercent < 100))
    return makeError("--jitter ", request.jitterPercent,
                     ": expected percent, at least 0 and less than 100");
  options.jitter = request.jitterPercent / 100;
  options.seed = request.seed;
  for (const std::string &argument : request.slow)
    DTRT_RETURN_IF_ERROR(addSlow(plan, argument, options));
  return options;
}

/// Each disturbance by itself, with its name.
std::vector<std::pair<std::string, SimulationOptions>>
apart(const SimulationOptions &all) {
  SimulationOptions none = all;
  none.jitter = 0;
  none.slowDevices.clear();
  none.slowLinks.clear();
  std::vector<std::pair<std::string, SimulationOptions>> out;
  std::ostringstream name;
  auto add = [&](const SimulationOptions &options) {
    out.emplace_back(name.str(), options);
    name.str("");
  };
  add(none);
  if (all.jitter > 0) {
    SimulationOptions alone = none;
    alone.jitter = all.jitter;
    name << "jitter of " << all.jitter * 100 << " %, seed " << all.seed;
    add(alone);
  }
  for (const SlowDevice &slow : all.slowDevices) {
    SimulationOptions alone = none;
    alone.slowDevices = {slow};
    name << "device " << slow.device << " " << slow.factor << " x slower";
    add(alone);
  }
  for (const SlowLink &slow : all.slowLinks) {
    SimulationOptions alone = none;
    alone.slowLinks = {slow};
    name << "link " << slow.from << "-" << slow.to << " " << slow.factor
         << " x slower";
    add(alone);
  }
  return out;
}

Result<SimulationReport> simulateAll(const PlanReader &plan,
                                     const SimulationOptions &options) {
  SimulationReport report;
  report.options = options;
  auto simulated = readSimulatedPlan(plan);
  DTRT_RETURN_IF_ERROR(simulated);
  const Cluster &cluster = plan.common().cluster;
  auto whole = simulateEvents(*simulated, cluster, options);
  DTRT_RETURN_IF_ERROR(whole);
  report.result = std::move(*whole);
  report.legs = legsOf(report.result.path, cluster);
  report.undisturbed = report.result.seconds;
  auto parts = apart(options);
  if (parts.size() == 1)
    return report;
  for (size_t i = 0; i < parts.size(); ++i) {
    auto alone = simulateEvents(*simulated, cluster, parts[i].second);
    DTRT_RETURN_IF_ERROR(alone);
    if (i == 0)
      report.undisturbed = alone->seconds;
    else
      report.disturbances.push_back({parts[i].first, alone->seconds});
  }
  return report;
}

} // namespace

Status writeSimulation(const PlanReader &plan, const SimulationRequest &request,
                       OutputFormat format, std::ostream &out) {
  auto options = optionsOf(plan, request);
  DTRT_RETURN_IF_ERROR(options);
  auto report = simulateAll(plan, *options);
  DTRT_RETURN_IF_ERROR(report);
  if (format == OutputFormat::Json)
    writeSimulationJson(plan, *report, out);
  else
    writeSimulationText(plan, *report, out);
  return {};
}

} // namespace dtrt
