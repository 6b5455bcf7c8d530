//===- SimulationText.h - A simulation for people and scripts ---*- C++ -*-===//

#ifndef DTRT_REPORT_SIMULATIONTEXT_H
#define DTRT_REPORT_SIMULATIONTEXT_H

#include "dtrt/cost/EventSimulation.h"
#include "dtrt/format/PlanReader.h"

#include <iosfwd>

namespace dtrt {

/// A part of the critical path that goes over one port.
struct PathLeg {
  int64_t device = 0; // whose port it is
  bool out = true, interNode = false;
  size_t messages = 0, copies = 0;
  int32_t firstWave = -1, lastWave = -1; // of its messages; -1: copies alone
  double begin = 0, end = 0;
};

/// Cuts a path into as long legs as can be, from its beginning on.
std::vector<PathLeg> legsOf(const std::vector<PathStep> &path,
                            const Cluster &cluster);

/// What one of several disturbances costs by itself.
struct Disturbance {
  std::string what;
  double seconds = 0; // simulated with it alone
};

struct SimulationReport {
  SimulationOptions options;
  SimulationResult result;
  double undisturbed = 0; // seconds without jitter and slow ends
  std::vector<Disturbance> disturbances;
  std::vector<PathLeg> legs;
};

/// Why the time is not the lower bound: name and seconds. `order` is what the
/// path has of bytes on the wire beyond the bound's.
std::vector<std::pair<const char *, double>>
lostSeconds(const SpentSeconds &spent, const PlanCommon &plan);

void writeSimulationText(const PlanReader &plan, const SimulationReport &report,
                         std::ostream &out);
void writeSimulationJson(const PlanReader &plan, const SimulationReport &report,
                         std::ostream &out);

} // namespace dtrt

#endif // DTRT_REPORT_SIMULATIONTEXT_H
