//===- StagePartition.cpp - Layers to pipeline stages, exactly ------------===//
//
// best(p, l): the first l layers on the first p stages. A stage takes layers
// [k, l); as k falls its time and bytes grow, so the loop over k ends at the
// first limit that is passed.
//
//===----------------------------------------------------------------------===//

#include "dt/Advise/StagePartition.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dt::advise {

namespace {

constexpr int64_t kMostTotal = int64_t(1) << 62;

std::vector<int64_t> prefixSums(const std::vector<int64_t> &values, size_t n) {
  std::vector<int64_t> sums(n + 1, 0);
  for (size_t i = 0; i < values.size(); ++i)
    sums[i + 1] = sums[i] + values[i];
  return sums;
}

/// Sums over runs of layers in constant time.
struct Sums {
  explicit Sums(const StageProblem &problem)
      : problem(problem), layers(problem.work.size()),
        work(prefixSums(problem.work, layers)),
        bytes(prefixSums(problem.layerBytes, layers)),
        activations(prefixSums(problem.activationBytes, layers)),
        mayCut(layers + 1, true) {
    for (const std::vector<int64_t> &row : problem.moveBytes)
      moves.push_back(prefixSums(row, layers));
    for (int64_t layer : problem.noCutAfter)
      mayCut[layer + 1] = false;
    mayCut[layers] = true;
  }

  int64_t time(size_t stage, size_t from, size_t to) const {
    const StageLimits &limits = problem.stages[stage];
    return limits.slowness * (limits.fixedWork + work[to] - work[from]);
  }
  int64_t bytesOf(size_t stage, size_t from, size_t to) const {
    const StageLimits &limits = problem.stages[stage];
    return limits.fixedBytes + bytes[to] - bytes[from] +
           limits.inFlight * (activations[to] - activations[from]);
  }
  int64_t moved(size_t stage, size_t from, size_t to) const {
    return moves.empty() ? 0 : moves[stage][to] - moves[stage][from];
  }

  const StageProblem &problem;
  size_t layers;
  std::vector<int64_t> work, bytes, activations;
  std::vector<bool> mayCut;
  std::vector<std::vector<int64_t>> moves;
};

/// How good a partition of some first layers is; smaller is better.
struct Score {
  int64_t major = INT64_MAX;
  int64_t minor = INT64_MAX;
  friend bool operator<(const Score &a, const Score &b) {
    return a.major != b.major ? a.major < b.major : a.minor < b.minor;
  }
  bool isNone() const { return major == INT64_MAX; }
};

/// `byMoves`: bytes first and time second, else the other way round.
class Program {
public:
  Program(const StageProblem &problem, int64_t bound, bool byMoves)
      : problem(problem), sums(problem), bound(bound), byMoves(byMoves) {}

  std::optional<StagePartition> solve() {
    size_t stages = problem.stages.size(), layers = sums.layers;
    best.assign(stages + 1, std::vector<Score>(layers + 1));
    from.assign(stages + 1, std::vector<size_t>(layers + 1, 0));
    best[0][0] = {0, 0};
    for (size_t stage = 0; stage < stages; ++stage)
      for (size_t to = 0; to <= layers; ++to)
        extend(stage, to);
    if (best[stages][layers].isNone())
      return std::nullopt;
    return trace();
  }

private:
  void extend(size_t stage, size_t to) {
    const StageLimits &limits = problem.stages[stage];
    Score &score = best[stage + 1][to];
    if (!sums.mayCut[to] && to > 0 && stage + 1 < problem.stages.size())
      return;
    for (size_t count = 0; count <= to; ++count) {
      size_t k = to - count;
      int64_t time = sums.time(stage, k, to);
      if (time > bound || int64_t(count) > limits.mostLayers ||
          sums.bytesOf(stage, k, to) > limits.capacity)
        break;
      if (best[stage][k].isNone() || int64_t(count) < limits.leastLayers)
        continue;
      Score next = join(best[stage][k], time, sums.moved(stage, k, to));
      if (next < score) {
        score = next;
        from[stage + 1][to] = k;
      }
    }
  }
  Score join(const Score &before, int64_t time, int64_t moved) const {
    if (byMoves)
      return {before.major + moved, std::max(before.minor, time)};
    return {std::max(before.major, time), before.minor + moved};
  }
  StagePartition trace() const {
    size_t stages = problem.stages.size(), to = sums.layers;
    StagePartition partition;
    partition.layers.resize(stages);
    for (size_t stage = stages; stage > 0; --stage) {
      size_t k = from[stage][to];
      partition.layers[stage - 1] = to - k;
      partition.time = std::max(partition.time, sums.time(stage - 1, k, to));
      partition.movedBytes += sums.moved(stage - 1, k, to);
      to = k;
    }
    return partition;
  }

