//===- OptimizerShards.cpp - ZeRO-1 shards of a whole layout --------------===//

#include "dt/Megatron/OptimizerShards.h"

#include "dt/Geometry/Limits.h"
#include "dt/Megatron/Buckets.h"

#include <algorithm>
#include <map>
#include <unordered_map>

using namespace dt;

namespace {

/// One tensor in one rank's buffers.
struct LocalTensor {
  int64_t order = 0;
  int64_t chunk = 0;
  size_t param = 0;
  const Shard *shard = nullptr;
  std::vector<int64_t> member; // one index per leading dim, in the param
  int64_t size = 0;
};

/// Ranks of one mesh that agree on all but the bucket axes, in bucket order.
struct Group {
  std::vector<int64_t> ranks;
};

class Evaluator {
public:
  Evaluator(const std::vector<BucketedParam> &params, int64_t bucketSize)
      : params(params), bucketSize(bucketSize), out(params.size()) {}

  bool findHoldings(size_t &culprit, std::string &error);
  /// False when the buckets have more elements, or cut more shards, than the
  /// limit.
  bool run(std::string &error);
  std::vector<std::vector<Holding>> take() { return std::move(out); }

private:
  void runBuffer(const std::vector<size_t> &members);
  std::vector<Group> groupsOf(const BucketedParam &param) const;
  void addTensors(size_t param, int64_t rank,
                  std::vector<LocalTensor> &tensors) const;
  int64_t chunkOf(const BucketedParam &param,
                  const std::vector<int64_t> &member, int64_t rank) const;
  int64_t bucketSizeOf(int64_t chunk, const Mesh &mesh,
                       const Group &group) const;
  void layOut(const std::vector<LocalTensor> &tensors, const Group &group);
  bool extendLast(const LocalTensor &tensor, int64_t device);
  void own(const LocalTensor &tensor, Interval range, int64_t device);

  void findChunks();
  bool isDone() const { return isTooLarge || shards.isExceeded(); }

  const std::vector<BucketedParam> &params;
  int64_t bucketSize;
  WorkLimit shards{kMaxRegions};
  bool isTooLarge = false; // a buffer
  /// Per param and restriction, the model chunk of each coordinate; 0 where
  /// the restriction does not say.
  std::vector<std::vector<std::vector<int64_t>>> chunks;
  std::vector<std::vector<Holding>> whole; // before ZeRO cuts
  std::vector<std::unordered_map<int64_t, const Shard *>> shardOf;
  std::vector<std::vector<Holding>> out;
};

bool Evaluator::findHoldings(size_t &culprit, std::string &error) {
  shardOf.resize(params.size());
  for (size_t i = 0; i < params.size(); ++i) {
    auto holdings = evaluate(params[i].placement, *params[i].mesh,
                             params[i].shape, params[i].numLeading, error);
    if (!holdings) {
      culprit = i;
      return false;
    }
    whole.push_back(std::move(*holdings));
  }
  for (size_t i = 0; i < params.size(); ++i)
    for (const Holding &holding : whole[i])
      for (int64_t device : holding.devices)
        shardOf[i][device] = &holding.shard;
  return true;
}

/// Sorts the ranks of the param's mesh into groups; inside a group they are
/// ordered by the bucket axes, the last named fastest.
std::vector<Group> Evaluator::groupsOf(const BucketedParam &param) const {
  const Mesh &mesh = *param.mesh;
  std::map<std::vector<int64_t>, std::map<std::vector<int64_t>, int64_t>>
      sorted;
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
    std::vector<int64_t> fixed, bucket;
    for (const MeshAxis &axis : mesh.axes)
      if (std::find(param.axes.begin(), param.axes.end(), axis.name) ==
          param.axes.end())
        fixed.push_back(mesh.coordinate(rank, axis.name));
    for (const std::string &axis : param.axes)
      bucket.push_back(mesh.coordinate(rank, axis));
    sorted[fixed][bucket] = rank;
  }
  std::vector<Group> groups;
  for (const auto &[fixed, ranks] : sorted) {
    groups.emplace_back();
    for (const auto &[bucket, rank] : ranks)
      groups.back().ranks.push_back(rank);
  }
  return groups;
}

