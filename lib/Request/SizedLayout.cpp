//===- SizedLayout.cpp - Placements by parallel sizes ---------------------===//
//
// Per tensor: TP cuts its dim (block by block when it is packed), FSDP then
// cuts what is left, and the tensor is restricted to the pipeline stages and
// the expert coordinate that own it. CP and DP replicate. Under ZeRO-1 the
// states besides param and grad are marked for the buckets.
//
//===----------------------------------------------------------------------===//

#include "SizedLayout.h"
#include "ParallelSizes.h"
#include "dt/Megatron/Stages.h"

#include <algorithm>

namespace dt::request {

namespace {

int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

class SizedLayout {
public:
  SizedLayout(const ParallelSizes &sizes, bool hasExpertMesh,
              const Model &model, const std::string &path)
      : sizes(sizes), hasExpertMesh(hasExpertMesh), path(path),
        stages(buildStages({sizes.pp, sizes.vpp, sizes.ppLayers}, model.layers,
                           path)) {
    expertsPerRank = model.experts / sizes.ep;
    if (model.experts % sizes.ep != 0)
      fail(path + ": " + std::to_string(model.experts) +
           " experts do not divide by ep " + std::to_string(sizes.ep));
  }

  PlaceDecl place(const ModelTensor &tensor) const;

private:
  void cutByTp(const ModelTensor &tensor, const char *axis, int64_t ways,
               Placement &placement) const;
  void cutByExperts(const ModelTensor &tensor, Placement &placement) const;
  void restrictToStages(const ModelTensor &tensor, PlaceDecl &place) const;

