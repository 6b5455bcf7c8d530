//===- PlaceVerifiers.cpp - Placements against params and meshes ----------===//

#include "LeadingLists.h"
#include "PieceChecks.h"

#include "dt/Geometry/Limits.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace dt {

LogicalResult PlaceOp::verify() {
  if (getAlone() && !getBucketed())
    return emitOpError("is alone in a bucket, expected 'bucketed' too");
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

// An error at one split of one dim.
static LogicalResult failSplit(PlacedDim &at, SplitAttr split,
                               const Twine &message) {
  return fail(at.place, at.param, "the param is here",
              "cuts dim " + Twine(at.dim) + " of " + at.place.placedName() +
                  " over axis " + quoted(split.getAxis()) + " " + message);
}

// Pieces against the coordinates of the axis. Owners count on beyond the axis,
// once around per model chunk, so any number from 0 is one.
static LogicalResult verifyPieces(PlacedDim &at, SplitAttr split,
                                  int64_t ways) {
  size_t pieces = split.getCuts().empty() ? 0 : split.getCuts().size() - 1;
  if (pieces != 0 && split.getOwners().empty() && int64_t(pieces) != ways)
    return failSplit(at, split,
                     "into " + Twine(pieces) + " pieces, but the axis has " +
                         Twine(ways) + " coordinates");
  return success();
}

// One part (the whole extent, or one block of it) against its cuts.
static LogicalResult verifyPart(PlacedDim &at, SplitAttr split, int64_t part,
                                int64_t ways) {
  if (!split.getCuts().empty()) {
    if (split.getCuts().back() == part)
      return success();
    return failSplit(at, split,
                     "up to " + Twine(split.getCuts().back()) +
                         ", but its extent is " + Twine(part));
  }
  int64_t pieces = split.getOwners().empty() ? ways : split.getOwners().size();
  if (split.getChunk() || part % pieces == 0)
    return success();
  return failSplit(at, split,
                   "into " + Twine(pieces) +
                       " equal pieces, which do not divide " + Twine(part));
}

// A split of `extent`, which becomes what the split leaves; -1 stands for an
// extent that depends on the rank (`evaluate` checks those).
static LogicalResult verifySplit(PlacedDim &at, SplitAttr split,
                                 int64_t &extent) {
  int64_t ways = at.mesh.getMesh().axisSize(split.getAxis().getValue());
  if (failed(verifyPieces(at, split, ways)))
    return failure();
  if (extent < 0)
    return success();
  int64_t total = 0;
  for (auto [i, block] : llvm::enumerate(split.getBlocks())) {
    if (__builtin_add_overflow(total, block, &total))
      return failSplit(at, split, "in blocks whose sum overflows 64 bits");
    int64_t times = split.getReplicas().empty() ? 1 : split.getReplicas()[i];
    if (ways % times != 0)
      return failSplit(at, split,
                       "with " + Twine(times) +
                           " replicas of each piece, which do not divide its " +
                           Twine(ways) + " coordinates");
    if (failed(verifyPart(at, split, block, ways / times)))
      return failure();
  }
  if (!split.getBlocks().empty() && total != extent)
    return failSplit(at, split,
                     "in blocks of " + Twine(total) +
                         " altogether, but its extent is " + Twine(extent));
  if (split.getBlocks().empty() && failed(verifyPart(at, split, extent, ways)))
    return failure();
  bool even = split.getCuts().empty() && split.getOwners().empty() &&
              split.getReplicas().empty() &&
              (!split.getChunk() || extent % ways == 0);
  extent = even ? extent / ways : -1;
  return success();
}

// Axes exist; none of more than one coordinate cuts twice, which would leave
// a hole.
static LogicalResult verifyAxes(PlaceOp place, ParamOp param, MeshOp mesh,
                                PlacementAttr placement) {
  SmallVector<StringAttr> cutting;
  for (auto [dim, attr] : llvm::enumerate(placement.getDims())) {
    if (attr.getSplits().size() > kMaxAxes)
      return fail(place, param, "the param is here",
                  "cuts dim " + Twine(dim) + " " +
                      Twine(attr.getSplits().size()) +
                      " times, more than the limit of " + Twine(kMaxAxes));
    for (SplitAttr split : attr.getSplits()) {
      if (failed(verifyAxis(place, mesh, split.getAxis(),
                            "cuts dim " + Twine(dim) + " of " +
                                place.placedName() + " over")))
        return failure();
      cutting.push_back(split.getAxis());
    }
  }
  if (placement.getFlat().size() > kMaxAxes)
    return fail(place, mesh, describe(mesh.getMesh()),
                "cuts local elements " + Twine(placement.getFlat().size()) +
                    " times, more than the limit of " + Twine(kMaxAxes));
  for (StringAttr axis : placement.getFlat()) {
    if (failed(verifyAxis(place, mesh, axis, "cuts local elements over")))
      return failure();
    cutting.push_back(axis);
  }
  for (auto [index, axis] : llvm::enumerate(cutting))
    if (mesh.getMesh().axisSize(axis.getValue()) > 1 &&
        llvm::is_contained(ArrayRef(cutting).take_front(index), axis))
      return fail(place, mesh, describe(mesh.getMesh()),
                  "cuts twice over axis " + quoted(axis) +
                      ", expected each axis once");
  return success();
}

static LogicalResult verifyRestrictions(PlaceOp place, MeshOp mesh,
                                        PlacementAttr placement) {
  for (RestrictionAttr restriction : placement.getAt()) {
    StringAttr axis = restriction.getAxis();
    if (failed(verifyAxis(place, mesh, axis, "is restricted on")))
      return failure();
    // Coordinates count on beyond the axis, once around per model chunk.
    for (int64_t coordinate : restriction.getCoordinates())
      if (coordinate < 0)
        return fail(place, mesh, describe(mesh.getMesh()),
                    "is restricted to coordinate " + Twine(coordinate) +
                        " of axis " + quoted(axis) + ", expected one from 0");
  }
  return success();
}

static LogicalResult verifyPlacement(PlaceOp place, ParamOp param, MeshOp mesh,
                                     PlacementAttr placement) {
  std::vector<int64_t> shape = place.placedShape(param);
  if (placement.getDims().size() > shape.size())
    return fail(place, param, "the param is here",
                "places " + Twine(placement.getDims().size()) + " dims, but " +
                    place.placedName() + " has " + Twine(shape.size()));
  if (failed(verifyAxes(place, param, mesh, placement)) ||
      failed(verifyRestrictions(place, mesh, placement)))
    return failure();
  for (auto [dim, attr] : llvm::enumerate(placement.getDims())) {
    int64_t size = shape[dim];
    if (attr.getExtent() != 0 && attr.getExtent() < size)
      return fail(place, param, "the param is here",
                  "pads dim " + Twine(dim) + " to " + Twine(attr.getExtent()) +
                      ", less than its size " + Twine(size));
    if (attr.getExtent() > kMaxBytes)
      return fail(place, param, "the param is here",
                  "pads dim " + Twine(dim) + " to " + Twine(attr.getExtent()) +
                      ", more than the limit of " + Twine(kMaxBytes));
    if (attr.getExtent() > size && dim < param.numLeading())
      return fail(place, param, "the param is here",
                  "pads dim " + Twine(dim) + ", which counts members");
    int64_t extent = attr.getExtent() != 0 ? attr.getExtent() : size;
    PlacedDim at{place, param, mesh, unsigned(dim)};
    for (SplitAttr split : attr.getSplits())
      if (failed(verifySplit(at, split, extent)))
        return failure();
  }
  return success();
}

static LogicalResult verifyRow(PlaceOp place, LayoutOp layout, ParamOp param,
                               const RankBox &held) {
  if (held.rank >= layout.getWorld())
    return fail(place, layout, "the layout is here",
                "names rank " + Twine(held.rank) + " in a world of " +
                    Twine(layout.getWorld()));
  Box whole = Box::whole(place.placedShape(param));
  if (!whole.contains(held.box))
    return fail(place, param, "the param is here",
                "places " + toString(held.box) + " on rank " +
                    Twine(held.rank) + ", outside " + toString(whole));
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
  return success();
}

static LogicalResult verifyShards(PlaceOp place, ParamOp param,
                                  ShardsAttr shards) {
  auto layout = cast<LayoutOp>(place->getParentOp());
  size_t rank = place.placedShape(param).size();
  if (shards.getRank() != rank)
    return fail(place, param, "the param is here",
                "lists boxes of " + Twine(shards.getRank()) + " dims, but " +
                    place.placedName() + " has " + Twine(rank));
  // One row after the other: there may be many, and they need not be kept.
  LogicalResult result = success();
  shards.forEach([&](const RankBox &held) {
    if (succeeded(result))
      result = verifyRow(place, layout, param, held);
  });
  return result;
}

// What its padding holds against the states of the param.
static LogicalResult verifyFill(PlaceOp place, ParamOp param) {
  ArrayRef<uint64_t> fill = place.getTensorAttr().getFill();
  StatesAttr states = param.getStates();
  size_t count = states.getEntries().size();
  if (!fill.empty() && fill.size() != count)
    return fail(place, param, "the param is here",
                "places " + place.placedName() + " with fills of " +
                    Twine(fill.size()) + " states, expected " + Twine(count));
  for (auto [i, bits] : llvm::enumerate(fill)) {
    const auto &state = states.getEntries()[i];
    int64_t width = byteWidth(state.destination.value_or(states.readDType(i)));
    width = std::max(width, byteWidth(states.readDType(i)));
    if (width < 8 && bits >> (8 * width) != 0)
      return fail(place, param, "the param is here",
                  "places " + place.placedName() + " with a fill of 0x" +
                      llvm::utohexstr(bits, /*LowerCase=*/true) +
                      " of state '" + state.name.getValue() + "', which has " +
                      Twine(width) + " bytes");
  }
  return success();
}

// A side's tensor against the param that it is a view of.
static LogicalResult verifyTensor(PlaceOp place, ParamOp param) {
  TensorAttr tensor = place.getTensorAttr();
  if (!tensor)
    return success();
  if (tensor.getFirst().size() != param.numLeading())
    return fail(place, param, "the param is here",
                "places " + place.placedName() + " with " +
                    Twine(tensor.getFirst().size()) +
                    " numbers, expected one for each of " +
                    Twine(param.numLeading()) + " leading dims");
  for (llvm::ArrayRef<int64_t> lists :
       {tensor.getLists(), tensor.getOrderLists()})
    for (unsigned d = 0; d < param.numLeading(); ++d)
      if (size_t count = listOf(lists, d).size();
          count > 0 && int64_t(count) != param.getShape()[d])
        return fail(place, param, "the param is here",
                    "places " + place.placedName() + " with a list of " +
                        Twine(count) + " in leading dim " + Twine(d) +
                        ", expected " + Twine(param.getShape()[d]));
  std::string problem =
      problemOf(tensor.toGeometry(),
                param.getShape().drop_front(param.numLeading()).vec());
  if (problem.empty())
    return verifyFill(place, param);
  return fail(place, param, "the param is here",
              "places " + place.placedName() + ", which " + problem);
}

LogicalResult PlaceOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto layout = cast<LayoutOp>((*this)->getParentOp());
  if (!layout.lookupSpace(tables))
    return success(); // The layout says so itself.
  ParamOp param = lookupParam(tables);
  if (!param)
    return emitOpError() << "places " << getParamAttr() << ", which space "
                         << layout.getSpaceAttr() << " does not have";
  if (failed(verifyStates(*this, getStatesAttr(), param)) ||
      failed(verifyTensor(*this, param)))
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

} // namespace dt