  const StageProblem &problem;
  Sums sums;
  int64_t bound;
  bool byMoves;
  std::vector<std::vector<Score>> best;
  std::vector<std::vector<size_t>> from;
};

std::string number(int64_t value) { return std::to_string(value); }

bool sumFits(const std::vector<int64_t> &values, int64_t factor) {
  __int128 sum = 0;
  for (int64_t value : values) {
    if (value < 0)
      return false;
    sum += value;
  }
  return sum * factor <= kMostTotal;
}

bool checkStage(const StageLimits &stage, size_t index, std::string &error) {
  std::string name = "stage " + std::to_string(index);
  if (stage.slowness < 1)
    error = name + " has slowness " + number(stage.slowness) +
            ", expected at least 1";
  else if (stage.fixedWork < 0 || stage.fixedBytes < 0 || stage.inFlight < 0 ||
           stage.capacity < 0 || stage.leastLayers < 0)
    error = name + " has a negative size";
  else if (stage.mostLayers < stage.leastLayers)
    error = name + " must have at least " + number(stage.leastLayers) +
            " layers, but at most " + number(stage.mostLayers);
  return error.empty();
}

bool checkRow(const std::vector<int64_t> &row, size_t layers, const char *what,
              bool mayBeEmpty, std::string &error) {
  if ((row.empty() && mayBeEmpty) || row.size() == layers)
    return true;
  error = std::string(what) + " has " + std::to_string(row.size()) +
          " entries, but there are " + std::to_string(layers) + " layers";
  return false;
}

/// Sums and products that the program forms fit 62 bits.
bool checkTotals(const StageProblem &problem, std::string &error) {
  int64_t slowest = 1, inFlight = 1;
  std::vector<int64_t> work = problem.work, bytes = problem.layerBytes;
  for (const StageLimits &stage : problem.stages) {
    slowest = std::max(slowest, stage.slowness);
    inFlight = std::max(inFlight, stage.inFlight);
    work.push_back(stage.fixedWork);
    bytes.push_back(stage.fixedBytes);
  }
  bool fits = sumFits(work, slowest) && sumFits(bytes, 2) &&
              sumFits(problem.activationBytes, 2 * inFlight);
  for (const std::vector<int64_t> &row : problem.moveBytes)
    fits &= sumFits(row, int64_t(problem.stages.size()));
  if (!fits)
    error = "work or bytes are negative or add up to more than 2^62";
  return fits;
}

std::optional<StagePartition> solve(const StageProblem &problem, int64_t bound,
                                    bool byMoves, std::string &error) {
  auto partition = Program(problem, bound, byMoves).solve();
  if (!partition)
    error = "no partition of " + std::to_string(problem.work.size()) +
            " layers into " + std::to_string(problem.stages.size()) +
            " stages keeps the limits of bytes and layers";
  return partition;
}

} // namespace

