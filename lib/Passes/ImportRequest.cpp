//===- ImportRequest.cpp - A request as layout-level IR -------------------===//

#include "dt/Passes/ImportRequest.h"

#include "dt/Dialect/Ops.h"
#include "mlir/IR/Builders.h"

#include <map>

using namespace mlir;

namespace dt {

namespace {

class Importer {
public:
  Importer(const Request &request, StringRef file, MLIRContext *context)
      : request(request), file(StringAttr::get(context, file)),
        builder(context) {}

  OwningOpRef<ModuleOp> run();

private:
  void importSpace();
  void importLayout(const LayoutDecl &layout, StringRef name);
  void importMeshes(const LayoutDecl &layout, StringRef prefix,
                    SmallVector<Attribute> &names);
  void importPlace(const LayoutDecl &layout, const PlaceDecl &place,
                   ArrayRef<Attribute> meshNames);
  TensorAttr tensorOf(const LayoutDecl &layout, const PlaceDecl &place);
  size_t rankOf(const LayoutDecl &layout, const PlaceDecl &place) const;
  void importTransition();
  StatesAttr statesOf(const TensorDecl &tensor);
  PlacementAttr placementOf(const LayoutDecl &layout, const PlaceDecl &place);
  Location locationOf(const JsonKey &key);

  const Request &request;
  StringAttr file;
  OpBuilder builder;
  SmallVector<FlatSymbolRefAttr> params; // as in the request
  // Tensors come by the ten thousand, one like the other but for its name.
  const PlaceDecl *lastPlace = nullptr;
  PlacementAttr lastPlacement;
  const JsonKey *lastKey = nullptr;
  LocationAttr lastLocation;
};

Location Importer::locationOf(const JsonKey &key) {
  if (!lastKey || !(key == *lastKey))
    lastLocation =
        NameLoc::get(builder.getStringAttr(key.path),
                     FileLineColLoc::get(file, key.line, key.column));
  lastKey = &key;
  return lastLocation;
}

StatesAttr Importer::statesOf(const TensorDecl &tensor) {
  SmallVector<StateEntry> entries;
  for (const StateDecl &state : tensor.states) {
    StateEntry entry;
    entry.name = builder.getStringAttr(state.name);
    entry.source = state.source;
    entry.destination = state.destination;
    if (!state.from.empty())
      entry.from = builder.getStringAttr(state.from);
    entries.push_back(entry);
  }
  return StatesAttr::get(builder.getContext(), entries);
}

void Importer::importSpace() {
  auto space = SpaceOp::create(builder, locationOf(request.model), "model");
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&space.getBody());
  for (const TensorDecl &tensor : request.tensors) {
    auto param = ParamOp::create(builder, locationOf(tensor.key), tensor.name,
                                 tensor.shape, statesOf(tensor));
    param.setPartial(tensor.partial);
    if (!tensor.storage.empty())
      param.setStorage(tensor.storage);
    params.push_back(FlatSymbolRefAttr::get(param.getSymNameAttr()));
  }
}

void Importer::importMeshes(const LayoutDecl &layout, StringRef prefix,
                            SmallVector<Attribute> &names) {
  for (const NamedMesh &named : layout.meshes) {
    std::string name = (prefix + "_" + named.name).str();
    MeshOp::create(builder, locationOf(layout.key), builder.getStringAttr(name),
                   MeshAttr::get(builder.getContext(), named.mesh));
    names.push_back(FlatSymbolRefAttr::get(builder.getContext(), name));
  }
}

/// A restricted coordinate counts on beyond its axis, once around per model
/// chunk: the number of the virtual stage.
Placement withChunks(const PlaceDecl &place, const Mesh &mesh) {
  Placement out = place.placement;
  for (AxisRestriction &at : out.at)
    if (at.axis == "pp" && place.chunks.size() == at.coordinates.size())
      for (size_t i = 0; i < at.coordinates.size(); ++i)
        at.coordinates[i] += place.chunks[i] * mesh.axisSize(at.axis);
  return out;
}

PlacementAttr Importer::placementOf(const LayoutDecl &layout,
                                    const PlaceDecl &place) {
  bool same = lastPlace && lastPlace->mesh == place.mesh &&
              lastPlace->chunks == place.chunks &&
              lastPlace->placement == place.placement;
  if (!same)
    lastPlacement =
        PlacementAttr::get(builder.getContext(),
                           withChunks(place, layout.meshes[place.mesh].mesh));
  lastPlace = &place;
  return lastPlacement;
}

/// The side's own tensor that is placed; null: the request's.
TensorAttr Importer::tensorOf(const LayoutDecl &layout,
                              const PlaceDecl &place) {
  if (!place.view)
    return {};
  const ViewDecl &own = layout.views[*place.view];
  return TensorAttr::get(builder.getContext(), builder.getStringAttr(own.name),
                         int64_t(*place.view), own.view);
}

/// Dims of what is placed.
size_t Importer::rankOf(const LayoutDecl &layout,
                        const PlaceDecl &place) const {
  if (place.view)
    return layout.views[*place.view].view.shape().size();
  return request.tensors[place.tensor].shape.size();
}

void Importer::importPlace(const LayoutDecl &layout, const PlaceDecl &place,
                           ArrayRef<Attribute> meshNames) {
  MLIRContext *context = builder.getContext();
  Attribute how;
  FlatSymbolRefAttr mesh;
  if (!place.rows.empty() || layout.meshes.empty()) {
    how = ShardsAttr::get(context, place.rows, rankOf(layout, place));
  } else {
    how = placementOf(layout, place);
    if (place.mesh > 0)
      mesh = cast<FlatSymbolRefAttr>(meshNames[place.mesh]);
  }
  SmallVector<StringRef> states(place.states.begin(), place.states.end());
  auto op = PlaceOp::create(builder, locationOf(place.key),
                            params[place.tensor], tensorOf(layout, place), mesh,
                            states.empty() ? ArrayAttr()
                                           : builder.getStrArrayAttr(states),
                            how, place.bucketed);
  op.setAlone(place.bucketed && place.ownBucket);
}

void Importer::importLayout(const LayoutDecl &layout, StringRef name) {
  SmallVector<Attribute> meshNames;
  importMeshes(layout, name, meshNames);
  auto op = LayoutOp::create(
      builder, locationOf(layout.key), name, "model",
      meshNames.empty() ? ArrayAttr() : builder.getArrayAttr(meshNames),
      layout.world, layout.devices,
      layout.zero ? ZeroAttr::get(builder.getContext(), layout.zero->axes,
                                  layout.zero->bucketSize)
                  : ZeroAttr());
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&op.getBody());
  lastPlace = nullptr;
  for (const PlaceDecl &place : layout.places)
    importPlace(layout, place, meshNames);
}

