//===- Destinations.cpp - Layouts that a job could change to --------------===//

#include "dt/Advise/Destinations.h"

#include "dt/Advise/ChunkPartition.h"
#include "dt/Advise/ExpertPlacement.h"
#include "dt/Advise/LinkClusters.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace dt::advise {

namespace {

/// Bandwidths that differ by less are one level of links.
constexpr double kLevelGap = 2;
/// Most replicas, stages and chunks that make sense to try.
constexpr int64_t kMostStagesTried = 256;
constexpr int64_t kMostChunks = 8;
constexpr int64_t kMostContext = 64;

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> out;
  for (int64_t d = 1; d <= n; ++d)
    if (n % d == 0)
      out.push_back(d);
  return out;
}

bool isUnequal(const Job &job) {
  const Device &first = job.cluster.devices.front();
  for (const Device &device : job.cluster.devices)
    if (device.flops != first.flops || device.memory != first.memory)
      return true;
  return false;
}

/// Devices that are left, node after node, nodes in the order wanted.
std::vector<std::vector<int64_t>> nodesOf(const Job &job, int64_t order) {
  std::vector<std::vector<int64_t>> nodes(job.cluster.nodes());
  for (int64_t device : job.available())
    nodes[job.cluster.node(device)].push_back(device);
  nodes.erase(std::remove_if(nodes.begin(), nodes.end(),
                             [](const auto &node) { return node.empty(); }),
              nodes.end());
  // The fullest first: tensor parallelism has most room there.
  std::stable_sort(
      nodes.begin(), nodes.end(),
      [](const auto &a, const auto &b) { return a.size() > b.size(); });
  if (order == 0)
    return nodes;
  auto speed = [&](const std::vector<int64_t> &node) {
    double slowest = HUGE_VAL;
    for (int64_t device : node)
      slowest = std::min(slowest, job.cluster.devices[device].flops);
    return slowest;
  };
  std::stable_sort(
      nodes.begin(), nodes.end(),
      [&](const auto &a, const auto &b) { return speed(a) > speed(b); });
  return nodes;
}

/// Islands of the devices that are left, by measured links.
std::vector<int64_t> chooseByLinks(const Job &job, int64_t world,
                                   int64_t size) {
  std::vector<int64_t> left = job.available();
  Bandwidths bandwidths;
  bandwidths.devices = left.size();
  for (int64_t a : left)
    for (int64_t b : left)
      bandwidths.rates.push_back(a == b ? 1 : job.cluster.rate(a, b));
  std::string error;
  auto clusters = clusterDevices(bandwidths, kLevelGap, error);
  if (!clusters)
    return {};
  auto groups = groupDevices(*clusters, size, world / size, error);
  std::vector<int64_t> out;
  for (int64_t i : groups ? groups->devices : std::vector<int64_t>())
    out.push_back(left[i]);
  return out;
}

/// Bytes of one layer, as if every rank of a ZeRO group had an equal part.
struct LayerBytes {
  std::vector<RankBytes> layers;
  RankBytes first, last;
};