void Evaluator::findChunks() {
  for (const BucketedParam &param : params) {
    auto &own = chunks.emplace_back();
    for (const AxisRestriction &at : param.placement.at) {
      int64_t size = param.mesh->axisSize(at.axis);
      std::vector<int64_t> &chunkOf = own.emplace_back(size, 0);
      for (int64_t coordinate : at.coordinates)
        if (int64_t &chunk = chunkOf[coordinate % size]; chunk == 0)
          chunk = coordinate / size;
    }
  }
}

/// The model chunk of a member: owners and restricted coordinates count on
/// beyond the axis, once around per chunk.
int64_t Evaluator::chunkOf(const BucketedParam &param,
                           const std::vector<int64_t> &member,
                           int64_t rank) const {
  const auto &restricted = chunks[&param - params.data()];
  for (size_t i = 0; i < restricted.size(); ++i)
    if (int64_t chunk = restricted[i][param.mesh->coordinate(
            rank, param.placement.at[i].axis)])
      return chunk;
  size_t placed = param.placement.dims.size();
  for (unsigned d = 0; d < param.numLeading && d < placed; ++d)
    for (const Split &split : param.placement.dims[d].splits) {
      if (split.owners.empty())
        continue;
      size_t piece = member[d] * split.owners.size() / param.shape[d];
      if (!split.cuts.empty())
        piece = std::upper_bound(split.cuts.begin() + 1, split.cuts.end() - 1,
                                 member[d]) -
                split.cuts.begin() - 1;
      if (int64_t chunk =
              split.owners[piece] / param.mesh->axisSize(split.axis))
        return chunk;
    }
  return 0;
}

void Evaluator::addTensors(size_t index, int64_t rank,
                           std::vector<LocalTensor> &tensors) const {
  const BucketedParam &param = params[index];
  auto it = shardOf[index].find(param.mesh->device(rank));
  if (it == shardOf[index].end())
    return;
  LocalTensor tensor;
  tensor.param = index;
  tensor.shard = it->second;
  tensor.size = it->second->elementsPerMember();
  tensor.member.resize(param.numLeading);
  auto visit = [&](auto &&self, unsigned dim) -> void {
    if (dim == param.numLeading) {
      tensor.order = param.orderBase;
      for (unsigned d = 0; d < param.numLeading; ++d)
        tensor.order += param.orderOffsets[d].at(tensor.member[d]);
      tensor.chunk = chunkOf(param, tensor.member, rank);
      tensors.push_back(tensor);
      return;
    }
    for (Interval interval : tensor.shard->dims[dim])
      for (int64_t i = interval.lo; i < interval.hi; ++i) {
        tensor.member[dim] = i;
        self(self, dim + 1);
      }
  };
  visit(visit, 0);
}

/// Where a whole tensor continues the last shard along the last leading dim,
/// extends it, so that one shard covers a run of layers or experts.
bool Evaluator::extendLast(const LocalTensor &tensor, int64_t device) {
  std::vector<Holding> &holdings = out[tensor.param];
  unsigned leading = tensor.shard->numLeading;
  if (leading == 0 || holdings.empty() ||
      holdings.back().devices.front() != device || holdings.back().shard.range)
    return false;
  // Along leading dims it has one interval, here of one member but in the last.
  std::vector<std::vector<Interval>> &dims = holdings.back().shard.dims;
  for (unsigned d = 0; d + 1 < leading; ++d)
    if (dims[d].front().lo != tensor.member[d])
      return false;
  Interval &run = dims[leading - 1].front();
  if (run.hi != tensor.member[leading - 1])
    return false;
  ++run.hi;
  return true;
}

