//===- StateSizes.cpp - Bytes of state of a layout ------------------------===//

#include "dt/Advise/StateSizes.h"

#include "HeldState.h"

#include <algorithm>
#include <set>

namespace dt::advise {

namespace {

int64_t overlap(const std::vector<Interval> &a,
                const std::vector<Interval> &b) {
  int64_t size = 0;
  for (Interval x : a)
    for (Interval y : b)
      size += intersect(x, y).size();
  return size;
}

/// Elements of a tensor that two shards without ranges share; padding is no
/// part of the tensor.
int64_t sharedElements(const TensorClass &kind, const Shard &a,
                       const Shard &b) {
  int64_t volume = 1;
  for (size_t dim = 0; dim < kind.shape.size(); ++dim) {
    std::vector<Interval> real;
    for (Interval interval : a.dims[dim])
      real.push_back(intersect(interval, {0, kind.shape[dim]}));
    volume *= overlap(real, b.dims[dim]);
  }
  return volume;
}

int64_t sharedElements(const std::vector<Box> &a, const std::vector<Box> &b) {
  int64_t volume = 0;
  for (const Box &x : a)
    for (const Box &y : b)
      if (overlaps(x, y))
        volume += intersect(x, y).volume();
  return volume;
}

/// One side of a change, with whom its ranks stand on.
struct Side {
  Side(const Job &job, const Sizes &sizes)
      : held(job.model, sizes, job.vocabMultiple) {
    for (int64_t rank = 0; rank < sizes.world; ++rank)
      rankOf[sizes.devices[rank]] = rank;
  }

  HeldState held;
  std::unordered_map<int64_t, int64_t> rankOf; // of a device
};

/// What ranks of two layouts have in common.
class Pairs {
public:
  Pairs(const Job &job, const Sizes &before, const Sizes &after)
      : job(job), source(job, before), destination(job, after) {}

  bool hasRange(HeldState &held, int32_t tensor, bool isCutState) {
    return isCutState && held.isCut(tensor);
  }

  int64_t wanted(const Coordinates &at, int32_t tensor, bool isCutState) {
    HeldState &held = destination.held;
    const TensorClass &kind = job.model.classes[job.model.tensors[tensor].kind];
    if (!hasRange(held, tensor, isCutState)) {
      const Shard &shard = held.shard(at, tensor);
      return sharedElements(kind, shard, shard);
    }
    Interval range = held.owned(at, tensor);
    if (range.empty())
      return 0;
    // Padding is the end of the local tensor, whose rows are whole.
    const Shard &shard = held.shard(at, tensor);
    if (!kind.isVocab)
      return range.size();
    return intersect(range, {0, sharedElements(kind, shard, shard)}).size();
  }

  /// Elements that source rank `from` holds of what destination rank `to`
  /// wants.
  int64_t shared(const Coordinates &from, const Coordinates &to, int32_t tensor,
                 bool isCutState) {
    if (!source.held.holds(from, tensor))
      return 0;
    bool sourceRange = hasRange(source.held, tensor, isCutState);
    bool destinationRange = hasRange(destination.held, tensor, isCutState);
    const TensorClass &kind = job.model.classes[job.model.tensors[tensor].kind];
    const Shard &a = source.held.shard(from, tensor);
    const Shard &b = destination.held.shard(to, tensor);
    if (!sourceRange && !destinationRange)
      return sharedElements(kind, a, b);
    if (sharedElements(kind, a, b) == 0)
      return 0;
    Interval all{0, INT64_MAX};
    Interval x = sourceRange ? source.held.owned(from, tensor) : all;
    Interval y = destinationRange ? destination.held.owned(to, tensor) : all;
    if (x.empty() || y.empty())
      return 0;
    if (a.dims == b.dims) {
      Interval real{0, sharedElements(kind, a, a)};
      return intersect(intersect(x, y), real).size();
    }
    return sharedElements(regions(cutOf(a, x, sourceRange), kind.shape),
                          regions(cutOf(b, y, destinationRange), kind.shape));
  }
  static Shard cutOf(const Shard &shard, Interval range, bool hasRange) {
    Shard out = shard;
    if (hasRange)
      out.range = range;
    return out;
  }

  const Job &job;
  Side source, destination;
};

class Change : public Pairs {
public:
  Change(const Job &job, const Sizes &before, const Sizes &after)
      : Pairs(job, before, after) {
    for (int64_t device : before.devices)
      if (!job.cluster.devices[device].isLost)
        onNode[job.cluster.node(device)].push_back(device);
  }