LayerBytes layerBytes(const Job &job, const Sizes &sizes) {
  const ModelShape &model = job.model;
  LayerBytes out;
  out.layers.resize(model.layers);
  bool hasExpertGrid =
      model.experts > 0 && (sizes.ep > 1 || sizes.etp != sizes.tp);
  int64_t stage = sizes.world / sizes.pp;
  // Per class: what one tensor of it brings to a rank.
  std::vector<RankBytes> ofClass;
  for (const TensorClass &kind : model.classes) {
    bool expert = kind.isExpert && hasExpertGrid;
    int64_t ways = expert ? sizes.etp : sizes.tp;
    int64_t efsdp = sizes.fsdp > 1 ? sizes.tp * sizes.cp * sizes.fsdp /
                                         (sizes.etp * sizes.ep)
                                   : 1;
    int64_t n = localElements(kind, ways, sizes.tp, expert ? efsdp : sizes.fsdp,
                              job.vocabMultiple);
    int64_t zero = 1;
    if (sizes.zero)
      zero = expert ? stage / (sizes.etp * sizes.ep) : sizes.dp * sizes.cp;
    int64_t owned = (n + zero - 1) / zero;
    ofClass.push_back({n * kind.wholeBytes + owned * kind.cutBytes, n, owned});
  }
  auto add = [&](RankBytes &to, const std::vector<ClassCount> &list) {
    for (const ClassCount &one : list) {
      bool isExpert = model.classes[one.kind].isExpert;
      int64_t count = isExpert ? one.count / sizes.ep : one.count;
      to.state += ofClass[one.kind].state * count;
      to.parameters += ofClass[one.kind].parameters * count;
      to.stepped += ofClass[one.kind].stepped * count;
    }
  };
  for (int64_t layer = 0; layer < model.layers; ++layer)
    add(out.layers[layer], model.inLayer[layer]);
  add(out.first, model.inFirst);
  add(out.first, model.inFirstAndLast);
  add(out.last, model.inLast);
  if (sizes.pp > 1)
    add(out.last, model.inFirstAndLast);
  return out;
}

/// The problem of dealing layers out to stages and chunks.
ChunkProblem chunkProblem(const Job &job, const Sizes &sizes,
                          const LayerTimes &times, const LayerBytes &bytes,
                          int64_t microBatches) {
  ChunkProblem problem;
  problem.chunks = sizes.vpp;
  StageProblem &chain = problem.stages;
  std::vector<double> seconds;
  for (const LayerTime &layer : times.layers)
    seconds.push_back(layer.total());
  seconds.push_back(times.first.total());
  seconds.push_back(times.last.total());
  double unit = 1;
  std::vector<int64_t> work = quantize(seconds, unit);
  chain.work.assign(work.begin(), work.end() - 2);
  for (const RankBytes &layer : bytes.layers)
    chain.layerBytes.push_back(layer.state +
                               layer.parameters * job.gradientBytes);
  // Activations in flight may be a part of a stage: counted in chunks.
  for (int64_t activation : times.activations)
    chain.activationBytes.push_back(activation / sizes.vpp);
  std::vector<int64_t> capacity = capacities(job, sizes);
  Slowness slowness = slownessOf(job, sizes);
  for (int64_t stage = 0; stage < sizes.pp; ++stage) {
    StageLimits limits;
    double kept = inFlight(sizes, stage, microBatches);
    limits.slowness =
        std::llround(slowness.stages[stage] * double(kSlownessUnit));
    limits.inFlight = std::llround(kept * double(sizes.vpp));
    limits.capacity = capacity[stage];
    limits.fixedBytes = times.working;
    auto add = [&](const RankBytes &fixed, double activations, int64_t time) {
      limits.fixedBytes += fixed.state + fixed.parameters * job.gradientBytes +
                           int64_t(activations);
      limits.fixedWork += time;
    };
    if (stage == 0)
      add(bytes.first, kept * double(times.firstActivations),
          work[work.size() - 2]);
    if (stage + 1 == sizes.pp)
      add(bytes.last, double(times.lastActivations), work.back());
    // A stage that has an embedding or a loss may do without layers.
    bool isInner = stage > 0 && stage + 1 < sizes.pp;
    limits.leastLayers = isInner || sizes.vpp > 1 ? 1 : 0;
    chain.stages.push_back(limits);
  }
  problem.leastLayersPerBlock = sizes.vpp > 1 ? 1 : 0;
  return problem;
}

/// Deals layers out by count where the job wants that.
bool dealEvenly(const Job &job, Sizes &sizes, std::string &error) {
  int64_t blocks = sizes.pp * sizes.vpp;
  if (job.model.layers % blocks != 0) {
    error = std::to_string(job.model.layers) + " layers do not divide by pp " +
            std::to_string(sizes.pp) + " x vpp " + std::to_string(sizes.vpp);
    return false;
  }
  sizes.blocks.assign(blocks, job.model.layers / blocks);
  return true;
}