bool check(const StageProblem &problem, std::string &error) {
  error.clear();
  size_t layers = problem.work.size();
  if (problem.stages.empty()) {
    error = "there are no stages";
    return false;
  }
  for (size_t i = 0; i < problem.stages.size(); ++i)
    if (!checkStage(problem.stages[i], i, error))
      return false;
  if (!checkRow(problem.layerBytes, layers, "layerBytes", true, error) ||
      !checkRow(problem.activationBytes, layers, "activationBytes", true,
                error))
    return false;
  if (!problem.moveBytes.empty() &&
      problem.moveBytes.size() != problem.stages.size()) {
    error = "moveBytes has " + std::to_string(problem.moveBytes.size()) +
            " rows, but there are " + std::to_string(problem.stages.size()) +
            " stages";
    return false;
  }
  for (const std::vector<int64_t> &row : problem.moveBytes)
    if (!checkRow(row, layers, "a row of moveBytes", false, error))
      return false;
  for (int64_t layer : problem.noCutAfter)
    if (layer < 0 || layer >= int64_t(layers)) {
      error = "noCutAfter names layer " + number(layer) + " of " +
              std::to_string(layers);
      return false;
    }
  return checkTotals(problem, error);
}

bool verify(const StageProblem &problem, const StagePartition &partition,
            std::string &error) {
  error.clear();
  Sums sums(problem);
  if (partition.layers.size() != problem.stages.size()) {
    error = "the partition has another number of stages";
    return false;
  }
  size_t at = 0;
  int64_t time = 0, moved = 0;
  for (size_t stage = 0; stage < problem.stages.size(); ++stage) {
    const StageLimits &limits = problem.stages[stage];
    int64_t count = partition.layers[stage];
    std::string name = "stage " + std::to_string(stage);
    if (count < limits.leastLayers || count > limits.mostLayers ||
        at + count > sums.layers)
      error = name + " has " + number(count) + " layers";
    else if (sums.bytesOf(stage, at, at + count) > limits.capacity)
      error = name + " holds more than its capacity";
    else if (!sums.mayCut[at + count] && stage + 1 < problem.stages.size())
      error = name + " ends where no cut may be";
    if (!error.empty())
      return false;
    time = std::max(time, sums.time(stage, at, at + count));
    moved += sums.moved(stage, at, at + count);
    at += count;
  }
  if (at != sums.layers)
    error = "the stages have " + std::to_string(at) + " layers of " +
            std::to_string(sums.layers);
  else if (time != partition.time || moved != partition.movedBytes)
    error = "time or bytes are not those of the stages";
  return error.empty();
}

std::optional<StagePartition> fastestPartition(const StageProblem &problem,
                                               std::string &error) {
  if (!check(problem, error))
    return std::nullopt;
  auto fastest = solve(problem, INT64_MAX, /*byMoves=*/false, error);
  // The sum beside a maximum has no optimal parts: the bytes are a second
  // question, with the time as its bound.
  if (!fastest || problem.moveBytes.empty())
    return fastest;
  return solve(problem, fastest->time, /*byMoves=*/true, error);
}

std::optional<StagePartition> nearestPartition(const StageProblem &problem,
                                               double slack,
                                               std::string &error) {
  auto fastest = fastestPartition(problem, error);
  if (!fastest)
    return fastest;
  double bound = std::floor(double(fastest->time) * (1 + std::max(0.0, slack)));
  int64_t most = bound >= double(kMostTotal) ? kMostTotal : int64_t(bound);
  return solve(problem, std::max(most, fastest->time), /*byMoves=*/true, error);
}

StagePartition evenPartition(const StageProblem &problem) {
  Sums sums(problem);
  size_t stages = problem.stages.size(), at = 0;
  StagePartition partition;
  for (size_t stage = 0; stage < stages; ++stage) {
    size_t count = sums.layers / stages + (stage < sums.layers % stages);
    partition.layers.push_back(count);
    partition.time = std::max(partition.time, sums.time(stage, at, at + count));
    partition.movedBytes += sums.moved(stage, at, at + count);
    at += count;
  }
  return partition;
}

std::vector<int64_t> quantize(const std::vector<double> &seconds,
                              double &unit) {
  double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  unit = sum > 0 ? sum / double(int64_t(1) << 40) : 1;
  std::vector<int64_t> out;
  for (double value : seconds)
    out.push_back(std::llround(value / unit));
  return out;
}

} // namespace dt::advise
