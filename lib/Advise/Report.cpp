//===- Report.cpp - Advice in words and JSON ------------------------------===//

#include "dt/Advise/Report.h"

#include "dt/Advise/ExpertPlacement.h"
#include "dt/Advise/StageGraph.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <set>
#include <sstream>

namespace dt::advise {

namespace {

using OrderedJson = nlohmann::ordered_json;

double tokensPerSecond(const Job &job, double step) {
  return step > 0 ? double(job.batch.global) * double(job.batch.sequence) / step
                  : 0;
}

OrderedJson sizesJson(const Sizes &sizes) {
  return {
      {"world", sizes.world}, {"tp", sizes.tp},           {"cp", sizes.cp},
      {"ep", sizes.ep},       {"etp", sizes.etp},         {"fsdp", sizes.fsdp},
      {"dp", sizes.dp},       {"pp", sizes.pp},           {"vpp", sizes.vpp},
      {"zero", sizes.zero},   {"pp_layers", sizes.blocks}};
}

OrderedJson batchJson(const Destination &destination) {
  OrderedJson counts = OrderedJson::array(), weights = OrderedJson::array(),
              first = OrderedJson::array();
  for (const ReplicaShare &share : destination.shares) {
    counts.push_back(share.microBatches);
    weights.push_back(share.weight);
    first.push_back(share.firstMicroBatch);
  }
  return {{"micro", destination.batch.micro},
          {"recompute", nameOf(destination.batch.recompute)},
          {"micro_batches", counts},
          {"first_micro_batch", first},
          {"gradient_weights", weights},
          {"learning_rate", "by samples: unchanged, as the global batch is"},
          {"random_stream",
           "of sample number, layer and tp coordinate: see docs/Advise.md"}};
}

OrderedJson predictionJson(const Job &job, const Destination &destination) {
  const StepTime &time = destination.time;
  const DeviceMemory &memory = destination.memory;
  return {{"layout", sizesJson(destination.sizes)},
          {"batch", batchJson(destination)},
          {"tokens_per_s", tokensPerSecond(job, time.total)},
          {"time",
           {{"compute_s", time.compute},
            {"communication_s", time.tensor},
            {"bubble_s", time.bubble},
            {"gradients_s", time.gradients},
            {"optimizer_s", time.optimizer},
            {"stages_s", time.stages}}},
          {"memory",
           {{"state", memory.state},
            {"gradients", memory.gradients},
            {"activations", memory.activations},
            {"state_most", memory.stateMost}}}};
}

OrderedJson rowJson(const Job &job, const AdviceRow &row) {
  OrderedJson out;
  out["request"] =
      row.request.empty() ? OrderedJson(nullptr) : OrderedJson(row.request);
  out["name"] = row.name;
  out["step_s"] = row.destination.time.total;
  out["memory_bytes"] = row.destination.memory.total;
  out["moved_bytes"] = row.movedBytes;
  out["transition_s"] = row.transitionSeconds;
  out["pays_after_steps"] = row.paysAfterSteps
                                ? OrderedJson(*row.paysAfterSteps)
                                : OrderedJson(nullptr);
  out["compiled"] = row.isCompiled;
  if (row.isCompiled)
    out["transition_peak_bytes"] = row.transitionPeak;
  out["mode"] = memoryModeName(row.mode);
  out["even_step_s"] =
      row.evenStep > 0 ? OrderedJson(row.evenStep) : OrderedJson(nullptr);
  out["exact_partition"] = row.destination.isExactPartition;
  out["packed"] = row.isPacked;
  out["give_back"] = row.givenBack;
  out.update(predictionJson(job, row.destination));
  return out;
}

OrderedJson rowsOf(const Job &job, const Advice &advice) {
  OrderedJson rows = OrderedJson::array();
  for (const AdviceRow &row : advice.rows)
    rows.push_back(rowJson(job, row));
  return rows;
}

std::string secondsText(double seconds) {
  std::ostringstream text;
  text << std::setprecision(3);
  if (seconds >= 1 || seconds == 0)
    text << seconds << " s";
  else if (seconds >= 1e-3)
    text << seconds * 1e3 << " ms";
  else
    text << seconds * 1e6 << " us";
  return text.str();
}

std::string bytesText(double bytes) {
  const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 5; ++unit)
    bytes /= 1024;
  std::ostringstream text;
  text << std::fixed << std::setprecision(unit ? 1 : 0) << bytes << " "
       << units[unit];
  return text.str();
}

} // namespace

