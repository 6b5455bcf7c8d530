//===- StepTime.cpp - Predicted time and memory of a step -----------------===//

#include "dt/Advise/StepTime.h"

#include <algorithm>
#include <cmath>

namespace dt::advise {

namespace {

constexpr double kActivationBytes = 2; // bf16
constexpr double kLogitBytes = 6;      // bf16, and f32 for the loss
/// Reads of gradient, master and moments, writes of master, moments and
/// parameter, for Adam with f32 states.
constexpr double kOptimizerBytes = 30;

double fastest(const JobCluster &cluster) {
  double flops = 0;
  for (const Device &device : cluster.devices)
    flops = std::max(flops, device.flops);
  return flops;
}

/// Slowest rate from a rank to the next of its group, over all groups of an
/// axis: `size` ranks that stand `stride` apart.
double ringRate(const Job &job, const Sizes &sizes, int64_t stride,
                int64_t size) {
  const JobCluster &cluster = job.cluster;
  double slowest = HUGE_VAL;
  bool crosses = false;
  for (int64_t rank = 0; rank < sizes.world && size > 1; ++rank) {
    int64_t at = rank / stride % size;
    int64_t next = at + 1 < size ? rank + stride : rank - at * stride;
    int64_t from = sizes.devices[rank], to = sizes.devices[next];
    crosses |= cluster.node(from) != cluster.node(to);
    if (!cluster.isRegular())
      slowest = std::min(slowest, cluster.rate(from, to));
    else if (crosses)
      break;
  }
  if (cluster.isRegular())
    slowest =
        crosses ? cluster.bytesPerSecond(true) : cluster.bytesPerSecond(false);
  // All groups ring at once: devices behind one NIC share it, unless the ring
  // leaves the node once for all of them.
  int64_t inNode = std::max<int64_t>(1, cluster.devicesPerNode / stride);
  int64_t sharing = std::min(
      cluster.devicesPerNic,
      std::max<int64_t>(1, cluster.devicesPerNode / std::min(size, inNode)));
  if (crosses && cluster.measured.empty())
    slowest /= double(sharing);
  return slowest * job.time.networkEfficiency;
}

/// A ring that gathers or scatters `bytes` over `n` ranks.
double ringSeconds(double bytes, int64_t n, double rate, double latency) {
  if (n <= 1)
    return 0;
  return bytes * double(n - 1) / double(n) / rate + latency * double(n - 1);
}

/// Expert ranks stand side by side, etp x ep of them.
void addExpertRates(const Job &job, const Sizes &sizes, AxisRates &rates) {
  const JobCluster &cluster = job.cluster;
  rates.etp = ringRate(job, sizes, 1, sizes.etp);
  rates.ep = ringRate(job, sizes, sizes.etp, sizes.ep);
  rates.epInside = cluster.bytesPerSecond(false) * job.time.networkEfficiency;
  if (sizes.ep <= 1)
    return;
  // Of the ranks that one sends to, those on other nodes; the first group
  // stands for all.
  int64_t outside = 0, node = cluster.node(sizes.devices[0]);
  for (int64_t e = 1; e < sizes.ep; ++e)
    outside += cluster.node(sizes.devices[e * sizes.etp]) != node;
  rates.epOutside = double(outside) / double(sizes.ep);
  if (!cluster.isRegular())
    rates.epInside = rates.ep;
  else if (outside > 0)
    rates.ep = cluster.bytesPerSecond(true) / double(cluster.devicesPerNic) *
               job.time.networkEfficiency;
}

/// One layer's parts.
class LayerModel {
public:
  LayerModel(const Job &job, const Sizes &sizes, const Batch &batch,
             const AxisRates &rates)
      : job(job), sizes(sizes), batch(batch), rates(rates),
        flops(fastest(job.cluster) * job.time.efficiency),
        tokens(double(batch.micro * batch.sequence) / double(sizes.cp)),
        latency(job.cluster.latencySeconds()) {}