void Importer::importTransition() {
  MLIRContext *context = builder.getContext();
  const MemoryDecl &memory = request.memory;
  auto op = TransitionOp::create(
      builder, locationOf(request.key), "transition", "source", "destination",
      ClusterAttr::get(context, request.cluster),
      MemoryAttr::get(context, memory.stagingBytes, memory.deviceBytes,
                      memory.mode, memory.granularity, memory.pageBytes,
                      memory.overNccl),
      request.compression.isOn()
          ? CompressionAttr::get(context, request.compression)
          : CompressionAttr(),
      /*seconds_without_relays=*/FloatAttr());
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&op.getBody());
}

OwningOpRef<ModuleOp> Importer::run() {
  OwningOpRef<ModuleOp> module =
      ModuleOp::create(builder, locationOf(request.key));
  builder.setInsertionPointToEnd(module->getBody());
  importSpace();
  importLayout(request.source, "source");
  importLayout(request.destination, "destination");
  importTransition();
  return module;
}

} // namespace

OwningOpRef<ModuleOp> importRequest(const Request &request, StringRef file,
                                    MLIRContext *context) {
  context->loadDialect<DTDialect>();
  for (const std::string &warning : request.warnings)
    emitWarning(UnknownLoc::get(context)) << warning;
  return Importer(request, file, context).run();
}

} // namespace dt
