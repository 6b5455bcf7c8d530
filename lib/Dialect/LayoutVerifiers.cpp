//===- LayoutVerifiers.cpp - What the layout level must satisfy -----------===//
//
// The shape of one op stands in verify(), its symbols in verifySymbolUses().
// Whether every element of every state is held is a fact of the whole program
// and belongs to a pass.
//
//===----------------------------------------------------------------------===//

#include "dt/Dialect/Ops.h"

using namespace mlir;

namespace dt {

//===----------------------------------------------------------------------===//
// Shape of one op
//===----------------------------------------------------------------------===//

LogicalResult SpaceOp::verifyRegions() {
  for (Operation &op : getBody().front())
    if (!isa<ParamOp>(op))
      return op.emitOpError("cannot stand in a space, expected dt.param");
  return success();
}

LogicalResult ParamOp::verify() {
  if (rank() > kMaxRank)
    return emitOpError() << "has " << rank() << " dims, more than the limit of "
                         << kMaxRank;
  int64_t volume = 1;
  for (int64_t size : getShape()) {
    if (size <= 0)
      return emitOpError() << "expected positive dims, found " << size;
    if (__builtin_mul_overflow(volume, size, &volume))
      return emitOpError("has more elements than 64 bits can count");
  }
  size_t holes = nameTemplate().count("{}");
  if (getLeadingFirst().size() != getLeadingStep().size() ||
      (getTensor() && holes != numLeading()))
    return emitOpError() << "has " << holes << " {} in its name, expected one "
                         << "for each of " << numLeading() << " leading dims";
  if (numLeading() > rank())
    return emitOpError() << "has " << numLeading()
                         << " leading dims, more than its " << rank()
                         << " dims";
  if (llvm::is_contained(getLeadingStep(), 0))
    return emitOpError("numbers members with step 0, which names one twice");
  if (getOrder() >= 0 && getOrderStrides().size() != numLeading())
    return emitOpError() << "has " << getOrderStrides().size()
                         << " order strides, expected one for each of "
                         << numLeading() << " leading dims";
  return success();
}

LogicalResult LayoutOp::verify() {
  if (getWorld() <= 0)
    return emitOpError() << "expected a positive world, found " << getWorld();
  if (!getDevices().empty() && int64_t(getDevices().size()) != getWorld())
    return emitOpError() << "lists " << getDevices().size()
                         << " devices for a world of " << getWorld();
  size_t numMeshes = getMeshes() ? getMeshesAttr().size() : 0;
  if (getZeroAttr() && getZeroAttr().getAxes().size() != numMeshes)
    return emitOpError() << "divides buckets over the axes of "
                         << getZeroAttr().getAxes().size()
                         << " meshes, expected " << numMeshes;
  return success();
}

LogicalResult LayoutOp::verifyRegions() {
  for (Operation &op : getBody().front())
    if (!isa<PlaceOp>(op))
      return op.emitOpError("cannot stand in a layout, expected dt.place");
  return success();
}

LogicalResult PlaceOp::verify() {
  if (!getBucketed() && (getAlone() || !getChunks().empty()))
    return emitOpError("says how it is bucketed, expected 'bucketed' too");
  if (!getBucketed())
    return success();
  if (!isa<PlacementAttr>(getHow()))
    return emitOpError("is bucketed but lists shards, expected a placement");
  auto layout = cast<LayoutOp>((*this)->getParentOp());
  if (layout.getZeroAttr())
    return success();
  InFlightDiagnostic diagnostic =
      emitOpError("is bucketed, but its layout has no 'zero' to say how");
  diagnostic.attachNote(layout.getLoc()) << "in this layout";
  return diagnostic;
}

//===----------------------------------------------------------------------===//
// dt.layout: its space and meshes
//===----------------------------------------------------------------------===//

static LogicalResult verifyZeroAxes(LayoutOp layout, MeshOp mesh,
                                    unsigned index) {
  if (!layout.getZeroAttr())
    return success();
  auto axes = cast<ArrayAttr>(layout.getZeroAttr().getAxes()[index]);
  for (auto axis : axes.getAsRange<StringAttr>()) {
    if (mesh.getMesh().hasAxis(axis.getValue()))
      continue;
    InFlightDiagnostic diagnostic =
        layout.emitOpError() << "divides buckets over axis " << axis
                             << ", which mesh @" << mesh.getSymName()
                             << " does not have";
    diagnostic.attachNote(mesh.getLoc()) << "the mesh is " << mesh.getMesh();
    return diagnostic;
  }
  return success();
}

static LogicalResult verifyMesh(LayoutOp layout, MeshOp mesh,
                                std::optional<ArrayRef<int64_t>> devices) {
  MeshAttr attr = mesh.getMesh();
  if (attr.numRanks() != layout.getWorld()) {
    InFlightDiagnostic diagnostic =
        layout.emitOpError() << "has a world of " << layout.getWorld()
                             << ", but mesh @" << mesh.getSymName() << " has "
                             << attr.numRanks() << " ranks";
    diagnostic.attachNote(mesh.getLoc()) << "the mesh is " << attr;
    return diagnostic;
  }
  bool same = attr.getDevices() == devices.value_or(ArrayRef<int64_t>());
  if (same || MeshAttr::isIota(devices.value_or(ArrayRef<int64_t>())) ==
                  attr.getDevices().empty())
    if (same || attr.getDevices().empty())
      return success();
  InFlightDiagnostic diagnostic =
      layout.emitOpError() << "has meshes that arrange different devices";
  diagnostic.attachNote(mesh.getLoc()) << "the mesh is " << attr;
  return diagnostic;
}

LogicalResult LayoutOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (!lookupSpace(tables))
    return emitOpError() << "is of " << getSpaceAttr()
                         << ", which is no dt.space";
  if (!getMeshes())
    return success();
  std::optional<ArrayRef<int64_t>> devices = lookupDevices(tables);
  for (auto [index, attr] : llvm::enumerate(getMeshesAttr())) {
    auto name = cast<FlatSymbolRefAttr>(attr);
    MeshOp mesh = lookupMesh(tables, name);
    if (!mesh)
      return emitOpError() << "is on " << name << ", which is no dt.mesh";
    if (failed(verifyMesh(*this, mesh, devices)) ||
        failed(verifyZeroAxes(*this, mesh, index)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// dt.place: states, axes, cuts and shards
//===----------------------------------------------------------------------===//

// An error at a place, with a note at the param or mesh that it contradicts.
static LogicalResult fail(PlaceOp place, Operation *other, const Twine &note,
                          const Twine &message) {
  InFlightDiagnostic diagnostic = place.emitOpError() << message;
  diagnostic.attachNote(other->getLoc()) << note;
  return diagnostic;
}

static std::string quoted(StringAttr name) {
  return ("\"" + name.getValue() + "\"").str();
}

namespace {
/// A placement, and what its errors need to name.
struct PlacedDim {
  PlaceOp place;
  ParamOp param;
  MeshOp mesh;
  unsigned dim;
};
} // namespace

static std::string describe(MeshAttr mesh) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "the mesh has axes ";
  llvm::interleaveComma(mesh.getAxes(), os, [&](const AxisEntry &axis) {
    os << '"' << axis.name.getValue() << "\"=" << axis.size;
  });
  return text;
}

static LogicalResult verifyAxis(PlaceOp place, MeshOp mesh, StringAttr axis,
                                const Twine &what) {
  if (mesh.getMesh().hasAxis(axis.getValue()))
    return success();
  return fail(place, mesh, describe(mesh.getMesh()),
              what + " axis " + quoted(axis) + ", which mesh @" +
                  mesh.getSymName() + " does not have");
}

// One split of an extent; -1 where earlier splits leave an extent that
// depends on the rank. Returns the extent that is left, in `extent`.
static LogicalResult verifySplit(PlacedDim &at, SplitAttr split,
                                 int64_t &extent) {
  int64_t ways = at.mesh.getMesh().axisSize(split.getAxis().getValue());
  auto failHere = [&](const Twine &message) {
    return fail(at.place, at.param, "the param is here",
                "cuts dim " + Twine(at.dim) + " of " +
                    "@" + at.param.getSymName() + " over axis " +
                    quoted(split.getAxis()) + " " + message);
  };
  ArrayRef<int64_t> cuts = split.getCuts();
  if (!cuts.empty() && split.getOwners().empty() &&
      int64_t(cuts.size()) != ways + 1)
    return failHere("into " + Twine(cuts.size() - 1) +
                    " pieces, but the axis has " + Twine(ways) +
                    " coordinates");
  if (extent < 0)
    return success();
  if (!cuts.empty() && split.getBlocks().empty() && cuts.back() != extent)
    return failHere("up to " + Twine(cuts.back()) +
                    ", but its extent is " + Twine(extent));
  int64_t total = 0;
  for (int64_t block : split.getBlocks()) {
    total += block;
    if (cuts.empty() && !split.getChunk() && block % ways != 0)
      return failHere("in blocks of " + Twine(block) + ", which " +
                      Twine(ways) + " does not divide");
  }
  if (!split.getBlocks().empty() && total != extent)
    return failHere("in blocks of " + Twine(total) +
                    " altogether, but its extent is " + Twine(extent));
  if (!cuts.empty() || split.getChunk()) {
    extent = -1;
    return success();
  }
  int64_t pieces = split.getOwners().empty() ? ways : split.getOwners().size();
  if (extent % pieces != 0)
    return failHere("into " + Twine(pieces) + " equal pieces, but its extent " +
                    Twine(extent) + " does not divide");
  extent = pieces == ways ? extent / pieces : -1;
  return success();
}

static LogicalResult verifyPlacement(PlaceOp place, ParamOp param, MeshOp mesh,
                                     PlacementAttr placement) {
  if (placement.getDims().size() > param.rank())
    return fail(place, param, "the param is here",
                "places " + Twine(placement.getDims().size()) + " dims, but @" +
                    param.getSymName() + " has " + Twine(param.rank()));
  for (auto [dim, attr] : llvm::enumerate(placement.getDims())) {
    int64_t size = param.getShape()[dim];
    if (attr.getExtent() != 0 && attr.getExtent() < size)
      return fail(place, param, "the param is here",
                  "pads dim " + Twine(dim) + " to " + Twine(attr.getExtent()) +
                      ", less than its size " + Twine(size));
    int64_t extent = attr.getExtent() != 0 ? attr.getExtent() : size;
    PlacedDim at{place, param, mesh, unsigned(dim)};
    for (SplitAttr split : attr.getSplits())
      if (failed(verifyAxis(place, mesh, split.getAxis(),
                            "cuts dim " + Twine(dim) + " of @" +
                                param.getSymName() + " over")) ||
          failed(verifySplit(at, split, extent)))
        return failure();
  }
  for (StringAttr axis : placement.getFlat())
    if (failed(verifyAxis(place, mesh, axis, "cuts local elements over")))
      return failure();
  for (RestrictionAttr restriction : placement.getAt()) {
    StringAttr axis = restriction.getAxis();
    if (failed(verifyAxis(place, mesh, axis, "is restricted on")))
      return failure();
    // Coordinates count on beyond the axis, once around per model chunk.
    for (int64_t coordinate : restriction.getCoordinates())
      if (coordinate < 0)
        return fail(place, mesh, describe(mesh.getMesh()),
                    "is restricted to coordinate " + Twine(coordinate) +
                        " of axis " + quoted(axis));
  }
  return success();
}

static LogicalResult verifyShards(PlaceOp place, ParamOp param,
                                  ShardsAttr shards) {
  auto layout = cast<LayoutOp>(place->getParentOp());
  if (shards.getRank() != param.rank())
    return fail(place, param, "the param is here",
                "lists boxes of " + Twine(shards.getRank()) + " dims, but @" +
                    param.getSymName() + " has " + Twine(param.rank()));
  for (const RankBox &held : shards.toGeometry()) {
    if (held.rank >= layout.getWorld())
      return fail(place, layout, "the layout is here",
                  "names rank " + Twine(held.rank) + " in a world of " +
                      Twine(layout.getWorld()));
    if (!Box::whole(param.getShape().vec()).contains(held.box))
      return fail(place, param, "the param is here",
                  "places " + toString(held.box) + " on rank " +
                      Twine(held.rank) + ", outside " +
                      toString(Box::whole(param.getShape().vec())));
    int64_t members = 1;
    for (unsigned d = 0; d < param.numLeading(); ++d)
      members *= held.box[d].size();
    int64_t elements = held.box.volume() / members;
    if (held.range && (held.range->lo < 0 || held.range->lo > held.range->hi ||
                       held.range->hi > elements))
      return fail(place, param, "the param is here",
                  "keeps elements " + Twine(held.range->lo) + " to " +
                      Twine(held.range->hi) + " on rank " + Twine(held.rank) +
                      ", but its box has " + Twine(elements));
  }
  return success();
}

static LogicalResult verifyStates(Operation *op, ArrayAttr states,
                                  ParamOp param) {
  if (!states)
    return success();
  for (auto state : states.getAsRange<StringAttr>()) {
    if (param.getStates().indexOf(state.getValue()) >= 0)
      continue;
    InFlightDiagnostic diagnostic =
        op->emitOpError() << "names state " << state << ", which @"
                          << param.getSymName() << " does not have";
    diagnostic.attachNote(param.getLoc())
        << "the param has states " << param.getStates();
    return diagnostic;
  }
  return success();
}

LogicalResult PlaceOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto layout = cast<LayoutOp>((*this)->getParentOp());
  if (!layout.lookupSpace(tables))
    return success(); // The layout says so itself.
  ParamOp param = lookupParam(tables);
  if (!param)
    return emitOpError() << "places " << getParamAttr() << ", which space "
                         << layout.getSpaceAttr() << " does not have";
  if (failed(verifyStates(*this, getStatesAttr(), param)))
    return failure();
  if (auto shards = dyn_cast<ShardsAttr>(getHow()))
    return verifyShards(*this, param, shards);
  ArrayAttr meshes = layout.getMeshesAttr();
  if (getMeshAttr() && (!meshes || !llvm::is_contained(meshes, getMeshAttr())))
    return emitOpError() << "is on mesh " << getMeshAttr()
                         << ", which its layout is not on";
  if (!meshes || meshes.empty())
    return emitOpError("has a placement, but its layout is on no mesh");
  MeshOp mesh = lookupMesh(tables);
  if (!mesh)
    return success(); // The layout says so itself.
  return verifyPlacement(*this, param, mesh, cast<PlacementAttr>(getHow()));
}

//===----------------------------------------------------------------------===//
// dt.transition, and ops on pieces inside it
//===----------------------------------------------------------------------===//

LogicalResult TransitionOp::verifySymbolUses(SymbolTableCollection &tables) {
  LayoutOp source = lookupSource(tables);
  LayoutOp destination = lookupDestination(tables);
  for (auto [layout, name] :
       {std::pair(source, getSourceAttr()),
        std::pair(destination, getDestinationAttr())})
    if (!layout)
      return emitOpError() << "names " << name << ", which is no dt.layout";
  if (source.getSpaceAttr() != destination.getSpaceAttr()) {
    InFlightDiagnostic diagnostic =
        emitOpError() << "goes from a layout of " << source.getSpaceAttr()
                      << " to one of " << destination.getSpaceAttr()
                      << ", expected the same space";
    diagnostic.attachNote(destination.getLoc()) << "the destination is here";
    return diagnostic;
  }
  return success();
}

LogicalResult verifyMovement(MovementOpInterface op,
                             SymbolTableCollection &tables) {
  auto transition = op->getParentOfType<TransitionOp>();
  if (!transition)
    return op->emitOpError("cannot stand here, expected a dt.transition "
                           "around it");
  if (!transition.lookupSpace(tables))
    return success(); // The transition says so itself.
  ParamOp param = lookupParam(op, op.getParamAttr(), tables);
  if (!param)
    return op->emitOpError() << "moves " << op.getParamAttr()
                             << ", which the space does not have";
  if (failed(verifyStates(op, op.getStatesAttr(), param)))
    return failure();
  PiecesAttr pieces = op.getPieces();
  if (pieces.getRank() != param.rank()) {
    InFlightDiagnostic diagnostic =
        op->emitOpError() << "has pieces of " << pieces.getRank()
                          << " dims, but @" << param.getSymName() << " has "
                          << param.rank();
    diagnostic.attachNote(param.getLoc()) << "the param is here";
    return diagnostic;
  }
  return success();
}

} // namespace dt