  LayerTime time(const LayerCost &cost, double layers) const {
    double tp = double(sizes.tp);
    double mlp = (cost.mlpFlops + cost.expertFlops * job.time.expertImbalance) *
                 tokens / tp;
    double rest =
        (cost.tpFlops - cost.mlpFlops + cost.replicatedFlops) * tokens / tp;
    double core =
        cost.coreFlops * double(batch.sequence) / 2 * tokens / tp / flops;
    double forward = (mlp + rest) / flops + core;
    double again = 0; // what recomputation repeats
    if (batch.recompute == Recompute::Full)
      again = forward;
    else if (batch.recompute == Recompute::Selective)
      again = mlp / flops;
    double repeats = batch.recompute == Recompute::Full ? 2 : 1;
    double sent = tensorSeconds(cost, layers) + expertSeconds(cost);
    double ring = ringAttention(cost);
    LayerTime out;
    out.forward = forward + sent + std::max(0.0, ring - core);
    out.backward = 2 * forward + again + repeats * sent +
                   std::max(0.0, 2 * ring - 2 * core);
    return out;
  }

  /// Sequence parallelism: two gathers and two scatters of the hidden states
  /// forward (one of each where experts take the place of the MLP), and as many
  /// backward.
  double tensorSeconds(const LayerCost &cost, double layers) const {
    if (sizes.tp == 1)
      return 0;
    double pairs = cost.mlpFlops > 0 ? 2 : 1;
    double bytes = tokens * double(job.model.hidden) * kActivationBytes;
    return layers * pairs * 2 * ringSeconds(bytes, sizes.tp, rates.tp, latency);
  }

  /// Tokens go to their experts and back.
  double expertSeconds(const LayerCost &cost) const {
    if (cost.expertFlops == 0)
      return 0;
    double tokensHere = tokens / double(sizes.tp);
    double bytes = tokensHere * double(job.model.topk) *
                   double(job.model.hidden) * kActivationBytes *
                   job.time.expertImbalance;
    double seconds = 0;
    if (sizes.ep > 1) {
      double away = double(sizes.ep - 1) / double(sizes.ep);
      double outside = bytes * rates.epOutside / rates.ep;
      double inside = bytes * (away - rates.epOutside) / rates.epInside;
      seconds += 2 * (std::max(outside, inside) + latency);
    }
    if (sizes.etp > 1)
      seconds += 2 * ringSeconds(bytes * double(sizes.etp), sizes.etp,
                                 rates.etp, latency);
    return seconds;
  }

  /// Keys and values pass around the ring of context-parallel ranks while
  /// attention works on those that are there.
  double ringAttention(const LayerCost &cost) const {
    if (sizes.cp == 1)
      return 0;
    double bytes = tokens * cost.keyValue / double(sizes.tp) * kActivationBytes;
    return double(sizes.cp - 1) * (bytes / rates.cp + latency);
  }

  /// Elements that stay until backward, in bytes.
  double saved(const LayerCost &cost) const {
    double elements = cost.ioSaved;
    if (batch.recompute == Recompute::Full)
      elements = cost.ioSaved / 4; // the layer's input alone
    else
      elements += cost.attentionSaved;
    if (batch.recompute == Recompute::None)
      elements += cost.mlpSaved + cost.expertSaved * job.time.expertImbalance;
    return elements * tokens / double(sizes.tp) * kActivationBytes;
  }
  /// What is made again, all of it at once.
  double remade(const LayerCost &cost) const {
    if (batch.recompute == Recompute::None)
      return 0;
    double elements = cost.mlpSaved + cost.expertSaved;
    if (batch.recompute == Recompute::Full)
      elements += cost.attentionSaved + cost.ioSaved;
    return elements * tokens / double(sizes.tp) * kActivationBytes;
  }

