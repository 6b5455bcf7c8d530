//===- HeldState.cpp - Which part of a tensor a rank holds ----------------===//

#include "HeldState.h"

#include "dt/Geometry/Placement.h"

#include <algorithm>

namespace dt::advise {

using megatron::Stage;

namespace {

bool isWhole(const TensorClass &kind, int64_t ways) {
  if (kind.tpDim < 0 || kind.blocks.empty())
    return true;
  return std::all_of(kind.blocks.begin(), kind.blocks.end(),
                     [&](int64_t block) { return block % ways == 0; });
}

} // namespace

int64_t paddedVocabulary(int64_t vocab, int64_t multiple, int64_t tp) {
  int64_t unit = multiple * tp;
  return (vocab + unit - 1) / unit * unit;
}

int64_t localElements(const TensorClass &kind, int64_t tp, int64_t denseTp,
                      int64_t fsdp, int64_t vocabMultiple) {
  int64_t elements = 1;
  for (size_t dim = 0; dim < kind.shape.size(); ++dim) {
    int64_t extent = kind.shape[dim];
    if (dim == 0 && kind.isVocab)
      extent = paddedVocabulary(extent, vocabMultiple, denseTp);
    if (int(dim) == kind.tpDim) {
      if (extent % tp != 0 || !isWhole(kind, tp))
        return 0;
      extent /= tp;
    }
    if (int(dim) == kind.fsdpDim)
      extent = (extent + fsdp - 1) / fsdp;
    elements *= extent;
  }
  return elements;
}

Grid::Grid(const ModelShape &model, const Sizes &in) : sizes(in) {
  perStage = sizes.world / sizes.pp;
  hasExpertGrid = model.experts > 0 && (sizes.ep > 1 || sizes.etp != sizes.tp);
  if (sizes.fsdp > 1)
    efsdp = sizes.tp * sizes.cp * sizes.fsdp / (sizes.etp * sizes.ep);
  if (sizes.zero) {
    zeroRanks = sizes.dp * sizes.cp;
    expertZeroRanks =
        hasExpertGrid ? perStage / (sizes.etp * sizes.ep) : zeroRanks;
  }
  expertsPerRank = model.experts / sizes.ep;
  for (size_t block = 0; block < sizes.blocks.size(); ++block)
    for (int64_t i = 0; i < sizes.blocks[block]; ++i) {
      stageOf.push_back(int32_t(block % sizes.pp));
      chunkOf.push_back(int32_t(block / sizes.pp));
    }
}

Coordinates Grid::coordinates(int64_t rank) const {
  Coordinates at;
  at.stage = rank / perStage;
  int64_t inStage = rank % perStage;
  at.tp = inStage % sizes.tp;
  int64_t rest = inStage / sizes.tp;
  int64_t cp = rest % sizes.cp;
  rest /= sizes.cp;
  at.fsdp = rest % sizes.fsdp;
  at.zero = rest / sizes.fsdp * sizes.cp + cp;
  at.etp = inStage % sizes.etp;
  rest = inStage / sizes.etp;
  at.ep = rest % sizes.ep;
  rest /= sizes.ep;
  at.efsdp = rest % efsdp;
  at.ezero = rest / efsdp;
  return at;
}

HeldState::HeldState(const ModelShape &model, const Sizes &sizes,
                     int64_t vocabMultiple)
    : model(model), gridOf(model, sizes), vocabMultiple(vocabMultiple) {}

int64_t HeldState::chunkOf(int64_t stage, const ShapeTensor &tensor) const {
  int64_t last = gridOf.sizes.pp > 1 ? gridOf.sizes.vpp - 1 : 0;
  switch (tensor.stage) {
  case Stage::Layer:
    return gridOf.sizes.pp > 1 ? gridOf.chunkOf[tensor.layer] : 0;
  case Stage::First:
  case Stage::Every:
    return 0;
  case Stage::Last:
    return last;
  case Stage::FirstAndLast:
    return stage == 0 ? 0 : last;
  }
  return 0;
}

bool HeldState::holds(const Coordinates &at, int32_t number) const {
  const ShapeTensor &tensor = model.tensors[number];
  if (gridOf.sizes.ep > 1 && model.classes[tensor.kind].isExpert &&
      tensor.expert / gridOf.expertsPerRank != at.ep)
    return false;
  bool isFirst = at.stage == 0, isLast = at.stage + 1 == gridOf.sizes.pp;
  switch (tensor.stage) {
  case Stage::Layer:
    return gridOf.stageOf[tensor.layer] == at.stage;
  case Stage::First:
    return isFirst;
  case Stage::Last:
    return isLast;
  case Stage::FirstAndLast:
    return isFirst || isLast;
  case Stage::Every:
    return true;
  }
  return false;
}

const std::vector<int32_t> &HeldState::tensorsOf(int64_t stage, int64_t ep) {
  auto [it, isNew] = tensorLists.try_emplace({stage, ep});
  if (!isNew)
    return it->second;
  Coordinates at;
  at.stage = stage;
  at.ep = ep;
  for (size_t i = 0; i < model.tensors.size(); ++i)
    if (holds(at, int32_t(i)))
      it->second.push_back(int32_t(i));
  std::stable_sort(it->second.begin(), it->second.end(),
                   [&](int32_t a, int32_t b) {
                     return chunkOf(stage, model.tensors[a]) <
                            chunkOf(stage, model.tensors[b]);
                   });
  return it->second;
}

bool HeldState::isCut(int32_t number) const {
  const TensorClass &kind = model.classes[model.tensors[number].kind];
  return kind.cutBytes > 0 &&
         (onExpertGrid(kind) ? gridOf.expertZeroRanks : gridOf.zeroRanks) > 1;
}

void HeldState::layOut(int64_t stage, int64_t ep, int64_t chunk, bool expert,
                       Buffers &out) {
  std::vector<BucketParam> params;
  int32_t layout = int32_t(out.layouts.size());
  Coordinates at;
  at.stage = stage;
  at.ep = ep;
  for (int32_t number : tensorsOf(stage, ep)) {
    const ShapeTensor &tensor = model.tensors[number];
    const TensorClass &kind = model.classes[tensor.kind];
    if (kind.cutBytes == 0 || onExpertGrid(kind) != expert ||
        chunkOf(stage, tensor) != chunk)
      continue;
    out.place[number] = {layout, int32_t(params.size())};
    bool ownBucket = tensor.stage == Stage::FirstAndLast && gridOf.sizes.pp > 1;
    params.push_back({elements(at, number), ownBucket});
  }
  const Sizes &sizes = gridOf.sizes;
  int64_t bucket =
      sizes.bucketSize ? sizes.bucketSize : defaultBucketSize(sizes.dp);
  out.layouts.push_back(
      layOutBuckets(params, expert ? gridOf.expertZeroRanks : gridOf.zeroRanks,
                    stage == 0 && chunk == 0 ? bucket : kOneBucket));
}

HeldState::Buffers &HeldState::buffersOf(int64_t stage, int64_t ep) {
  // Sizes do not depend on the expert coordinate, numbers do.
  if (lastKey == std::make_pair(stage, ep))
    return *last;
  auto [it, isNew] = buffers.try_emplace({stage, ep});
  lastKey = {stage, ep};
  last = &it->second;
  if (isNew) {
    int64_t chunks = gridOf.sizes.pp > 1 ? gridOf.sizes.vpp : 1;
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      for (bool expert : {false, true})
        if (!expert || gridOf.hasExpertGrid)
          layOut(stage, ep, chunk, expert, it->second);
  }
  return it->second;
}

Interval HeldState::owned(const Coordinates &at, int32_t tensor) {
  Buffers &buffer = buffersOf(at.stage, at.ep);
  auto [layout, position] = buffer.place.at(tensor);
  bool expert = onExpertGrid(model.classes[model.tensors[tensor].kind]);
  return buffer.layouts[layout].ownedRange(position,
                                           expert ? at.ezero : at.zero);
}

ZeroShares HeldState::zeroShares(int64_t stage) {
  Buffers &buffer = buffersOf(stage, 0);
  ZeroShares out;
  out.dense.resize(gridOf.zeroRanks);
  out.expert.resize(gridOf.expertZeroRanks);
  for (const auto &[tensor, place] : buffer.place) {
    if (!isCut(tensor))
      continue;
    const TensorClass &kind = model.classes[model.tensors[tensor].kind];
    const BucketLayout &layout = buffer.layouts[place.first];
    std::vector<RankBytes> &shares =
        onExpertGrid(kind) ? out.expert : out.dense;
    Interval owners = layout.owners(place.second);
    for (int64_t rank = owners.lo; rank < owners.hi; ++rank) {
      int64_t size = layout.ownedRange(place.second, rank).size();
      shares[rank].state += size * kind.cutBytes;
      shares[rank].stepped += size;
    }
  }
  return out;
}

const Shard &HeldState::shard(const Coordinates &at, int32_t number) {
  const TensorClass &kind = model.classes[model.tensors[number].kind];
  bool expert = onExpertGrid(kind);
  int64_t tpAt = expert ? at.etp : at.tp, fsdpAt = expert ? at.efsdp : at.fsdp;
  int64_t ways = expert ? gridOf.sizes.etp : gridOf.sizes.tp;
  int64_t chunks = expert ? gridOf.efsdp : gridOf.sizes.fsdp;
  auto [it, isNew] = shards.try_emplace(
      std::make_tuple(model.tensors[number].kind, tpAt, fsdpAt));
  if (!isNew)
    return it->second;
  Shard &shard = it->second;
  for (size_t dim = 0; dim < kind.shape.size(); ++dim) {
    DimPlacement placement;
    std::vector<int64_t> axisSizes, coordinates;
    if (dim == 0 && kind.isVocab)
      placement.extent =
          paddedVocabulary(kind.shape[0], vocabMultiple, gridOf.sizes.tp);
    if (int(dim) == kind.tpDim && ways > 1) {
      Split split;
      split.axis = "tp";
      split.blocks = kind.blocks;
      placement.splits.push_back(std::move(split));
      axisSizes.push_back(ways);
      coordinates.push_back(tpAt);
    }
    if (int(dim) == kind.fsdpDim && chunks > 1) {
      Split split;
      split.axis = "fsdp";
      split.chunk = true;
      placement.splits.push_back(std::move(split));
      axisSizes.push_back(chunks);
      coordinates.push_back(fsdpAt);
    }
    std::string error;
    auto intervals =
        evaluateDim(placement, kind.shape[dim], axisSizes, coordinates, error);
    // fitsModel has said that the sizes cut this class.
    shard.dims.push_back(intervals ? *intervals : std::vector<Interval>());
  }
  return shard;
}

int64_t HeldState::elements(const Coordinates &at, int32_t number) {
  return shard(at, number).elementsPerMember();
}

} // namespace dt::advise
