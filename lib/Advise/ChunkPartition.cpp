//===- ChunkPartition.cpp - Layers to model chunks (VPP) ------------------===//
//
// Variables: before[b][l] = 1 when layer l lies in block b or an earlier one.
// It falls along the layers and rises along the blocks; layer l lies in block b
// when before[b][l] - before[b - 1][l] is 1.
//
//===----------------------------------------------------------------------===//

#include "dt/Advise/ChunkPartition.h"

#include "Milp.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dt::advise {

namespace {

constexpr double kNoBound = std::numeric_limits<double>::infinity();

/// Sum of a row of numbers over the layers that each stage has.
struct Totals {
  std::vector<int64_t> work, bytes, moved, layers; // per stage
};

Totals totalsOf(const ChunkProblem &problem,
                const std::vector<int64_t> &blocks) {
  const StageProblem &chain = problem.stages;
  size_t stages = chain.stages.size();
  Totals totals;
  totals.work.resize(stages);
  totals.bytes.resize(stages);
  totals.moved.resize(stages);
  totals.layers.resize(stages);
  size_t layer = 0;
  for (size_t block = 0; block < blocks.size(); ++block) {
    size_t stage = block % stages;
    totals.layers[stage] += blocks[block];
    for (int64_t i = 0; i < blocks[block]; ++i, ++layer) {
      totals.work[stage] += chain.work[layer];
      if (!chain.layerBytes.empty())
        totals.bytes[stage] += chain.layerBytes[layer];
      if (!chain.activationBytes.empty())
        totals.bytes[stage] +=
            chain.stages[stage].inFlight * chain.activationBytes[layer];
      if (!chain.moveBytes.empty())
        totals.moved[stage] += chain.moveBytes[stage][layer];
    }
  }
  return totals;
}

ChunkPartition partitionOf(const ChunkProblem &problem,
                           std::vector<int64_t> blocks, bool isExact) {
  Totals totals = totalsOf(problem, blocks);
  ChunkPartition out;
  for (size_t stage = 0; stage < totals.work.size(); ++stage) {
    const StageLimits &limits = problem.stages.stages[stage];
    out.time = std::max(out.time, limits.slowness *
                                      (limits.fixedWork + totals.work[stage]));
    out.movedBytes += totals.moved[stage];
  }
  out.layers = std::move(blocks);
  out.isExact = isExact;
  return out;
}

int64_t stageOf(const ChunkProblem &problem, const std::vector<int64_t> &blocks,
                int64_t layer) {
  int64_t end = 0;
  for (size_t block = 0; block < blocks.size(); ++block) {
    end += blocks[block];
    if (layer < end)
      return int64_t(block % problem.stages.stages.size());
  }
  return -1;
}

/// Builds the program and reads its answer.
class Builder {
public:
  explicit Builder(const ChunkProblem &problem)
      : problem(problem), chain(problem.stages),
        layers(int64_t(chain.work.size())), stages(chain.stages.size()),
        blocks(stages * problem.chunks) {
    // Scaled so that tolerances of 1e-6 mean the same for all problems.
    double total = 0;
    for (const StageLimits &stage : chain.stages)
      total = std::max(total, double(stage.slowness) * stage.fixedWork);
    double work = 0;
    for (int64_t value : chain.work)
      work += double(value);
    double slowest = 1;
    for (const StageLimits &stage : chain.stages)
      slowest = std::max(slowest, double(stage.slowness));
    unit = std::max(1.0, (total + work * slowest) / 1e4);
  }

  std::optional<std::vector<int64_t>>
  solve(int64_t timeBound, bool byMoves, bool &isOptimal, std::string &error) {
    addVariables(byMoves);
    addOrder();
    for (size_t stage = 0; stage < stages; ++stage) {
      addTime(stage, timeBound);
      addBytes(stage);
      addCounts(stage);
    }
    addSides();
    auto answer = solveMilp(milp, error);
    if (!answer)
      return std::nullopt;
    isOptimal = answer->isOptimal;
    return blocksOf(answer->values);
  }

private:
  using Terms = std::vector<MilpProblem::Term>;