bool dealLayers(const ChunkProblem &problem, double slack, bool isExact,
                Sizes &sizes, bool &isOptimum, std::string &error) {
  if (sizes.vpp == 1) {
    auto cut = slack > 0 ? nearestPartition(problem.stages, slack, error)
                         : fastestPartition(problem.stages, error);
    if (!cut)
      return false;
    sizes.blocks = cut->layers;
    isOptimum = true;
    return true;
  }
  auto cut = isExact ? partitionChunks(problem, slack, error)
                     : spreadChunks(problem, error);
  if (!cut)
    return false;
  sizes.blocks = cut->layers;
  isOptimum = cut->isExact;
  return true;
}

/// Micro-batches per replica. Interleaved stages take them in rounds.
std::optional<std::vector<ReplicaShare>> sharesOf(const Job &job,
                                                  const Sizes &sizes,
                                                  const Batch &batch,
                                                  std::string &error) {
  BatchProblem problem;
  problem.globalBatch = batch.global;
  problem.microBatch = batch.micro;
  problem.multiple = sizes.vpp > 1 ? sizes.pp : 1;
  // FSDP ranks are replicas of the batch too, and alike.
  int64_t alike = sizes.fsdp;
  if (batch.global % (batch.micro * alike) != 0) {
    error = "global batch " + std::to_string(batch.global) +
            " does not divide by micro-batch x fsdp";
    return std::nullopt;
  }
  problem.globalBatch /= alike;
  int64_t parts = problem.globalBatch / batch.micro;
  if (!job.constraints.unevenBatches && parts % sizes.dp != 0) {
    error = "micro-batches do not divide by dp " + std::to_string(sizes.dp);
    return std::nullopt;
  }
  for (double slow : slownessOf(job, sizes).replicas)
    problem.slowness.push_back(std::llround(slow * double(kSlownessUnit)));
  return dealBatches(problem, error);
}

int64_t mostMicroBatches(const std::vector<ReplicaShare> &shares) {
  int64_t most = 0;
  for (const ReplicaShare &share : shares)
    most = std::max(most, share.microBatches);
  return most;
}

/// Estimated bytes of the stages that blocks make.
std::vector<RankBytes> roughly(const Sizes &sizes, const LayerBytes &bytes) {
  std::vector<RankBytes> out(sizes.pp);
  auto add = [&](int64_t stage, const RankBytes &more) {
    out[stage].state += more.state;
    out[stage].parameters += more.parameters;
    out[stage].stepped += more.stepped;
  };
  add(0, bytes.first);
  add(sizes.pp - 1, bytes.last);
  size_t layer = 0;
  for (size_t block = 0; block < sizes.blocks.size(); ++block)
    for (int64_t i = 0; i < sizes.blocks[block]; ++i)
      add(block % sizes.pp, bytes.layers[layer++]);
  return out;
}

/// All that is known of a layout before its layers are dealt out.
struct Parts {
  Parts(const Job &job, const Sizes &sizes, const Batch &batch)
      : rates(axisRates(job, sizes)),
        times(layerTimes(job, sizes, batch, rates)),
        bytes(layerBytes(job, sizes)) {}

  AxisRates rates;
  LayerTimes times;
  LayerBytes bytes;
};

Destination finish(const Job &job, const Sizes &sizes, const Batch &batch,
                   const Parts &parts, std::vector<ReplicaShare> shares,
                   bool isExact) {
  Destination out;
  out.sizes = sizes;
  out.batch = batch;
  std::vector<RankBytes> bytes =
      isExact ? stageBytes(job.model, sizes, job.vocabMultiple)
              : roughly(sizes, parts.bytes);
  out.time =
      stepTime(job, sizes, batch, parts.times, parts.rates, bytes, shares);
  out.memory = deviceMemory(job, sizes, parts.times, bytes, shares);
  out.shares = std::move(shares);
  return out;
}