  Arrivals run() {
    Arrivals out;
    const Sizes &after = destination.held.grid().sizes;
    for (int64_t rank = 0; rank < after.world; ++rank) {
      out.devices.push_back(arrivalsOf(rank, after.devices[rank]));
      out.bytes += out.devices.back().bytes;
    }
    return out;
  }

private:
  DeviceArrival arrivalsOf(int64_t rank, int64_t device) {
    DeviceArrival out;
    out.device = device;
    Coordinates at = destination.held.grid().coordinates(rank);
    std::vector<Coordinates> peers;
    for (int64_t peer : onNode[job.cluster.node(device)])
      if (peer != device)
        peers.push_back(source.held.grid().coordinates(source.rankOf.at(peer)));
    bool isHere = source.rankOf.count(device) > 0;
    Coordinates own;
    if (isHere)
      own = source.held.grid().coordinates(source.rankOf.at(device));
    for (int32_t tensor : destination.held.tensorsOf(at.stage, at.ep)) {
      const TensorClass &kind =
          job.model.classes[job.model.tensors[tensor].kind];
      for (bool isCutState : {false, true}) {
        int64_t width = isCutState ? kind.cutBytes : kind.wholeBytes;
        if (width == 0)
          continue;
        int64_t need = wanted(at, tensor, isCutState);
        if (need > 0 && isHere)
          need -= shared(own, at, tensor, isCutState);
        out.bytes += need * width;
        for (size_t p = 0; p < peers.size() && need > 0; ++p)
          need -= std::min(need, shared(peers[p], at, tensor, isCutState));
        out.betweenNodes += need * width;
      }
    }
    return out;
  }

  std::map<int64_t, std::vector<int64_t>> onNode; // source devices
};

/// Parts of the state that no device holds that is left.
class Losses {
public:
  Losses(const Job &job, const Sizes &sizes)
      : model(job.model), held(job.model, sizes, job.vocabMultiple) {
    for (int64_t rank = 0; rank < sizes.world; ++rank) {
      bool isLeft = !job.cluster.devices[sizes.devices[rank]].isLost;
      anyLost |= !isLeft;
      if (isLeft)
        left.insert(held.grid().coordinates(rank));
    }
  }

  int64_t bytes() {
    int64_t sum = 0;
    for (size_t tensor = 0; anyLost && tensor < model.tensors.size(); ++tensor)
      sum += bytesOf(int32_t(tensor));
    return sum;
  }

private:
  struct Order {
    static auto key(const Coordinates &at) {
      return std::make_tuple(at.stage, at.tp, at.fsdp, at.zero, at.etp, at.ep,
                             at.efsdp, at.ezero);
    }
    bool operator()(const Coordinates &a, const Coordinates &b) const {
      return key(a) < key(b);
    }
  };
  /// What tells the shards of one tensor apart: coordinates of cuts that it
  /// does not have are left out.
  using Piece = std::pair<int64_t, int64_t>; // tensor parallel, FSDP

  int64_t bytesOf(int32_t number) {
    const TensorClass &kind = model.classes[model.tensors[number].kind];
    bool expert = kind.isExpert && held.grid().hasExpertGrid;
    bool isCut = held.isCut(number);
    // Of each piece, what is held of both kinds of state.
    std::map<Piece, std::pair<bool, std::vector<Interval>>> pieces;
    std::map<Piece, Coordinates> any;
    for (const Coordinates &at : left) {
      if (!held.holds(at, number))
        continue;
      Piece piece{kind.tpDim < 0 ? 0
                  : expert       ? at.etp
                                 : at.tp,
                  kind.fsdpDim < 0 ? 0
                  : expert         ? at.efsdp
                                   : at.fsdp};
      auto &[isHeld, ranges] = pieces[piece];
      isHeld = true;
      any[piece] = at;
      if (isCut)
        ranges.push_back(held.owned(at, number));
    }
    int64_t whole = 0, cut = 0; // elements that are left
    for (const auto &[piece, kept] : pieces) {
      const Shard &shard = held.shard(any[piece], number);
      int64_t real = sharedElements(kind, shard, shard);
      whole += real;
      cut += isCut ? covered(kept.second, real) : real;
    }
    int64_t all = 1;
    for (int64_t size : kind.shape)
      all *= size;
    return (all - whole) * kind.wholeBytes + (all - cut) * kind.cutBytes;
  }
  /// Size of the union of ranges below `end`.
  static int64_t covered(std::vector<Interval> ranges, int64_t end) {
    std::sort(ranges.begin(), ranges.end());
    int64_t size = 0, at = 0;
    for (Interval range : ranges) {
      Interval fresh = intersect(range, {at, end});
      size += fresh.size();
      at = std::max(at, fresh.empty() ? at : fresh.hi);
    }
    return size;
  }