  double hiddenBytes() const {
    return tokens / double(sizes.tp) * double(job.model.hidden) *
           kActivationBytes;
  }
  double lossSeconds() const {
    return 2 * double(job.model.hidden) * double(job.model.vocab) *
           double(job.model.logits) * tokens / double(sizes.tp) / flops;
  }
  double logitBytes() const {
    return double(job.model.vocab) / double(sizes.tp) * tokens * kLogitBytes;
  }

private:
  const Job &job;
  const Sizes &sizes;
  const Batch &batch;
  const AxisRates &rates;
  double flops, tokens, latency;
};

/// Layers measured on the live job keep their ratios: the model says how long
/// all of them take here, the profile how that is shared out.
void useProfile(const Job &job, LayerTimes &times) {
  const Profile &profile = job.profile;
  if (profile.layerSeconds.empty())
    return;
  double predicted = 0, measured = 0;
  for (size_t l = 0; l < times.layers.size(); ++l) {
    predicted += times.layers[l].total();
    measured += profile.layerSeconds[l];
  }
  double scale = predicted / measured;
  auto set = [&](LayerTime &time, double seconds) {
    double forward = time.total() > 0 ? time.forward / time.total() : 1.0 / 3;
    time.forward = forward * seconds * scale;
    time.backward = (1 - forward) * seconds * scale;
  };
  for (size_t l = 0; l < times.layers.size(); ++l)
    set(times.layers[l], profile.layerSeconds[l]);
  if (profile.firstSeconds > 0)
    set(times.first, profile.firstSeconds);
  if (profile.lastSeconds > 0)
    set(times.last, profile.lastSeconds);
}

int64_t rounded(double bytes) {
  return bytes < 4e18 ? int64_t(std::ceil(bytes)) : INT64_MAX / 4;
}

/// Layers of each stage and chunk, as [stage][chunk] lists of layer numbers.
std::vector<std::vector<int64_t>> layersOf(const Sizes &sizes) {
  std::vector<std::vector<int64_t>> out(sizes.pp);
  int64_t layer = 0;
  for (size_t block = 0; block < sizes.blocks.size(); ++block)
    for (int64_t i = 0; i < sizes.blocks[block]; ++i)
      out[block % sizes.pp].push_back(layer++);
  return out;
}

/// Arithmetic and communication of one micro-batch, stage by stage.
std::vector<double> stageSeconds(const Sizes &sizes, const LayerTimes &times,
                                 const std::vector<double> &slowness) {
  std::vector<std::vector<int64_t>> layers = layersOf(sizes);
  std::vector<double> out;
  for (int64_t stage = 0; stage < sizes.pp; ++stage) {
    double seconds = stage == 0 ? times.first.total() : 0;
    if (stage + 1 == sizes.pp)
      seconds += times.last.total();
    for (int64_t layer : layers[stage])
      seconds += times.layers[layer].total();
    // Sent and received once per chunk, each way.
    double transfers = sizes.pp > 1 ? 2.0 * double(sizes.vpp) : 0;
    out.push_back(seconds * slowness[stage] + transfers * times.transfer);
  }
  return out;
}

/// Gradients are reduced, parameters gathered, once a step.
double gradientSeconds(const Job &job, const Sizes &sizes,
                       const AxisRates &rates, const RankBytes &bytes) {
  double parameters = double(bytes.parameters);
  double reduce = parameters * double(job.gradientBytes);
  double gather = parameters * kActivationBytes;
  int64_t replicas = sizes.dp * sizes.cp;
  double latency = job.cluster.latencySeconds();
  double rate = rates.data;
  // With experts of their own most parameters reduce over the expert grid.
  if (job.model.experts > 0 && sizes.ep > 1) {
    replicas =
        std::max<int64_t>(1, sizes.world / (sizes.pp * sizes.etp * sizes.ep));
    rate = rates.expertData;
  }
  if (!sizes.zero)
    gather = reduce; // an all-reduce is both
  return ringSeconds(reduce, replicas, rate, latency) +
         ringSeconds(gather, replicas, rate, latency);
}

/// FSDP gathers parameters for forward and backward and scatters gradients, of
/// every micro-batch; what a micro-batch's arithmetic hides is not counted.
double shardingSeconds(const Job &job, const Sizes &sizes,
                       const AxisRates &rates, const RankBytes &bytes) {
  if (sizes.fsdp == 1)
    return 0;
  double whole = double(bytes.parameters) * double(sizes.fsdp);
  return 2 * ringSeconds(whole * kActivationBytes, sizes.fsdp, rates.fsdp,
                         job.cluster.latencySeconds()) +
         ringSeconds(whole * double(job.gradientBytes), sizes.fsdp, rates.fsdp,
                     job.cluster.latencySeconds());
}

} // namespace

AxisRates axisRates(const Job &job, const Sizes &sizes) {
  AxisRates rates;
  int64_t stride = 1;
  rates.tp = ringRate(job, sizes, stride, sizes.tp);
  stride *= sizes.tp;
  rates.cp = ringRate(job, sizes, stride, sizes.cp);
  // ZeRO's group is cp x dp; with fsdp between them there is no ZeRO.
  int64_t dataStride = sizes.fsdp > 1 ? stride * sizes.cp * sizes.fsdp : stride;
  int64_t dataSize = sizes.fsdp > 1 ? sizes.dp : sizes.cp * sizes.dp;
  rates.data = ringRate(job, sizes, dataStride, dataSize);
  rates.fsdp = ringRate(job, sizes, stride * sizes.cp, sizes.fsdp);
  int64_t perStage = sizes.world / sizes.pp;
  rates.pp = ringRate(job, sizes, perStage, sizes.pp);
  int64_t experts = sizes.etp * sizes.ep;
  rates.expertData = ringRate(job, sizes, experts, perStage / experts);
  addExpertRates(job, sizes, rates);
  return rates;
}

LayerTimes layerTimes(const Job &job, const Sizes &sizes, const Batch &batch,
                      const AxisRates &rates) {
  LayerModel model(job, sizes, batch, rates);
  LayerTimes out;
  double working = 0;
  const LayerCost *before = nullptr;
  for (const LayerCost &cost : job.model.costs) {
    // Most layers are as the one before.
    bool isSame = before && cost.tpFlops == before->tpFlops &&
                  cost.expertFlops == before->expertFlops &&
                  cost.coreFlops == before->coreFlops;
    out.layers.push_back(isSame ? out.layers.back() : model.time(cost, 1));
    out.activations.push_back(rounded(model.saved(cost)));
    working = std::max(working, model.remade(cost));
    before = &cost;
  }
  double loss = model.lossSeconds();
  out.last = model.time(job.model.last, double(job.model.logits - 1));
  out.last.forward += loss;
  out.last.backward += 2 * loss;
  out.firstActivations = rounded(model.hiddenBytes());
  out.lastActivations =
      rounded(model.logitBytes() + model.saved(job.model.last));
  out.working = rounded(working);
  if (sizes.pp > 1)
    out.transfer =
        model.hiddenBytes() / rates.pp + job.cluster.latencySeconds();
  useProfile(job, out);
  return out;
}

Slowness slownessOf(const Job &job, const Sizes &sizes) {
  Slowness out;
  out.stages.assign(sizes.pp, 1);
  out.replicas.assign(sizes.dp, 1);
  double best = fastest(job.cluster);
  int64_t perStage = sizes.world / sizes.pp;
  int64_t perReplica = perStage / sizes.dp;
  for (int64_t rank = 0; rank < sizes.world; ++rank) {
    double slow = best / job.cluster.devices[sizes.devices[rank]].flops;
    double &stage = out.stages[rank / perStage];
    double &replica = out.replicas[rank % perStage / perReplica];
    stage = std::max(stage, slow);
    replica = std::max(replica, slow);
  }
  return out;
}

std::vector<int64_t> capacities(const Job &job, const Sizes &sizes) {
  std::vector<int64_t> out(sizes.pp, INT64_MAX);
  int64_t perStage = sizes.world / sizes.pp;
  for (int64_t rank = 0; rank < sizes.world; ++rank) {
    int64_t &capacity = out[rank / perStage];
    capacity = std::min(
        capacity,
        std::max<int64_t>(0, job.cluster.devices[sizes.devices[rank]].memory -
                                 job.constraints.reserve));
  }
  return out;
}

double inFlight(const Sizes &sizes, int64_t stage, int64_t microBatches) {
  int64_t behind = sizes.pp - stage;
  if (sizes.vpp == 1)
    return double(std::min(behind, microBatches));
  // Warm-up of Megatron-Core's interleaved schedule, in chunks, and the one
  // that is worked on.
  int64_t chunks = 2 * (behind - 1) + (sizes.vpp - 1) * sizes.pp + 1;
  return double(std::min(chunks, microBatches * sizes.vpp)) / double(sizes.vpp);
}

StepTime stepTime(const Job &job, const Sizes &sizes, const Batch &batch,
                  const LayerTimes &times, const AxisRates &rates,
                  const std::vector<RankBytes> &bytes,
                  const std::vector<ReplicaShare> &shares) {
  StepTime out;
  Slowness slowness = slownessOf(job, sizes);
  out.stages = stageSeconds(sizes, times, slowness.stages);
  RankBytes most;
  double memoryRate = HUGE_VAL;
  for (const RankBytes &stage : bytes) {
    most.parameters = std::max(most.parameters, stage.parameters);
    most.stepped = std::max(most.stepped, stage.stepped);
  }
  for (int64_t device : sizes.devices)
    memoryRate = std::min(memoryRate, job.cluster.devices[device].memoryRate);
  double sharding = shardingSeconds(job, sizes, rates, most);
  double longest = 0, sum = 0;
  for (double seconds : out.stages) {
    longest = std::max(longest, std::max(seconds, sharding));
    sum += std::max(seconds, sharding);
  }
  // Replicas that are slower than the slowest stage says have fewer
  // micro-batches; the slowest device has set the stages' times.
  double worst =
      *std::max_element(slowness.stages.begin(), slowness.stages.end());
  double step = 0, busiest = 0;
  for (size_t r = 0; r < shares.size(); ++r) {
    double scale = slowness.replicas[r] / worst;
    double busy = double(shares[r].microBatches) * longest * scale;
    double fill = (sum - longest) / double(sizes.vpp) * scale;
    if (busy + fill > step) {
      step = busy + fill;
      busiest = busy;
    }
  }
  double gradients = gradientSeconds(job, sizes, rates, most);
  double hidden = job.time.hideGradients ? longest * 2 / 3 : 0;
  out.gradients = std::max(0.0, gradients - hidden);
  out.optimizer = double(most.stepped) * kOptimizerBytes / memoryRate;
  double flops = stepFlops(job.model, batch) / double(sizes.world) /
                 (fastest(job.cluster) * job.time.efficiency);
  out.compute = std::min(busiest, flops);
  out.tensor = busiest - out.compute;
  out.bubble = step - busiest;
  out.total = step + out.gradients + out.optimizer;
  return out;
}

DeviceMemory deviceMemory(const Job &job, const Sizes &sizes,
                          const LayerTimes &times,
                          const std::vector<RankBytes> &bytes,
                          const std::vector<ReplicaShare> &shares) {
  int64_t most = 0;
  for (const ReplicaShare &share : shares)
    most = std::max(most, share.microBatches);
  std::vector<std::vector<int64_t>> layers = layersOf(sizes);
  std::vector<int64_t> capacity = capacities(job, sizes);
  DeviceMemory fullest;
  fullest.fits = true;
  for (int64_t stage = 0; stage < sizes.pp; ++stage) {
    double kept = inFlight(sizes, stage, most);
    double activations = double(times.working);
    for (int64_t layer : layers[stage])
      activations += kept * double(times.activations[layer]);
    if (stage == 0)
      activations += kept * double(times.firstActivations);
    if (stage + 1 == sizes.pp)
      activations += double(times.lastActivations);
    DeviceMemory here;
    here.state = bytes[stage].state;
    here.gradients = bytes[stage].parameters * job.gradientBytes;
    here.activations = rounded(activations);
    here.total = here.state + here.gradients + here.activations;
    fullest.fits &= here.total <= capacity[stage];
    here.stateMost = std::max(fullest.stateMost, here.state);
    here.fits = fullest.fits;
    fullest.stateMost = here.stateMost;
    if (here.total > fullest.total)
      fullest = here;
  }
  return fullest;
}

double stepFlops(const ModelShape &model, const Batch &batch) {
  double tokens = double(batch.global) * double(batch.sequence);
  double perToken =
      2 * double(model.hidden) * double(model.vocab) * double(model.logits);
  auto add = [&](const LayerCost &cost) {
    perToken += cost.tpFlops + cost.replicatedFlops + cost.expertFlops +
                cost.coreFlops * double(batch.sequence) / 2;
  };
  for (const LayerCost &cost : model.costs)
    add(cost);
  add(model.last);
  return 3 * perToken * tokens;
}

} // namespace dt::advise