  int32_t before(size_t block, int64_t layer) const {
    return int32_t(block * layers + layer);
  }
  /// Adds coefficient x (layer lies in block).
  void add(Terms &terms, size_t block, int64_t layer, double coefficient) {
    terms.push_back({before(block, layer), coefficient});
    if (block > 0)
      terms.push_back({before(block - 1, layer), -coefficient});
  }
  /// The same over all blocks of a stage and a value per layer.
  Terms sumOn(size_t stage, const std::vector<int64_t> &values, double scale) {
    Terms terms;
    if (values.empty())
      return terms;
    for (size_t block = stage; block < blocks; block += stages)
      for (int64_t layer = 0; layer < layers; ++layer)
        add(terms, block, layer, double(values[layer]) * scale);
    return merged(std::move(terms));
  }
  static Terms merged(Terms terms) {
    std::sort(terms.begin(), terms.end(), [](const auto &a, const auto &b) {
      return a.variable < b.variable;
    });
    Terms out;
    for (const MilpProblem::Term &term : terms)
      if (!out.empty() && out.back().variable == term.variable)
        out.back().coefficient += term.coefficient;
      else
        out.push_back(term);
    return out;
  }

  void addVariables(bool byMoves) {
    for (size_t block = 0; block < blocks; ++block)
      for (int64_t layer = 0; layer < layers; ++layer) {
        double least = block + 1 == blocks ? 1 : 0;
        milp.add({0, least, 1, true});
      }
    time = milp.add({byMoves ? 0.0 : 1.0, 0, kNoBound, false});
    if (!byMoves)
      return;
    double total = 1;
    for (const auto &row : chain.moveBytes)
      for (int64_t value : row)
        total = std::max(total, double(value));
    for (size_t stage = 0; stage < stages && !chain.moveBytes.empty(); ++stage)
      for (const auto &term : sumOn(stage, chain.moveBytes[stage], 1 / total))
        milp.variables[term.variable].cost += term.coefficient;
  }
  void addOrder() {
    for (size_t block = 0; block + 1 < blocks; ++block)
      for (int64_t layer = 0; layer < layers; ++layer) {
        if (layer + 1 < layers)
          milp.rows.push_back(
              {0,
               kNoBound,
               {{before(block, layer), 1}, {before(block, layer + 1), -1}}});
        milp.rows.push_back(
            {0,
             kNoBound,
             {{before(block + 1, layer), 1}, {before(block, layer), -1}}});
      }
    for (int64_t layer : chain.noCutAfter)
      if (layer + 1 < layers)
        for (size_t block = 0; block + 1 < blocks; ++block)
          milp.rows.push_back(
              {0,
               0,
               {{before(block, layer), 1}, {before(block, layer + 1), -1}}});
  }
  void addTime(size_t stage, int64_t timeBound) {
    const StageLimits &limits = chain.stages[stage];
    double scale = double(limits.slowness) / unit;
    Terms terms = sumOn(stage, chain.work, scale);
    terms.push_back({time, -1});
    double fixed = scale * double(limits.fixedWork);
    milp.rows.push_back({-kNoBound, -fixed, terms});
    if (timeBound == INT64_MAX)
      return;
    terms.pop_back();
    milp.rows.push_back({-kNoBound, double(timeBound) / unit - fixed, terms});
  }
  void addBytes(size_t stage) {
    const StageLimits &limits = chain.stages[stage];
    if (limits.capacity == INT64_MAX)
      return;
    std::vector<int64_t> bytes(layers, 0);
    for (int64_t layer = 0; layer < layers; ++layer) {
      if (!chain.layerBytes.empty())
        bytes[layer] += chain.layerBytes[layer];
      if (!chain.activationBytes.empty())
        bytes[layer] += limits.inFlight * chain.activationBytes[layer];
    }
    double scale = 1e4 / std::max<double>(1, double(limits.capacity));
    milp.rows.push_back({-kNoBound,
                         scale * double(limits.capacity - limits.fixedBytes),
                         sumOn(stage, bytes, scale)});
  }
  void addCounts(size_t stage) {
    const StageLimits &limits = chain.stages[stage];
    std::vector<int64_t> ones(layers, 1);
    double most =
        limits.mostLayers == INT64_MAX ? kNoBound : double(limits.mostLayers);
    milp.rows.push_back(
        {double(limits.leastLayers), most, sumOn(stage, ones, 1)});
    if (problem.leastLayersPerBlock > 0)
      for (size_t block = stage; block < blocks; block += stages) {
        Terms terms;
        for (int64_t layer = 0; layer < layers; ++layer)
          add(terms, block, layer, 1);
        milp.rows.push_back({double(problem.leastLayersPerBlock), kNoBound,
                             merged(std::move(terms))});
      }
  }
  Terms isOn(int64_t layer, size_t stage, double coefficient) {
    Terms terms;
    for (size_t block = stage; block < blocks; block += stages)
      add(terms, block, layer, coefficient);
    return terms;
  }
  void addSides() {
    for (auto [layer, stage] : problem.pinned)
      milp.rows.push_back({1, 1, merged(isOn(layer, size_t(stage), 1))});
    for (auto [a, b] : problem.together)
      for (size_t stage = 0; stage < stages; ++stage) {
        Terms terms = isOn(a, stage, 1), other = isOn(b, stage, -1);
        terms.insert(terms.end(), other.begin(), other.end());
        milp.rows.push_back({0, 0, merged(std::move(terms))});
      }
  }
  std::vector<int64_t> blocksOf(const std::vector<double> &values) const {
    std::vector<int64_t> out;
    int64_t done = 0;
    for (size_t block = 0; block < blocks; ++block) {
      int64_t upTo = 0;
      for (int64_t layer = 0; layer < layers; ++layer)
        upTo += std::llround(values[before(block, layer)]);
      out.push_back(upTo - done);
      done = upTo;
    }
    return out;
  }