bool checkSizes(const Job &job, const Sizes &sizes, const Batch &batch,
                std::string &error) {
  error.clear();
  if (!fitsModel(job.model, sizes, job.vocabMultiple, error))
    return false;
  // Megatron-Core deals each half of the sequence out, to balance attention.
  if (sizes.cp > 1 && batch.sequence % (2 * sizes.cp) != 0)
    error = "sequence " + std::to_string(batch.sequence) +
            " does not divide by 2 x cp";
  else if (sizes.tp > 1 && batch.sequence % (sizes.tp * sizes.cp) != 0)
    error = "sequence " + std::to_string(batch.sequence) +
            " does not divide by tp x cp";
  else if (sizes.pp * sizes.vpp > std::max<int64_t>(job.model.layers, 1) + 2)
    error = "there are more blocks than layers";
  return error.empty();
}

/// Goes through all parallel sizes of one world.
class Enumeration {
public:
  Enumeration(const Job &job, int64_t world) : job(job), world(world) {}

  std::vector<Sizes> run() {
    for (int64_t tp : divisors(world))
      if (job.constraints.allows("tp", tp) && fitsTp(tp))
        for (int64_t cp : divisors(world / tp))
          if (job.constraints.allows("cp", cp) && fitsCp(cp))
            for (int64_t pp : divisors(world / tp / cp))
              if (job.constraints.allows("pp", pp) && fitsPp(pp))
                addReplicas(tp, cp, pp);
    return std::move(out);
  }

private:
  bool fitsTp(int64_t tp) const {
    int64_t limit = job.constraints.tpInsideNode
                        ? job.cluster.devicesPerNode
                        : job.cluster.devicesPerNode * 4;
    return tp <= limit && job.model.heads % tp == 0;
  }
  bool fitsCp(int64_t cp) const {
    // Context parallelism is asked for: it is tried where today's layout or a
    // constraint has it, or a sequence is long.
    constexpr int64_t kLongSequence = 16384;
    bool isAsked = job.today.cp > 1 || job.constraints.allowed.count("cp") ||
                   job.batch.sequence > kLongSequence;
    return cp == 1 || (isAsked && cp <= kMostContext && !(cp & (cp - 1)));
  }
  bool fitsPp(int64_t pp) const {
    return pp <= std::min(kMostStagesTried, job.model.layers);
  }

  /// What is left over is data parallel, or sharded where today's layout is.
  void addReplicas(int64_t tp, int64_t cp, int64_t pp) {
    int64_t left = world / tp / cp / pp;
    bool mayShard = job.today.fsdp > 1 || job.constraints.allowed.count("fsdp");
    for (int64_t fsdp : divisors(left)) {
      if (fsdp > 1 && (!mayShard || pp > 1))
        continue;
      int64_t dp = left / fsdp;
      if (!job.constraints.allows("fsdp", fsdp) ||
          !job.constraints.allows("dp", dp))
        continue;
      Sizes sizes;
      sizes.world = world;
      sizes.tp = tp, sizes.cp = cp, sizes.pp = pp;
      sizes.fsdp = fsdp, sizes.dp = dp;
      sizes.bucketSize = job.today.bucketSize;
      addZero(sizes);
    }
  }
  void addZero(Sizes sizes) {
    bool isGiven = job.constraints.allowed.count("zero") > 0;
    for (int64_t zero : {1, 0}) {
      bool isWanted = isGiven ? job.constraints.allows("zero", zero)
                              : zero == job.today.zero;
      if (!isWanted || (zero && sizes.fsdp > 1))
        continue;
      sizes.zero = zero;
      addExperts(sizes);
    }
  }
  void addExperts(Sizes sizes) {
    int64_t stage = world / sizes.pp;
    for (int64_t ep : divisors(std::max<int64_t>(1, job.model.experts))) {
      if (stage % ep != 0 || !job.constraints.allows("ep", ep))
        continue;
      std::set<int64_t> etps = {sizes.tp};
      if (job.model.experts > 0)
        etps.insert(1);
      for (int64_t etp : etps)
        if (stage % (ep * etp) == 0 && job.constraints.allows("etp", etp)) {
          sizes.ep = ep;
          sizes.etp = etp;
          addChunks(sizes);
        }
    }
  }
  void addChunks(Sizes sizes) {
    for (int64_t vpp = 1; vpp <= kMostChunks; vpp *= 2) {
      bool fits =
          vpp == 1 || (sizes.pp > 1 && sizes.pp * vpp <= job.model.layers);
      // Interleaving is tried where today's layout or a constraint has it.
      bool isAsked =
          vpp == 1 || job.today.vpp > 1 || job.constraints.allowed.count("vpp");
      if (!fits || !isAsked || !job.constraints.allows("vpp", vpp))
        continue;
      sizes.vpp = vpp;
      out.push_back(sizes);
    }
  }