  const ModelShape &model;
  HeldState held;
  std::set<Coordinates, Order> left;
  bool anyLost = false;
};

} // namespace

bool fitsModel(const ModelShape &model, const Sizes &sizes,
               int64_t vocabMultiple, std::string &error) {
  if (model.heads % sizes.tp != 0)
    error = std::to_string(model.heads) + " heads do not divide by tp " +
            std::to_string(sizes.tp);
  else if (model.groups % sizes.tp != 0 && sizes.tp % model.groups != 0)
    error = std::to_string(model.groups) + " key-value heads do not fit tp " +
            std::to_string(sizes.tp);
  else if (model.experts % sizes.ep != 0 ||
           (model.experts == 0 && sizes.ep > 1))
    error = std::to_string(model.experts) + " experts do not divide by ep " +
            std::to_string(sizes.ep);
  else if ((sizes.world / sizes.pp) % (sizes.etp * sizes.ep) != 0)
    error = "etp x ep does not divide the ranks of a stage";
  else if (sizes.fsdp > 1 &&
           sizes.tp * sizes.cp * sizes.fsdp % (sizes.etp * sizes.ep) != 0)
    error = "etp x ep does not divide tp x cp x fsdp";
  for (const TensorClass &kind : model.classes) {
    if (!error.empty())
      break;
    bool expert = kind.isExpert && (sizes.ep > 1 || sizes.etp != sizes.tp);
    int64_t ways = expert ? sizes.etp : sizes.tp;
    if (localElements(kind, ways, sizes.tp, 1, vocabMultiple) == 0)
      error = "a tensor's dim " + std::to_string(kind.tpDim) +
              " does not divide by " + (expert ? "etp " : "tp ") +
              std::to_string(ways);
  }
  return error.empty();
}

std::vector<RankBytes> rankBytes(const ModelShape &model, const Sizes &sizes,
                                 int64_t vocabMultiple) {
  HeldState held(model, sizes, vocabMultiple);
  std::vector<RankBytes> out(sizes.world);
  for (int64_t rank = 0; rank < sizes.world; ++rank) {
    Coordinates at = held.grid().coordinates(rank);
    RankBytes &bytes = out[rank];
    for (int32_t tensor : held.tensorsOf(at.stage, at.ep)) {
      const TensorClass &kind = model.classes[model.tensors[tensor].kind];
      int64_t elements = held.elements(at, tensor);
      int64_t cut =
          held.isCut(tensor) ? held.owned(at, tensor).size() : elements;
      bytes.state += elements * kind.wholeBytes + cut * kind.cutBytes;
      bytes.parameters += elements;
      bytes.stepped += cut;
    }
  }
  return out;
}

std::vector<RankBytes> stageBytes(const ModelShape &model, const Sizes &sizes,
                                  int64_t vocabMultiple) {
  HeldState held(model, sizes, vocabMultiple);
  const Grid &grid = held.grid();
  std::vector<RankBytes> stages;
  for (int64_t stage = 0; stage < sizes.pp; ++stage) {
    // The first rank has the largest piece of what is not cut by ZeRO.
    RankBytes whole;
    Coordinates at = grid.coordinates(stage * grid.perStage);
    for (int32_t tensor : held.tensorsOf(stage, 0)) {
      const TensorClass &kind = model.classes[model.tensors[tensor].kind];
      int64_t elements = held.elements(at, tensor);
      bool isCut = held.isCut(tensor);
      whole.state += elements * (kind.wholeBytes + (isCut ? 0 : kind.cutBytes));
      whole.parameters += elements;
      whole.stepped += isCut ? 0 : elements;
    }
    ZeroShares shares = held.zeroShares(stage);
    RankBytes most = whole;
    for (int64_t rank = 0; rank < grid.perStage; ++rank) {
      at = grid.coordinates(stage * grid.perStage + rank);
      RankBytes dense, expert;
      if (at.zero < int64_t(shares.dense.size()))
        dense = shares.dense[at.zero];
      if (at.ezero < int64_t(shares.expert.size()))
        expert = shares.expert[at.ezero];
      most.state =
          std::max(most.state, whole.state + dense.state + expert.state);
      most.stepped = std::max(most.stepped,
                              whole.stepped + dense.stepped + expert.stepped);
    }
    stages.push_back(most);
  }
  return stages;
}

Arrivals arrivals(const Job &job, const Sizes &before, const Sizes &after) {
  return Change(job, before, after).run();
}

struct StayingBytes::Impl : Pairs {
  using Pairs::Pairs;
};

StayingBytes::StayingBytes(const Job &job, const Sizes &after)
    : impl(std::make_unique<Impl>(job, job.today, after)) {}

StayingBytes::~StayingBytes() = default;

int64_t StayingBytes::onDevice(int64_t rank, int64_t device) {
  auto it = impl->source.rankOf.find(device);
  if (it == impl->source.rankOf.end())
    return 0;
  const ModelShape &model = impl->job.model;
  Coordinates from = impl->source.held.grid().coordinates(it->second);
  Coordinates to = impl->destination.held.grid().coordinates(rank);
  int64_t bytes = 0;
  for (int32_t tensor : impl->destination.held.tensorsOf(to.stage, to.ep)) {
    const TensorClass &kind = model.classes[model.tensors[tensor].kind];
    if (!impl->source.held.holds(from, tensor))
      continue;
    if (kind.wholeBytes > 0)
      bytes += kind.wholeBytes *
               impl->shared(from, to, tensor, /*isCutState=*/false);
    if (kind.cutBytes > 0)
      bytes +=
          kind.cutBytes * impl->shared(from, to, tensor, /*isCutState=*/true);
  }
  return bytes;
}

int64_t lostBytes(const Job &job, const Sizes &before) {
  return Losses(job, before).bytes();
}

} // namespace dt::advise