std::string rowsJson(const Job &job, const Advice &advice) {
  return rowsOf(job, advice).dump(2) + "\n";
}

std::string adviceJson(const Job &job, const Advice &advice) {
  OrderedJson out;
  out["horizon_steps"] = job.horizon;
  out["global_batch"] = job.batch.global;
  out["sequence"] = job.batch.sequence;
  out["lost_bytes"] = advice.lostBytes;
  out["notes"] = advice.notes;
  if (advice.today) {
    out["today"] = {{"step_s", advice.today->time.total},
                    {"memory_bytes", advice.today->memory.total}};
    out["today"].update(predictionJson(job, *advice.today));
  } else {
    out["today"] = nullptr;
  }
  out["rows"] = rowsOf(job, advice);
  return out.dump(2) + "\n";
}

void writeTable(std::ostream &out, const Job &job, const Advice &advice) {
  auto row = [&](const std::string &name, const std::string &step,
                 const std::string &rate, const std::string &memory,
                 const std::string &moved, const std::string &transition,
                 const std::string &pays) {
    out << std::left << std::setw(30) << name << std::right << std::setw(10)
        << step << std::setw(12) << rate << std::setw(11) << memory
        << std::setw(11) << moved << std::setw(12) << transition
        << std::setw(12) << pays << "\n";
  };
  row("layout", "step", "tokens/s", "memory", "moved", "transition",
      "pays after");
  auto rate = [&](double step) {
    return std::to_string(int64_t(tokensPerSecond(job, step)));
  };
  if (advice.today)
    row("today", secondsText(advice.today->time.total),
        rate(advice.today->time.total),
        bytesText(double(advice.today->memory.total)), "-", "-", "-");
  for (const AdviceRow &one : advice.rows) {
    double step = one.destination.time.total;
    row(one.name + (one.isPacked ? " (packed)" : ""), secondsText(step),
        rate(step), bytesText(double(one.destination.memory.total)),
        bytesText(double(one.movedBytes)),
        (one.isCompiled ? "" : "~") + secondsText(one.transitionSeconds),
        one.paysAfterSteps ? std::to_string(*one.paysAfterSteps) : "never");
  }
}