  const Job &job;
  int64_t world;
  std::vector<Sizes> out;
};

/// No recomputation where that fits, else as little as does.
std::vector<Recompute> recomputations(const Job &job) {
  if (!job.constraints.recompute.empty())
    return job.constraints.recompute;
  return {Recompute::None, Recompute::Selective, Recompute::Full};
}

void keepBest(std::vector<Destination> &best, size_t most, Destination next) {
  auto at = std::upper_bound(best.begin(), best.end(), next.time.total,
                             [](double seconds, const Destination &other) {
                               return seconds < other.time.total;
                             });
  if (size_t(at - best.begin()) >= most)
    return;
  best.insert(at, std::move(next));
  if (best.size() > most)
    best.pop_back();
}

/// Bytes that come to a stage when a layer lies there, roughly: the part of its
/// devices that do not hold the layer today.
void addMoves(const Job &job, const Sizes &sizes, ChunkProblem &problem) {
  std::vector<int64_t> layerState(job.model.layers, 0);
  for (int64_t layer = 0; layer < job.model.layers; ++layer)
    for (const ClassCount &one : job.model.inLayer[layer]) {
      const TensorClass &kind = job.model.classes[one.kind];
      int64_t elements = localElements(kind, 1, sizes.tp, 1, job.vocabMultiple);
      layerState[layer] +=
          one.count * elements * (kind.wholeBytes + kind.cutBytes);
    }
  std::vector<int64_t> stageOfLayer;
  for (size_t block = 0; block < job.today.blocks.size(); ++block)
    stageOfLayer.insert(stageOfLayer.end(), job.today.blocks[block],
                        int64_t(block) % job.today.pp);
  std::vector<int64_t> stageOfDevice(job.cluster.devices.size(), -1);
  int64_t today = job.today.world / job.today.pp;
  for (int64_t rank = 0; rank < job.today.world; ++rank)
    stageOfDevice[job.today.devices[rank]] = rank / today;
  int64_t perStage = sizes.world / sizes.pp;
  for (int64_t stage = 0; stage < sizes.pp; ++stage) {
    std::vector<int64_t> devicesOf(job.today.pp, 0);
    for (int64_t i = 0; i < perStage; ++i) {
      int64_t held = stageOfDevice[sizes.devices[stage * perStage + i]];
      if (held >= 0)
        ++devicesOf[held];
    }
    std::vector<int64_t> row;
    for (int64_t layer = 0; layer < job.model.layers; ++layer) {
      int64_t lacking = perStage - devicesOf[stageOfLayer[layer]];
      row.push_back(layerState[layer] / perStage * lacking);
    }
    problem.stages.moveBytes.push_back(std::move(row));
  }
}

/// Devices of blocks of ranks that stand on one node, and may change places
/// with others whose devices are of the same kinds.
class Seats {
public:
  Seats(const Job &job, const Sizes &sizes) : job(job), sizes(sizes) {}

