//===- Solve.cpp - One problem as text ------------------------------------===//

#include "dt/Advise/Solve.h"

#include "dt/Json/Json.h"

#include "dt/Advise/Batches.h"
#include "dt/Advise/ChunkPartition.h"
#include "dt/Advise/ExpertPlacement.h"
#include "dt/Advise/LinkClusters.h"
#include "dt/Advise/Rebalance.h"
#include "dt/Advise/StepTime.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace dt::advise {

using json::asInteger;
using json::asIntegers;
using json::asPositiveNumber;
using json::checkKeys;
using json::fail;
using json::Json;
using json::require;

namespace {

using Out = nlohmann::ordered_json;

/// Sizes at which every algorithm still answers in seconds.
constexpr int64_t kMostLayers = 4096;
constexpr int64_t kMostStages = 1024;
constexpr int64_t kMostExperts = 4096;
constexpr int64_t kMostLinkedDevices = 2048;

/// A number that is 0 or more.
double asNumber(const Json &json, const std::string &path) {
  bool isZero = json.kind == Json::Kind::Integer && json.integer == 0;
  bool isZeroFloat = json.kind == Json::Kind::Float && json.number == 0;
  return isZero || isZeroFloat ? 0 : asPositiveNumber(json, path);
}

std::vector<double> numbers(const Json &json, const std::string &path,
                            bool mayBeZero) {
  std::vector<double> out;
  for (const Json &item : json::asArray(json, path).items) {
    std::string name = path + "[" + std::to_string(out.size()) + "]";
    out.push_back(mayBeZero ? asNumber(item, name)
                            : asPositiveNumber(item, name));
    if (!std::isfinite(out.back()))
      fail(name + " is too large");
  }
  return out;
}

/// A number for all of `n`, or a list of n.
std::vector<int64_t> spread(const Json &json, const std::string &path,
                            size_t n) {
  if (!json.isArray())
    return std::vector<int64_t>(n, asInteger(json, path, 0));
  std::vector<int64_t> out = asIntegers(json, path, 0);
  if (out.size() != n)
    fail(path + " has " + std::to_string(out.size()) + " entries, expected " +
         std::to_string(n));
  return out;
}

void readStage(const Json &json, const std::string &path, double unit,
               StageLimits &out) {
  checkKeys(json, path,
            {"fixed_seconds", "slowdown", "fixed_bytes", "in_flight",
             "capacity", "least_layers", "most_layers"});
  auto integer = [&](const char *key, int64_t &value) {
    if (const Json *given = json.find(key))
      value = asInteger(*given, path + "." + key, 0);
  };
  if (const Json *fixed = json.find("fixed_seconds"))
    out.fixedWork =
        std::llround(asNumber(*fixed, path + ".fixed_seconds") / unit);
  if (const Json *slow = json.find("slowdown"))
    out.slowness = std::llround(
        std::min(1e6, asPositiveNumber(*slow, path + ".slowdown")) *
        kSlownessUnit);
  integer("fixed_bytes", out.fixedBytes);
  integer("in_flight", out.inFlight);
  integer("capacity", out.capacity);
  integer("least_layers", out.leastLayers);
  integer("most_layers", out.mostLayers);
}

std::vector<std::pair<int64_t, int64_t>> readPairs(const Json &json,
                                                   const std::string &path) {
  std::vector<std::pair<int64_t, int64_t>> out;
  for (const Json &item : json::asArray(json, path).items) {
    std::vector<int64_t> pair = asIntegers(item, path, 0);
    if (pair.size() != 2)
      fail(path + " must have pairs of numbers");
    out.push_back({pair[0], pair[1]});
  }
  return out;
}

ChunkProblem readStages(const Json &json, double &unit) {
  const std::string path = "stages";
  checkKeys(json, path,
            {"layer_seconds", "layer_bytes", "activation_bytes", "stages",
             "chunks", "move_bytes", "no_cut_after", "pinned", "together",
             "slack", "least_layers_per_block"});
  ChunkProblem out;
  StageProblem &chain = out.stages;
  std::vector<double> seconds =
      numbers(require(json, path, "layer_seconds"), "stages.layer_seconds",
              /*mayBeZero=*/true);
  if (int64_t(seconds.size()) > kMostLayers)
    fail("stages.layer_seconds has more than " + std::to_string(kMostLayers) +
         " layers");
  chain.work = quantize(seconds, unit);
  size_t n = chain.work.size();
  if (const Json *bytes = json.find("layer_bytes"))
    chain.layerBytes = spread(*bytes, "stages.layer_bytes", n);
  if (const Json *bytes = json.find("activation_bytes"))
    chain.activationBytes = spread(*bytes, "stages.activation_bytes", n);
  StageLimits standard;
  standard.slowness = kSlownessUnit;
  const Json &stages = require(json, path, "stages");
  if (stages.isArray()) {
    for (const Json &item : stages.items) {
      chain.stages.push_back(standard);
      readStage(item,
                "stages.stages[" + std::to_string(chain.stages.size() - 1) +
                    "]",
                unit, chain.stages.back());
    }
  } else {
    chain.stages.assign(asInteger(stages, "stages.stages", 1, kMostStages),
                        standard);
  }
  if (int64_t(chain.stages.size()) > kMostStages)
    fail("stages.stages has more than " + std::to_string(kMostStages));
  if (const Json *moves = json.find("move_bytes"))
    for (const Json &row : json::asArray(*moves, "stages.move_bytes").items)
      chain.moveBytes.push_back(spread(row, "stages.move_bytes", n));
  if (const Json *cuts = json.find("no_cut_after"))
    chain.noCutAfter = asIntegers(*cuts, "stages.no_cut_after", 0);
  if (const Json *chunks = json.find("chunks"))
    out.chunks = asInteger(*chunks, "stages.chunks", 1, kMostStages);
  if (const Json *least = json.find("least_layers_per_block"))
    out.leastLayersPerBlock =
        asInteger(*least, "stages.least_layers_per_block", 0);
  if (const Json *pinned = json.find("pinned"))
    out.pinned = readPairs(*pinned, "stages.pinned");
  if (const Json *together = json.find("together"))
    out.together = readPairs(*together, "stages.together");
  return out;
}

Out solveStages(const Json &json) {
  double unit = 1;
  ChunkProblem problem = readStages(json, unit);
  double slack = 0;
  if (const Json *value = json.find("slack"))
    slack = asNumber(*value, "stages.slack");
  std::string error;
  ChunkPartition found;
  bool isChain =
      problem.chunks == 1 && problem.pinned.empty() && problem.together.empty();
  if (isChain) {
    auto cut = nearestPartition(problem.stages, slack, error);
    if (!cut)
      fail("stages: " + error);
    found = {cut->layers, cut->time, cut->movedBytes, true};
  } else {
    auto cut = partitionChunks(problem, slack, error);
    if (!cut)
      fail("stages: " + error);
    found = *cut;
  }
  Out out;
  out["pp_layers"] = found.layers;
  out["seconds"] = double(found.time) * unit / kSlownessUnit;
  out["moved_bytes"] = found.movedBytes;
  out["exact"] = found.isExact;
  if (isChain)
    out["even_seconds"] =
        double(evenPartition(problem.stages).time) * unit / kSlownessUnit;
  return out;
}

Out solveRebalance(const Json &json) {
  const std::string path = "rebalance";
  checkKeys(json, path,
            {"stages", "today", "state_bytes", "micro_batches", "GBps",
             "switch_seconds", "horizon_steps", "least_gain"});
  RebalanceProblem problem;
  double unit = 1;
  ChunkProblem stages = readStages(require(json, path, "stages"), unit);
  if (stages.chunks != 1 || !stages.pinned.empty() ||
      !stages.together.empty() || !stages.stages.moveBytes.empty())
    fail("rebalance.stages takes no chunks, pinned, together or move_bytes");
  problem.stages = std::move(stages.stages);
  problem.secondsPerUnit = unit / kSlownessUnit;
  problem.today =
      asIntegers(require(json, path, "today"), "rebalance.today", 0);
  problem.stateBytes =
      spread(require(json, path, "state_bytes"), "rebalance.state_bytes",
             problem.stages.work.size());
  problem.microBatches = asInteger(require(json, path, "micro_batches"),
                                   "rebalance.micro_batches", 1);
  if (const Json *rate = json.find("GBps"))
    problem.bytesPerSecond = 1e9 * asPositiveNumber(*rate, "rebalance.GBps");
  if (const Json *seconds = json.find("switch_seconds"))
    problem.switchSeconds = asNumber(*seconds, "rebalance.switch_seconds");
  if (const Json *gain = json.find("least_gain"))
    problem.leastGain = asNumber(*gain, "rebalance.least_gain");
  if (const Json *horizon = json.find("horizon_steps"))
    problem.horizon = asInteger(*horizon, "rebalance.horizon_steps", 1);
  std::string error;
  auto change = rebalance(problem, error);
  if (!change)
    fail("rebalance: " + error);
  Out paysAfter;
  if (change->paysAfterSteps)
    paysAfter = *change->paysAfterSteps;
  return {{"pays", change->pays},
          {"pp_layers", change->partition.layers},
          {"moved_bytes", change->partition.movedBytes},
          {"step_s", change->stepAfter},
          {"today_step_s", change->stepBefore},
          {"slowest_s", change->slowestAfter},
          {"today_slowest_s", change->slowestBefore},
          {"best_slowest_s", change->slowestBest},
          {"transition_s", change->transition},
          {"pays_after_steps", paysAfter}};
}

Out solveExperts(const Json &json) {
  const std::string path = "experts";
  checkKeys(json, path,
            {"load", "ranks", "nodes", "groups", "rank_of", "bytes_per_expert",
             "budget"});
  ExpertProblem problem;
  problem.load = asIntegers(require(json, path, "load"), "experts.load", 0);
  if (int64_t(problem.load.size()) > kMostExperts)
    fail("experts.load has more than " + std::to_string(kMostExperts) +
         " experts");
  auto integer = [&](const char *key, int64_t &value, int64_t least) {
    if (const Json *given = json.find(key))
      value = asInteger(*given, path + "." + key, least);
  };
  problem.ranks =
      asInteger(require(json, path, "ranks"), "experts.ranks", 1, kMostExperts);
  integer("nodes", problem.nodes, 1);
  integer("groups", problem.groups, 1);
  integer("bytes_per_expert", problem.bytesPerExpert, 0);
  integer("budget", problem.budget, 0);
  if (const Json *ranks = json.find("rank_of"))
    problem.rankOf = asIntegers(*ranks, "experts.rank_of", 0);
  std::string error;
  auto placed = placeExperts(problem, error);
  if (!placed)
    fail("experts: " + error);
  ExpertPlacement eplb = packExperts(problem);
  return {{"rank_of", placed->rankOf},
          {"heaviest", placed->heaviest},
          {"moved_bytes", placed->movedBytes},
          {"eplb_heaviest", eplb.heaviest},
          {"eplb_moved_bytes", eplb.movedBytes}};
}

Out solveBatches(const Json &json) {
  const std::string path = "batches";
  checkKeys(json, path,
            {"global", "micro", "replicas", "slowdown", "multiple"});
  BatchProblem problem;
  problem.globalBatch = asInteger(require(json, path, "global"),
                                  "batches.global", 1, int64_t(1) << 40);
  auto integer = [&](const char *key, int64_t &value) {
    if (const Json *given = json.find(key))
      value = asInteger(*given, path + "." + key, 1, int64_t(1) << 24);
  };
  integer("micro", problem.microBatch);
  integer("multiple", problem.multiple);
  if (const Json *slow = json.find("slowdown")) {
    for (double value : numbers(*slow, "batches.slowdown", false))
      problem.slowness.push_back(
          std::llround(std::min(1e6, value) * kSlownessUnit));
  } else {
    int64_t replicas = asInteger(require(json, path, "replicas"),
                                 "batches.replicas", 1, int64_t(1) << 20);
    problem.slowness.assign(replicas, kSlownessUnit);
  }
  std::string error;
  auto shares = dealBatches(problem, error);
  if (!shares)
    fail("batches: " + error);
  Out out = {{"micro_batches", Out::array()},
             {"first_micro_batch", Out::array()},
             {"gradient_weights", Out::array()}};
  for (const ReplicaShare &share : *shares) {
    out["micro_batches"].push_back(share.microBatches);
    out["first_micro_batch"].push_back(share.firstMicroBatch);
    out["gradient_weights"].push_back(share.weight);
  }
  return out;
}

Out solveLinks(const Json &json) {
  const std::string path = "links";
  checkKeys(json, path, {"GBps", "gap", "group", "groups"});
  Bandwidths bandwidths;
  const Json &rows = json::asArray(require(json, path, "GBps"), "links.GBps");
  bandwidths.devices = int64_t(rows.items.size());
  if (bandwidths.devices > kMostLinkedDevices)
    fail("links.GBps has more than " + std::to_string(kMostLinkedDevices) +
         " devices");
  for (const Json &row : rows.items)
    for (double rate : numbers(row, "links.GBps", true))
      bandwidths.rates.push_back(rate);
  double gap = 2;
  if (const Json *value = json.find("gap"))
    gap = asPositiveNumber(*value, "links.gap");
  std::string error;
  auto clusters = clusterDevices(bandwidths, gap, error);
  if (!clusters)
    fail("links: " + error);
  Out out = {{"levels", Out::array()}, {"order", clusters->order}};
  for (const LinkLevel &level : clusters->levels)
    out["levels"].push_back(
        {{"slowest_GBps", level.slowest}, {"island_of", level.islandOf}});
  if (const Json *size = json.find("group")) {
    int64_t group = asInteger(*size, "links.group", 1, kMostLinkedDevices);
    int64_t count = bandwidths.devices / group;
    if (const Json *groups = json.find("groups"))
      count = asInteger(*groups, "links.groups", 1, kMostLinkedDevices);
    auto chosen = groupDevices(*clusters, group, count, error);
    if (!chosen)
      fail("links: " + error);
    out["devices"] = chosen->devices;
    out["split_groups"] = chosen->split;
  }
  return out;
}

Out solve(const std::string &text) {
  Json json = json::parseJson(text, "problem");
  checkKeys(json, "problem",
            {"stages", "rebalance", "experts", "batches", "links"});
  if (json.members.size() != 1)
    fail("problem must have one of the keys \"stages\", \"rebalance\", "
         "\"experts\", \"batches\" and \"links\"");
  const auto &[key, value] = json.members.front();
  if (key == "stages")
    return solveStages(value);
  if (key == "rebalance")
    return solveRebalance(value);
  if (key == "experts")
    return solveExperts(value);
  if (key == "batches")
    return solveBatches(value);
  return solveLinks(value);
}

} // namespace

std::optional<std::string> solveText(const std::string &json,
                                     std::string &error) {
  try {
    return solve(json).dump(2) + "\n";
  } catch (const json::JsonError &mistake) {
    error = mistake.message;
  } catch (const std::exception &failure) {
    error = std::string("cannot solve the problem: ") + failure.what();
  }
  for (char &c : error)
    if (static_cast<unsigned char>(c) < ' ')
      c = ' ';
  return std::nullopt;
}

} // namespace dt::advise
