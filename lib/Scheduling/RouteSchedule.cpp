//===- RouteSchedule.cpp - From routes to waves ---------------------------===//

#include "dt/Scheduling/RouteSchedule.h"

#include "dt/Scheduling/BestSchedule.h"

#include <algorithm>
#include <limits>

using namespace dt;

namespace {

/// Pieces scheduled per route, and pieces that a schedule of one may have.
constexpr int64_t kEffort = 100000, kMostPieces = 2 * kEffort;

} // namespace

std::vector<int64_t> dt::elementBytes(const std::vector<Flow> &flows) {
  std::vector<int64_t> out;
  for (const Flow &flow : flows)
    out.push_back(flow.bytesPerElement);
  return out;
}

WaveProblem dt::waveProblem(const RoutingProblem &problem,
                            std::vector<Move> moves) {
  auto isEarlier = [](const Move &a, const Move &b) { return a.hop < b.hop; };
  if (!std::is_sorted(moves.begin(), moves.end(), isEarlier))
    std::stable_sort(moves.begin(), moves.end(), isEarlier);
  WaveProblem out;
  out.moves = std::move(moves);
  out.elementBytes = elementBytes(problem.flows());
  out.cluster = problem.cluster();
  out.stagingBytes = problem.stagingBytes();
  return out;
}

double dt::routeSeconds(const RoutingProblem &problem,
                        const std::vector<Move> &moves,
                        const StoredFlows *stored) {
  WaveProblem waves = waveProblem(problem, moves);
  waves.stored = stored;
  WaveSchedule schedule;
  WaveOptions options;
  options.effort = kEffort;
  options.mostPieces = kMostPieces;
  if (scheduleBest(waves, options, schedule))
    return std::numeric_limits<double>::infinity();
  return waves.seconds(schedule.moves);
}