  /// Ranks to nodes so that the most state stays; empty where nodes cannot
  /// change places.
  std::vector<int64_t> choose() {
    int64_t size = job.cluster.devicesPerNode;
    if (!job.cluster.isRegular() || sizes.world % size != 0 || !areWhole(size))
      return {};
    int64_t n = sizes.world / size;
    std::vector<std::vector<int64_t>> gain(n, std::vector<int64_t>(n, 0));
    for (int64_t seat = 0; seat < n; ++seat)
      for (int64_t node = 0; node < n; ++node)
        gain[seat][node] = isAlike(seat * size, node * size, size)
                               ? 1 + stays(seat * size, node * size, size)
                               : 0;
    std::vector<int64_t> nodeOf = bestAssignment(gain), devices;
    for (int64_t seat = 0; seat < n; ++seat) {
      if (gain[seat][nodeOf[seat]] == 0)
        return {};
      for (int64_t i = 0; i < size; ++i)
        devices.push_back(sizes.devices[nodeOf[seat] * size + i]);
    }
    return devices;
  }

private:
  bool areWhole(int64_t size) const {
    for (int64_t rank = 0; rank < sizes.world; ++rank)
      if (job.cluster.node(sizes.devices[rank]) !=
          job.cluster.node(sizes.devices[rank / size * size]))
        return false;
    return true;
  }
  bool isAlike(int64_t a, int64_t b, int64_t size) const {
    for (int64_t i = 0; i < size; ++i) {
      const Device &x = job.cluster.devices[sizes.devices[a + i]];
      const Device &y = job.cluster.devices[sizes.devices[b + i]];
      if (x.flops != y.flops || x.memory != y.memory)
        return false;
    }
    return true;
  }
  int64_t stays(int64_t seat, int64_t node, int64_t size) {
    if (!keeper)
      keeper = std::make_unique<StayingBytes>(job, sizes);
    int64_t bytes = 0;
    for (int64_t i = 0; i < size; ++i)
      bytes += keeper->onDevice(seat + i, sizes.devices[node + i]);
    return bytes;
  }

  const Job &job;
  const Sizes &sizes;
  std::unique_ptr<StayingBytes> keeper;
};

} // namespace

std::vector<int64_t> worldsOf(const Job &job, bool all) {
  int64_t n = job.available().size(), node = job.cluster.devicesPerNode;
  auto it = job.constraints.allowed.find("world");
  std::vector<int64_t> worlds;
  // Whole nodes where there are several; the last eighth of the devices may
  // stay idle, as 120 devices have layouts that 127 have not.
  int64_t step = n >= 4 * node ? node : 1;
  int64_t least = all ? 1 : n - std::max(n / 8, std::min(n - 1, step));
  for (int64_t world = n; world >= std::max<int64_t>(1, least); --world) {
    bool isListed = it == job.constraints.allowed.end()
                        ? world % step == 0 || world == n
                        : job.constraints.allows("world", world);
    if (isListed)
      worlds.push_back(world);
  }
  if (it != job.constraints.allowed.end())
    for (int64_t world : it->second)
      if (world >= 1 && world < least)
        worlds.push_back(world);
  return worlds;
}

int64_t deviceOrders(const Job &job) {
  if (!job.cluster.isRegular())
    return 1;
  return isUnequal(job) ? 2 : 1;
}

