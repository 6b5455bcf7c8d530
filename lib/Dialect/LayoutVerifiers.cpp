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
    InFlightDiagnostic diagnostic = layout.emitOpError()
                                    << "divides buckets over axis " << axis
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
    InFlightDiagnostic diagnostic = layout.emitOpError()
                                    << "has a world of " << layout.getWorld()
                                    << ", but mesh @" << mesh.getSymName()
                                    << " has " << attr.numRanks() << " ranks";
    diagnostic.attachNote(mesh.getLoc()) << "the mesh is " << attr;
    return diagnostic;
  }
  // Both sides are canonical: no list stands for the ranks themselves.
  ArrayRef<int64_t> expected = devices.value_or(ArrayRef<int64_t>());
  if (MeshAttr::isIota(expected))
    expected = {};
  if (attr.getDevices() == expected)
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

} // namespace dt