/// Gives a device a range of a tensor.
void Evaluator::own(const LocalTensor &tensor, Interval range, int64_t device) {
  bool isWhole = range.size() == tensor.size;
  if ((isWhole && extendLast(tensor, device)) || !shards.take())
    return;
  Holding &holding = out[tensor.param].emplace_back();
  holding.devices = {device};
  holding.shard = *tensor.shard;
  for (unsigned d = 0; d < holding.shard.numLeading; ++d)
    holding.shard.dims[d] = {{tensor.member[d], tensor.member[d] + 1}};
  if (!isWhole)
    holding.shard.range = range;
}

/// Only the first chunk of the first pipeline stage is cut into buckets: that
/// is where gradients come last and their communication can be hidden. All
/// other buffers are one bucket, however large.
int64_t Evaluator::bucketSizeOf(int64_t chunk, const Mesh &mesh,
                                const Group &group) const {
  int64_t stage = mesh.coordinate(group.ranks.front(), kPipelineAxis);
  return stage == 0 && chunk == 0 ? bucketSize : kOneBucket;
}

/// `tensors`: one buffer of one group, in registration order.
void Evaluator::layOut(const std::vector<LocalTensor> &tensors,
                       const Group &group) {
  std::vector<BucketParam> sizes;
  int64_t elements = 0;
  for (const LocalTensor &tensor : tensors) {
    sizes.push_back({tensor.size, params[tensor.param].sharedEmbedding});
    if (tensor.size > kMaxBytes - elements) {
      isTooLarge = true;
      return;
    }
    elements += tensor.size;
  }
  int64_t numRanks = group.ranks.size();
  const Mesh &mesh = *params[tensors.front().param].mesh;
  BucketLayout layout = layOutBuckets(
      sizes, numRanks, bucketSizeOf(tensors.front().chunk, mesh, group));
  for (size_t i = 0; i < tensors.size(); ++i) {
    Interval owners = layout.owners(i);
    for (int64_t rank = owners.lo; rank < owners.hi; ++rank) {
      Interval range = layout.ownedRange(i, rank);
      if (!range.empty())
        own(tensors[i], range, mesh.device(group.ranks[rank]));
    }
  }
}

void Evaluator::runBuffer(const std::vector<size_t> &members) {
  for (const Group &group : groupsOf(params[members.front()])) {
    // All ranks of a group hold the same local tensors.
    std::vector<LocalTensor> tensors;
    for (size_t param : members)
      addTensors(param, group.ranks.front(), tensors);
    std::stable_sort(tensors.begin(), tensors.end(),
                     [](const LocalTensor &a, const LocalTensor &b) {
                       return std::make_pair(a.chunk, a.order) <
                              std::make_pair(b.chunk, b.order);
                     });
    for (size_t i = 0; i < tensors.size() && !isDone();) {
      size_t end = i;
      while (end < tensors.size() && tensors[end].chunk == tensors[i].chunk)
        ++end;
      layOut({tensors.begin() + i, tensors.begin() + end}, group);
      i = end;
    }
  }
}

bool Evaluator::run(std::string &error) {
  findChunks();
  std::map<uint32_t, std::vector<size_t>> buffers;
  for (size_t i = 0; i < params.size(); ++i)
    buffers[params[i].buffer].push_back(i);
  for (const auto &[buffer, members] : buffers)
    runBuffer(members);
  if (isTooLarge)
    error = "shares a ZeRO buffer of more elements than the limit of " +
            std::to_string(kMaxBytes);
  else if (shards.isExceeded())
    error = "is cut by ZeRO buckets into more shards than the limit of " +
            std::to_string(kMaxRegions) + ", all params together";
  return !isDone();
}

} // namespace

std::optional<std::vector<std::vector<Holding>>>
dt::evaluateBucketed(const std::vector<BucketedParam> &params,
                     int64_t bucketSize, size_t &culprit, std::string &error) {
  Evaluator evaluator(params, bucketSize);
  if (!evaluator.findHoldings(culprit, error))
    return std::nullopt;
  if (!evaluator.run(error))
    return std::nullopt;
  return evaluator.take();
}