std::vector<int64_t> chooseDevices(const Job &job, int64_t world,
                                   int64_t tensorParallel, int64_t order) {
  if (!job.cluster.isRegular())
    return chooseByLinks(job, world, tensorParallel);
  std::vector<int64_t> chosen;
  bool isWhole = tensorParallel > job.cluster.devicesPerNode;
  for (const std::vector<int64_t> &node : nodesOf(job, order)) {
    int64_t usable = int64_t(node.size());
    if (!isWhole)
      usable -= usable % tensorParallel;
    for (int64_t i = 0; i < usable; ++i)
      if (int64_t(chosen.size()) < world)
        chosen.push_back(node[i]);
  }
  if (int64_t(chosen.size()) < world)
    return {};
  // In order of device where speed does not matter: today's order.
  if (order == 0)
    std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::optional<Destination> predict(const Job &job, Sizes sizes,
                                   const Batch &batch, bool isExact,
                                   std::string &error) {
  if (!checkSizes(job, sizes, batch, error))
    return std::nullopt;
  auto shares = sharesOf(job, sizes, batch, error);
  if (!shares)
    return std::nullopt;
  Parts parts(job, sizes, batch);
  bool isOptimum = true;
  if (!job.constraints.unevenLayers) {
    if (!dealEvenly(job, sizes, error))
      return std::nullopt;
  } else {
    ChunkProblem problem = chunkProblem(job, sizes, parts.times, parts.bytes,
                                        mostMicroBatches(*shares));
    if (!dealLayers(problem, 0, isExact, sizes, isOptimum, error))
      return std::nullopt;
  }
  Destination out =
      finish(job, sizes, batch, parts, std::move(*shares), isExact);
  out.isExactPartition = isOptimum;
  if (!out.memory.fits) {
    error =
        "a device would need " + std::to_string(out.memory.total) + " bytes";
    return std::nullopt;
  }
  return out;
}

std::optional<Destination> predictAsIs(const Job &job, const Sizes &sizes,
                                       const Batch &batch, std::string &error) {
  if (!checkSizes(job, sizes, batch, error))
    return std::nullopt;
  auto shares = sharesOf(job, sizes, batch, error);
  if (!shares)
    return std::nullopt;
  Parts parts(job, sizes, batch);
  return finish(job, sizes, batch, parts, std::move(*shares),
                /*isExact=*/true);
}

std::vector<Destination> fastestOn(const Job &job, int64_t world, size_t most,
                                   const Progress &progress) {
  std::vector<Sizes> all = Enumeration(job, world).run();
  std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> devices;
  std::vector<Destination> best;
  for (size_t i = 0; i < all.size(); ++i) {
    if (progress && i % 64 == 0)
      progress("layouts", i, all.size());
    for (int64_t order = 0; order < deviceOrders(job); ++order) {
      auto [it, isNew] = devices.try_emplace({all[i].tp, order});
      if (isNew)
        it->second = chooseDevices(job, world, all[i].tp, order);
      if (it->second.empty())
        continue;
      all[i].devices = it->second;
      for (int64_t micro : job.microBatches) {
        Batch batch = job.batch;
        batch.micro = micro;
        for (Recompute recompute : recomputations(job)) {
          batch.recompute = recompute;
          std::string error;
          auto next = predict(job, all[i], batch, /*isExact=*/false, error);
          if (!next)
            continue;
          keepBest(best, most, std::move(*next));
          break; // more recomputation is only slower
        }
      }
    }
  }
  return best;
}

std::optional<Destination> evenly(const Job &job, const Destination &of) {
  Sizes sizes = of.sizes;
  StageProblem chain;
  chain.work.assign(job.model.layers, 1);
  chain.stages.resize(sizes.pp * sizes.vpp);
  sizes.blocks = evenPartition(chain).layers;
  std::string error;
  return predictAsIs(job, sizes, of.batch, error);
}

Destination nearToday(const Job &job, const Destination &destination) {
  Destination best = destination;
  std::string error;
  std::vector<int64_t> devices = Seats(job, best.sizes).choose();
  if (!devices.empty()) {
    Sizes sizes = best.sizes;
    sizes.devices = devices;
    auto moved = predictAsIs(job, sizes, best.batch, error);
    if (moved && moved->memory.fits &&
        moved->time.total <= best.time.total * (1 + 1e-9))
      best = *moved;
  }
  if (!job.constraints.unevenLayers || best.sizes.pp == 1)
    return best;
  Sizes sizes = best.sizes;
  Parts parts(job, sizes, best.batch);
  ChunkProblem problem = chunkProblem(job, sizes, parts.times, parts.bytes,
                                      mostMicroBatches(best.shares));
  addMoves(job, sizes, problem);
  bool isOptimum = true;
  if (!dealLayers(problem, job.time.slack, /*isExact=*/true, sizes, isOptimum,
                  error))
    return best;
  auto nearer = predictAsIs(job, sizes, best.batch, error);
  if (!nearer || !nearer->memory.fits ||
      nearer->time.total > best.time.total * (1 + job.time.slack + 1e-9))
    return best;
  nearer->isExactPartition = isOptimum;
  return *nearer;
}

} // namespace dt::advise