  const ChunkProblem &problem;
  const StageProblem &chain;
  int64_t layers;
  size_t stages, blocks;
  double unit = 1;
  MilpProblem milp;
  int32_t time = 0;
};

std::optional<ChunkPartition> solveOnce(const ChunkProblem &problem,
                                        int64_t bound, bool byMoves,
                                        std::string &error) {
  bool isOptimal = false;
  auto blocks = Builder(problem).solve(bound, byMoves, isOptimal, error);
  if (!blocks)
    return std::nullopt;
  ChunkPartition partition = partitionOf(problem, *blocks, isOptimal);
  if (!verify(problem, partition, error))
    return std::nullopt;
  return partition;
}

} // namespace

bool check(const ChunkProblem &problem, std::string &error) {
  if (!check(problem.stages, error))
    return false;
  int64_t layers = problem.stages.work.size();
  int64_t stages = problem.stages.stages.size();
  if (problem.chunks < 1 || problem.chunks > std::max<int64_t>(1, layers))
    error = "chunks is " + std::to_string(problem.chunks) +
            ", expected 1 to the number of layers, " + std::to_string(layers);
  for (auto [layer, stage] : problem.pinned)
    if (layer < 0 || layer >= layers || stage < 0 || stage >= stages)
      error = "pinned names layer " + std::to_string(layer) + " and stage " +
              std::to_string(stage);
  for (auto [a, b] : problem.together)
    if (a < 0 || a >= layers || b < 0 || b >= layers)
      error = "together names layers " + std::to_string(a) + " and " +
              std::to_string(b);
  return error.empty();
}