  const ParallelSizes &sizes;
  bool hasExpertMesh;
  const std::string &path;
  StageTable stages;
  int64_t expertsPerRank = 0;
};

void SizedLayout::cutByTp(const ModelTensor &tensor, const char *axis,
                          int64_t ways, Placement &placement) const {
  int64_t dim = *tensor.cut.tpDim;
  int64_t extent = placement.dims[dim].extent ? placement.dims[dim].extent
                                              : tensor.shape[dim];
  std::vector<int64_t> parts = tensor.cut.blocks;
  if (parts.empty())
    parts.push_back(extent);
  for (size_t i = 0; i < parts.size(); ++i) {
    int64_t times = tensor.cut.replicas.empty() ? 1 : tensor.cut.replicas[i];
    if (ways % times != 0)
      fail(path + ": tensor " + inQuotes(tensor.name) + " has " +
           std::to_string(times) +
           " replicas of a block, which do not divide " + axis + " " +
           std::to_string(ways));
    if (parts[i] % (ways / times) != 0)
      fail(path + ": tensor " + inQuotes(tensor.name) + " has " +
           std::to_string(parts[i]) + " in " +
           (tensor.cut.blocks.empty() ? "" : "a block of ") + "dim " +
           std::to_string(dim) + ", which does not divide by " + axis + " " +
           std::to_string(ways / times));
  }
  Split split;
  split.axis = axis;
  split.blocks = tensor.cut.blocks;
  split.replicas = tensor.cut.replicas;
  if (ways > 1)
    placement.dims[dim].splits.push_back(std::move(split));
}

/// A tensor of one expert has one coordinate, one of all is cut.
void SizedLayout::cutByExperts(const ModelTensor &tensor,
                               Placement &placement) const {
  if (!tensor.cut.expertDim) {
    placement.at.push_back({"ep", {tensor.expert / expertsPerRank}});
    return;
  }
  int64_t dim = *tensor.cut.expertDim;
  if (tensor.shape[dim] % sizes.ep != 0)
    fail(path + ": tensor " + inQuotes(tensor.name) + " has " +
         std::to_string(tensor.shape[dim]) + " experts in dim " +
         std::to_string(dim) + ", which do not divide by ep " +
         std::to_string(sizes.ep));
  Split split;
  split.axis = "ep";
  placement.dims[dim].splits.push_back(std::move(split));
}

void SizedLayout::restrictToStages(const ModelTensor &tensor,
                                   PlaceDecl &place) const {
  int64_t last = sizes.pp - 1;
  int64_t lastChunk = sizes.vpp - 1;
  std::vector<int64_t> coordinates;
  switch (tensor.stage) {
  case Stage::Layer:
    coordinates = {stages.stageOf[tensor.layer]};
    place.chunks = {stages.chunkOf[tensor.layer]};
    break;
  case Stage::First:
    coordinates = {0};
    place.chunks = {0};
    break;
  case Stage::Last:
    coordinates = {last};
    place.chunks = {lastChunk};
    break;
  case Stage::FirstAndLast:
    coordinates = {0, last};
    place.chunks = {0, lastChunk};
    place.ownBucket = sizes.pp > 1;
    break;
  case Stage::Every:
    return;
  }
  if (sizes.pp > 1)
    place.placement.at.push_back({"pp", coordinates});
  else
    place.chunks.resize(1);
}

PlaceDecl SizedLayout::place(const ModelTensor &tensor) const {
  bool onExpertGrid = tensor.cut.expert && hasExpertMesh;
  PlaceDecl place;
  place.mesh = onExpertGrid ? 1 : 0;
  Placement &placement = place.placement;
  placement.dims.resize(tensor.shape.size());
  if (tensor.cut.vocab)
    placement.dims[0].extent =
        roundUp(tensor.shape[0], sizes.vocabMultiple * sizes.tp);
  if (tensor.cut.tpDim)
    cutByTp(tensor, onExpertGrid ? "etp" : "tp",
            onExpertGrid ? sizes.etp : sizes.tp, placement);
  if (onExpertGrid && sizes.ep > 1)
    cutByExperts(tensor, placement);
  int64_t shards = onExpertGrid ? sizes.efsdp : sizes.fsdp;
  if (tensor.cut.fsdpDim && shards > 1) {
    Split split;
    split.axis = onExpertGrid ? "efsdp" : "fsdp";
    split.chunk = true;
    placement.dims[*tensor.cut.fsdpDim].splits.push_back(std::move(split));
  }
  restrictToStages(tensor, place);
  return place;
}

ZeroDecl zeroOver(const ParallelSizes &sizes,
                  const std::vector<NamedMesh> &meshes) {
  ZeroDecl zero;
  zero.bucketSize = sizes.bucketSize;
  for (const NamedMesh &named : meshes) {
    zero.axes.emplace_back();
    for (const MeshAxis &axis : named.mesh.axes)
      if (axis.name == "dp" || axis.name == "cp" || axis.name == "edp")
        zero.axes.back().push_back(axis.name);
  }
  return zero;
}

LayoutSizes namedSizes(const ParallelSizes &sizes) {
  LayoutSizes out;
  out.sizes = {{"tp", sizes.tp},     {"cp", sizes.cp},
               {"ep", sizes.ep},     {"etp", sizes.etp},
               {"fsdp", sizes.fsdp}, {"dp", sizes.dp},
               {"pp", sizes.pp},     {"vpp", sizes.vpp},
               {"zero", sizes.zero}, {"vocab_multiple", sizes.vocabMultiple}};
  if (sizes.zero)
    out.sizes.push_back({"bucket_size", sizes.bucketSize});
  for (auto axis = sizes.order.begin(); axis != sizes.order.end(); ++axis)
    out.order += (axis == sizes.order.begin() ? "" : "-") + *axis;
  out.ppLayers = sizes.ppLayers;
  return out;
}

/// Adds a tensor's place: one for all states, or two when the buckets cut some
/// of them.
void addPlaces(PlaceDecl place, const TensorDecl &tensor,
               const std::optional<ZeroDecl> &zero, LayoutDecl &layout) {
  bool hasBuckets = zero && !zero->axes[place.mesh].empty();
  std::vector<std::string> whole, cut;
  for (const StateDecl &state : tensor.states) {
    bool isWhole = state.name == "param" || state.name == "grad";
    (isWhole || !hasBuckets ? whole : cut).push_back(state.name);
  }
  if (cut.empty()) {
    layout.places.push_back(std::move(place)); // of all
    return;
  }
  PlaceDecl bucketed = place;
  bucketed.bucketed = true;
  bucketed.states = std::move(cut);
  place.states = std::move(whole);
  if (!place.states.empty())
    layout.places.push_back(std::move(place));
  layout.places.push_back(std::move(bucketed));
}

} // namespace

LayoutDecl layoutFromSizes(const Json &json, const std::string &path,
                           const Model &model,
                           const std::vector<TensorDecl> &tensors,
                           int64_t vocabMultiple) {
  ParallelSizes sizes = readParallelSizes(json, path, vocabMultiple);
  LayoutDecl layout;
  layout.world = sizes.world;
  layout.sizes = namedSizes(sizes);
  layout.devices = readDevices(json, path, sizes.world);
  bool hasExperts = model.experts > 0;
  layout.grids = buildGrids(sizes, layout.devices, hasExperts, path);
  layout.meshes = buildMeshes(sizes, layout.grids, hasExperts, path);
  if (sizes.zero)
    layout.zero = zeroOver(sizes, layout.meshes);
  SizedLayout sized(sizes, /*hasExpertMesh=*/layout.meshes.size() > 1, model,
                    path);
  layout.places.reserve((layout.zero ? 2 : 1) * tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].states.empty())
      continue; // the side is without it
    PlaceDecl place = sized.place(model.tensors[i]);
    place.tensor = i;
    addPlaces(std::move(place), tensors[i], layout.zero, layout);
  }
  return layout;
}

} // namespace dt::request
