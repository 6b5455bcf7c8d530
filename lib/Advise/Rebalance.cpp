//===- Rebalance.cpp - Whether moving layers pays -------------------------===//

#include "dt/Advise/Rebalance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dt::advise {

namespace {

/// How much slower than the fastest a partition may be that moves less. The
/// first is the fastest itself.
constexpr double kSlacks[] = {0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5};

std::vector<int64_t> stageOfLayers(const std::vector<int64_t> &layers) {
  std::vector<int64_t> out;
  for (size_t stage = 0; stage < layers.size(); ++stage)
    out.insert(out.end(), layers[stage], int64_t(stage));
  return out;
}

std::vector<int64_t> stageTimes(const StageProblem &problem,
                                const std::vector<int64_t> &layers) {
  std::vector<int64_t> times;
  auto work = problem.work.begin();
  for (size_t stage = 0; stage < layers.size(); ++stage) {
    const StageLimits &limits = problem.stages[stage];
    auto end = work + layers[stage];
    times.push_back(limits.slowness *
                    std::accumulate(work, end, limits.fixedWork));
    work = end;
  }
  return times;
}

/// What stages send and receive at most, side by side.
double transitionSeconds(const RebalanceProblem &problem,
                         const std::vector<int64_t> &layers) {
  std::vector<int64_t> before = stageOfLayers(problem.today);
  std::vector<int64_t> after = stageOfLayers(layers);
  if (before == after)
    return 0;
  std::vector<int64_t> out(layers.size(), 0), in(layers.size(), 0);
  for (size_t layer = 0; layer < before.size(); ++layer)
    if (before[layer] != after[layer]) {
      out[before[layer]] += problem.stateBytes[layer];
      in[after[layer]] += problem.stateBytes[layer];
    }
  int64_t most = std::max(*std::max_element(out.begin(), out.end()),
                          *std::max_element(in.begin(), in.end()));
  return problem.switchSeconds + double(most) / problem.bytesPerSecond;
}

/// One partition against today's.
Rebalance compare(const RebalanceProblem &problem,
                  const StagePartition &partition) {
  Rebalance out;
  out.partition = partition;
  auto step = [&](const std::vector<int64_t> &layers, double &slowest) {
    std::vector<int64_t> times = stageTimes(problem.stages, layers);
    int64_t most = *std::max_element(times.begin(), times.end());
    int64_t fill = std::accumulate(times.begin(), times.end(), int64_t(0));
    slowest = double(most) * problem.secondsPerUnit;
    return (double(most) * double(problem.microBatches - 1) + double(fill)) *
           problem.secondsPerUnit;
  };
  out.stepBefore = step(problem.today, out.slowestBefore);
  out.stepAfter = step(partition.layers, out.slowestAfter);
  out.transition = transitionSeconds(problem, partition.layers);
  double gain = out.stepBefore - out.stepAfter;
  if (gain > 0 && out.transition / gain < 1e15)
    out.paysAfterSteps = int64_t(std::ceil(out.transition / gain));
  out.pays = out.paysAfterSteps && *out.paysAfterSteps < problem.horizon &&
             gain >= problem.leastGain * out.stepBefore;
  return out;
}

double gainOf(const RebalanceProblem &problem, const Rebalance &change) {
  return double(problem.horizon) * (change.stepBefore - change.stepAfter) -
         change.transition;
}

} // namespace

bool check(const RebalanceProblem &problem, std::string &error) {
  if (!check(problem.stages, error))
    return false;
  auto text = [](int64_t n) { return std::to_string(n); };
  int64_t layers = int64_t(problem.stages.work.size());
  int64_t stages = int64_t(problem.stages.stages.size());
  int64_t sum = 0;
  for (int64_t count : problem.today) {
    if (count < 0 || count > layers)
      error = "today's stages have " + text(count) + " layers";
    sum += count;
  }
  if (!error.empty())
    return false;
  if (int64_t(problem.today.size()) != stages)
    error = "today has " + text(int64_t(problem.today.size())) +
            " stages, expected " + text(stages);
  else if (sum != layers)
    error = "today's stages have " + text(sum) + " layers, expected " +
            text(layers);
  else if (int64_t(problem.stateBytes.size()) != layers)
    error = "state bytes are given for " +
            text(int64_t(problem.stateBytes.size())) + " layers, expected " +
            text(layers);
  else if (problem.microBatches < 1 || problem.horizon < 1)
    error = "micro-batches and horizon must be at least 1";
  else if (!(problem.bytesPerSecond > 0) || !(problem.switchSeconds >= 0))
    error = "rates must be above 0 and times not below";
  for (int64_t bytes : problem.stateBytes)
    if (bytes < 0 || bytes > (int64_t(1) << 62) / std::max<int64_t>(1, layers))
      error = "state of " + text(bytes) + " bytes is out of range";
  return error.empty();
}

std::optional<Rebalance> rebalance(const RebalanceProblem &problem,
                                   std::string &error) {
  error.clear();
  if (!check(problem, error))
    return std::nullopt;
  StageProblem stages = problem.stages;
  std::vector<int64_t> before = stageOfLayers(problem.today);
  stages.moveBytes.assign(stages.stages.size(), problem.stateBytes);
  for (size_t layer = 0; layer < before.size(); ++layer)
    stages.moveBytes[before[layer]][layer] = 0;
  std::vector<int64_t> times = stageTimes(stages, problem.today);
  Rebalance best =
      compare(problem, {problem.today,
                        *std::max_element(times.begin(), times.end()), 0});
  double slowestBest = 0;
  for (double slack : kSlacks) {
    auto partition = nearestPartition(stages, slack, error);
    if (!partition)
      return std::nullopt;
    Rebalance change = compare(problem, *partition);
    if (slack == 0)
      slowestBest = change.slowestAfter;
    if (gainOf(problem, change) > gainOf(problem, best))
      best = change;
  }
  best.slowestBest = slowestBest;
  return best;
}

} // namespace dt::advise
