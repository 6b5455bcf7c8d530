//===- Diff.cpp - What differs between two plans, by meaning --------------===//

#include "dtrt/Report.h"

#include <ostream>

namespace dtrt {

namespace {

/// Edges, waves or devices that are listed one by one.
constexpr size_t kMaxListed = 10;

class Differences {
public:
  explicit Differences(std::ostream &out) : out(out) {}

  template <typename T>
  void compare(const std::string &what, const T &a, const T &b) {
    if (a == b)
      return;
    any = true;
    out << what << ": " << a << " -> " << b << "\n";
  }

  /// Compares two maps from keys to numbers; absent means zero.
  template <typename Map, typename Name, typename Value>
  void compareMaps(const char *what, const Map &a, const Map &b, Name name,
                   Value value) {
    size_t differing = 0;
    auto report = [&](const auto &key, uint64_t left, uint64_t right) {
      if (left == right)
        return;
      if (++differing <= kMaxListed)
        compare(what + name(key), left, right);
    };
    for (const auto &[key, left] : a) {
      auto right = b.find(key);
      report(key, value(left), right == b.end() ? 0 : value(right->second));
    }
    for (const auto &[key, right] : b)
      if (!a.count(key))
        report(key, 0, value(right));
    if (differing > kMaxListed)
      out << what << "of " << differing - kMaxListed << " more differ\n";
  }

  bool any = false;

private:
  std::ostream &out;
};

std::string familyText(const Family &family) {
  std::string text = family.name + " [";
  for (const LeadingDim &dim : family.leading)
    text += std::to_string(dim.first) + "+" + std::to_string(dim.step) + "*" +
            std::to_string(dim.count) + " ";
  for (int64_t size : family.shape)
    text += std::to_string(size) + " ";
  text.back() = text.back() == ' ' ? ']' : text.back();
  for (const StateInfo &state : family.states)
    text += " " + state.name + ":" + dtypeName(state.sourceDType) + "->" +
            dtypeName(state.destinationDType);
  return text;
}

void compareTensors(const PlanCommon &a, const PlanCommon &b,
                    Differences &differences) {
  std::map<std::string, uint64_t> left, right;
  for (const Family &family : a.families)
    ++left[familyText(family)];
  for (const Family &family : b.families)
    ++right[familyText(family)];
  differences.compareMaps(
      "tensors ", left, right, [](const std::string &key) { return key; },
      [](uint64_t count) { return count; });
}

void compareLayouts(const PlanCommon &a, const PlanCommon &b,
                    Differences &differences) {
  differences.compare("source world", a.sourceWorld, b.sourceWorld);
  differences.compare("destination world", a.destinationWorld,
                      b.destinationWorld);
  differences.compare("source layout", a.sourceFingerprint,
                      b.sourceFingerprint);
  differences.compare("destination layout", a.destinationFingerprint,
                      b.destinationFingerprint);
  auto devices = [](const std::vector<uint32_t> &list) {
    std::string text;
    for (uint32_t device : list)
      text += (text.empty() ? "" : ",") + std::to_string(device);
    return text;
  };
  differences.compare("source devices", devices(a.sourceDevices),
                      devices(b.sourceDevices));
  differences.compare("destination devices", devices(a.destinationDevices),
                      devices(b.destinationDevices));
}

void compareSummaries(const PlanSummary &a, const PlanSummary &b,
                      Differences &differences) {
  struct Row {
    const char *name;
    uint64_t PlanSummary::*field;
  };
  const Row rows[] = {
      {"destination bytes", &PlanSummary::bytesDestination},
      {"local bytes", &PlanSummary::bytesLocal},
      {"wire bytes", &PlanSummary::bytesWire},
      {"inter-node bytes", &PlanSummary::bytesInterNode},
      {"waves", &PlanSummary::waves},
      {"messages", &PlanSummary::messages},
      {"collectives", &PlanSummary::collectives},
      {"staging limit", &PlanSummary::stagingLimit},
      {"staging peak", &PlanSummary::stagingPeak},
      {"device limit", &PlanSummary::deviceLimit},
      {"device peak", &PlanSummary::devicePeak},
      {"most source bytes", &PlanSummary::sourceMax},
      {"most destination bytes", &PlanSummary::destinationMax},
  };
  for (const Row &row : rows)
    differences.compare(row.name, a.*row.field, b.*row.field);
  differences.compare("predicted seconds", a.timePredicted, b.timePredicted);
  auto mode = [](const PlanSummary &summary) {
    return std::string(memoryModeName(summary.mode, summary.granularity));
  };
  differences.compare("memory mode", mode(a), mode(b));
}

void compareTraffic(const PlanTraffic &a, const PlanTraffic &b,
                    Differences &differences) {
  differences.compareMaps(
      "bytes ", a.edges, b.edges,
      [](const auto &edge) {
        return "from " + std::to_string(edge.first) + " to " +
               std::to_string(edge.second);
      },
      [](uint64_t bytes) { return bytes; });
  differences.compareMaps(
      "bytes ", a.waves, b.waves,
      [](int32_t wave) { return "in wave " + std::to_string(wave); },
      [](const WaveTraffic &wave) { return wave.bytes; });
  auto onDevice = [](uint32_t device) {
    return "on device " + std::to_string(device);
  };
  differences.compareMaps(
      "memory peak ", a.devices, b.devices, onDevice,
      [](const DeviceTraffic &device) { return device.peakBytes; });
  differences.compareMaps(
      "local bytes ", a.devices, b.devices, onDevice,
      [](const DeviceTraffic &device) { return device.copied; });
}

} // namespace

Result<bool> writeDifferences(const PlanReader &a, const PlanReader &b,
                              std::ostream &out) {
  auto left = collectTraffic(a);
  DTRT_RETURN_IF_ERROR(left);
  auto right = collectTraffic(b);
  DTRT_RETURN_IF_ERROR(right);
  Differences differences(out);
  compareLayouts(a.common(), b.common(), differences);
  compareTensors(a.common(), b.common(), differences);
  compareSummaries(a.common().summary, b.common().summary, differences);
  compareTraffic(*left, *right, differences);
  return !differences.any;
}

} // namespace dtrt