bool verify(const ChunkProblem &problem, const ChunkPartition &partition,
            std::string &error) {
  error.clear();
  size_t stages = problem.stages.stages.size();
  int64_t sum = 0;
  for (int64_t count : partition.layers) {
    sum += count;
    if (count < problem.leastLayersPerBlock)
      error = "a block has " + std::to_string(count) + " layers";
  }
  if (partition.layers.size() != stages * problem.chunks ||
      sum != int64_t(problem.stages.work.size()))
    error = "the blocks are not the layers";
  int64_t end = 0;
  for (size_t block = 0; block + 1 < partition.layers.size(); ++block) {
    end += partition.layers[block];
    for (int64_t layer : problem.stages.noCutAfter)
      if (layer + 1 == end && end < sum)
        error = "a block ends after layer " + std::to_string(layer);
  }
  if (!error.empty())
    return false;
  Totals totals = totalsOf(problem, partition.layers);
  for (size_t stage = 0; stage < stages; ++stage) {
    const StageLimits &limits = problem.stages.stages[stage];
    if (totals.bytes[stage] + limits.fixedBytes > limits.capacity ||
        totals.layers[stage] < limits.leastLayers ||
        totals.layers[stage] > limits.mostLayers)
      error = "stage " + std::to_string(stage) + " does not keep its limits";
  }
  for (auto [layer, stage] : problem.pinned)
    if (stageOf(problem, partition.layers, layer) != stage)
      error = "layer " + std::to_string(layer) + " is not on its stage";
  for (auto [a, b] : problem.together)
    if (stageOf(problem, partition.layers, a) !=
        stageOf(problem, partition.layers, b))
      error = "layers " + std::to_string(a) + " and " + std::to_string(b) +
              " are on different stages";
  ChunkPartition same = partitionOf(problem, partition.layers, false);
  if (same.time != partition.time || same.movedBytes != partition.movedBytes)
    error = "time or bytes are not those of the blocks";
  return error.empty();
}

std::optional<ChunkPartition>
partitionChunks(const ChunkProblem &problem, double slack, std::string &error) {
  if (!check(problem, error))
    return std::nullopt;
  if (!haveMilpSolver()) {
    if (problem.pinned.empty() && problem.together.empty())
      return spreadChunks(problem, error);
    error = "side constraints need HiGHS, which is not built in";
    return std::nullopt;
  }
  auto fastest = solveOnce(problem, INT64_MAX, /*byMoves=*/false, error);
  if (!fastest || problem.stages.moveBytes.empty())
    return fastest;
  double bound = std::floor(double(fastest->time) * (1 + std::max(0.0, slack)));
  int64_t most = std::max(fastest->time, int64_t(bound));
  auto nearest = solveOnce(problem, most, /*byMoves=*/true, error);
  // Rounding inside the solver may refuse the very bound: the fastest stands.
  if (!nearest || nearest->time > most)
    return fastest;
  nearest->isExact &= fastest->isExact;
  return nearest;
}

std::optional<ChunkPartition> spreadChunks(const ChunkProblem &problem,
                                           std::string &error) {
  if (!check(problem, error))
    return std::nullopt;
  StageProblem chain = problem.stages;
  size_t stages = chain.stages.size(), blocks = stages * problem.chunks;
  chain.moveBytes.clear();
  chain.stages.clear();
  for (size_t block = 0; block < blocks; ++block) {
    StageLimits limits = problem.stages.stages[block % stages];
    // Work and bytes that a stage has once lie on the block that brings them.
    bool isFirst = block < stages;
    bool isLast = block + stages >= blocks;
    bool holdsFixed = block % stages == 0 ? isFirst : isLast;
    if (!holdsFixed)
      limits.fixedWork = 0;
    limits.fixedBytes /= problem.chunks;
    if (limits.capacity != INT64_MAX)
      limits.capacity /= problem.chunks;
    limits.leastLayers = problem.leastLayersPerBlock;
    limits.mostLayers = INT64_MAX;
    chain.stages.push_back(limits);
  }
  auto cut = fastestPartition(chain, error);
  if (!cut)
    return std::nullopt;
  ChunkPartition partition = partitionOf(problem, cut->layers, false);
  partition.isExact = problem.chunks == 1 && problem.stages.moveBytes.empty();
  if (!verify(problem, partition, error))
    return std::nullopt;
  return partition;
}

std::string milpSolver() { return milpSolverName(); }

} // namespace dt::advise