std::string stageGraphJson(const Job &job, const Destination &destination,
                           int64_t most, std::string &error) {
  const Sizes &sizes = destination.sizes;
  PipelineTimes times;
  times.microBatches = 1;
  for (const ReplicaShare &share : destination.shares)
    times.microBatches = std::max(times.microBatches, share.microBatches);
  int64_t perMicroBatch = 2 * sizes.pp * sizes.vpp;
  int64_t fits = std::max(2 * sizes.pp, most / perMicroBatch);
  bool isCut = times.microBatches > fits;
  if (isCut)
    times.microBatches = std::max(sizes.pp, fits / sizes.pp * sizes.pp);
  AxisRates rates = axisRates(job, sizes);
  LayerTimes layers = layerTimes(job, sizes, destination.batch, rates);
  Slowness slowness = slownessOf(job, sizes);
  times.transfer = layers.transfer;
  times.forward.assign(sizes.pp, std::vector<double>(sizes.vpp, 0));
  times.backward = times.forward;
  auto add = [&](int64_t stage, int64_t chunk, const LayerTime &time) {
    times.forward[stage][chunk] += time.forward * slowness.stages[stage];
    times.backward[stage][chunk] += time.backward * slowness.stages[stage];
  };
  add(0, 0, layers.first);
  add(sizes.pp - 1, sizes.vpp - 1, layers.last);
  size_t layer = 0;
  for (size_t block = 0; block < sizes.blocks.size(); ++block)
    for (int64_t i = 0; i < sizes.blocks[block]; ++i)
      add(block % sizes.pp, block / sizes.pp, layers.layers[layer++]);
  auto graph = buildStageGraph(times, error);
  if (!graph)
    return "";
  constexpr double kMostSlowdown = 4;
  OrderedJson out, operations = OrderedJson::array(),
                   edges = OrderedJson::array();
  for (const StageOperation &operation : graph->operations)
    operations.push_back({operation.isBackward ? "backward" : "forward",
                          operation.stage, operation.chunk,
                          operation.microBatch, operation.seconds});
  for (const StageEdge &edge : graph->edges)
    edges.push_back({edge.from, edge.to, edge.delay});
  out["micro_batches"] = times.microBatches;
  out["whole_step"] = !isCut;
  out["seconds"] = makespan(*graph);
  std::vector<double> slower = freeSlowdowns(*graph, kMostSlowdown);
  std::vector<double> ofStage(sizes.pp, 1), part(sizes.pp, 0);
  double perStage = double(slower.size()) / double(sizes.pp);
  for (size_t i = 0; i < slower.size(); ++i) {
    double &most = ofStage[graph->operations[i].stage];
    most = std::max(most, slower[i]);
    part[graph->operations[i].stage] += slower[i] > 1 ? 1 / perStage : 0;
  }
  out["free_slowdown"] = ofStage;
  out["slowed_part"] = part;
  out["operation"] = {"kind", "stage", "chunk", "micro_batch", "seconds"};
  out["operations"] = std::move(operations);
  out["edge"] = {"from", "to", "delay_seconds"};
  out["edges"] = std::move(edges);
  return out.dump() + "\n";
}

std::string expertsJson(const Job &job, const Destination &destination) {
  if (job.profile.expertLoad.empty())
    return "";
  const Sizes &sizes = destination.sizes;
  int64_t bytesPerExpert = 0;
  // All layers of experts are alike: the first that there is.
  int32_t first = -1;
  for (const ShapeTensor &tensor : job.model.tensors) {
    const TensorClass &kind = job.model.classes[tensor.kind];
    if (!kind.isExpert || tensor.expert != 0 ||
        tensor.stage != megatron::Stage::Layer)
      continue;
    if (first < 0)
      first = tensor.layer;
    if (tensor.layer == first)
      bytesPerExpert += localElements(kind, 1, 1, 1, job.vocabMultiple) *
                        (kind.wholeBytes + kind.cutBytes);
  }
  ExpertProblem problem;
  problem.ranks = sizes.ep;
  problem.bytesPerExpert = bytesPerExpert;
  std::set<int64_t> nodes;
  for (int64_t e = 0; e < sizes.ep; ++e)
    nodes.insert(job.cluster.node(sizes.devices[e * sizes.etp]));
  if (sizes.ep % int64_t(nodes.size()) == 0)
    problem.nodes = int64_t(nodes.size());
  OrderedJson out = OrderedJson::array();
  for (const std::vector<int64_t> &load : job.profile.expertLoad) {
    problem.load = load;
    std::string error;
    auto placed = placeExperts(problem, error);
    if (!placed) {
      out.push_back({{"error", error}});
      continue;
    }
    int64_t sum = 0;
    std::vector<int64_t> today(sizes.ep, 0);
    for (size_t e = 0; e < load.size(); ++e) {
      sum += load[e];
      today[int64_t(e) * sizes.ep / int64_t(load.size())] += load[e];
    }
    double mean = double(sum) / double(sizes.ep);
    double before = double(*std::max_element(today.begin(), today.end()));
    out.push_back(
        {{"rank_of_expert", placed->rankOf},
         {"heaviest_over_mean", mean > 0 ? double(placed->heaviest) / mean : 1},
         {"in_order_over_mean", mean > 0 ? before / mean : 1},
         {"moved_bytes", placed->movedBytes}});
  }
  return out.dump(2) + "\n";
}

} // namespace dt::advise
