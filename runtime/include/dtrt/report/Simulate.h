//===- Simulate.h - A plan event by event -----------------------*- C++ -*-===//

#ifndef DTRT_REPORT_SIMULATE_H
#define DTRT_REPORT_SIMULATE_H

#include "dtrt/format/PlanReader.h"
#include "dtrt/report/OutputFormat.h"

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace dtrt {

/// What a plan is simulated with; what is not set is the cluster's.
struct SimulationRequest {
  std::optional<double> latencyUs; // per message
  std::optional<double> launchUs;  // per group and device
  double jitterPercent = 0;        // of each message and copy
  uint64_t seed = 1;
  /// "DEVICE=FACTOR" or "FROM-TO=FACTOR": how many times slower.
  std::vector<std::string> slow;
};

/// How long the plan takes event by event, and where the time goes; with
/// jitter or slow ends also what each costs. Fails where the request names what
/// the plan does not have, or says what is no number of its kind.
Status writeSimulation(const PlanReader &plan, const SimulationRequest &request,
                       OutputFormat format, std::ostream &out);

} // namespace dtrt

#endif // DTRT_REPORT_SIMULATE_H
