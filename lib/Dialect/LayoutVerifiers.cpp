//===- LayoutVerifiers.cpp - What the layout level must satisfy -----------===//
//
// The shape of one op stands in verify(), its symbols in verifySymbolUses().
// Whether every element of every state is held is a fact of the whole program
// and belongs to a pass.
//
//===----------------------------------------------------------------------===//

#include "LeadingLists.h"
#include "RowText.h"
#include "TensorNames.h"
#include "dt/Dialect/Ops.h"
#include "dt/Geometry/Limits.h"
#include "dt/Geometry/Names.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace dt {

//===----------------------------------------------------------------------===//
// Shape of one op
//===----------------------------------------------------------------------===//

// Bytes of all members and states, as stored on the side that has more of
// them; nullopt where they leave 64 bits.
static std::optional<int64_t> bytesOf(ParamOp param) {
  StatesAttr states = param.getStates();
  uint64_t all = states.mask({});
  int64_t bytes =
      std::max(states.sourceBytes(all), states.destinationBytes(all));
  for (int64_t size : param.getShape())
    if (__builtin_mul_overflow(bytes, size, &bytes))
      return std::nullopt;
  return bytes;
}

LogicalResult SpaceOp::verifyRegions() {
  int64_t tensors = 0, bytes = 0;
  for (Operation &op : getBody().front()) {
    auto param = dyn_cast<ParamOp>(op);
    if (!param)
      return op.emitOpError("is not allowed in a space, expected dt.param");
    // The param itself has been verified: both numbers are below the limits.
    tensors += param.numMembers();
    bytes += *bytesOf(param);
    if (tensors > kMaxTensors)
      return emitOpError() << "has more tensors than the limit of "
                           << kMaxTensors;
    if (bytes > kMaxBytes)
      return emitOpError() << "has more bytes, all states together, than the "
                           << "limit of " << kMaxBytes;
  }
  return verifyTensorNames(*this);
}

// Numbers of members, and their places in registration order: i -> first +
// step * i stays within 64 bits.
static bool staysWithin(int64_t &value, int64_t step, int64_t count) {
  int64_t reach = 0;
  return !__builtin_mul_overflow(step, count, &reach) &&
         !__builtin_add_overflow(value, reach, &value);
}

// Lists of its leading dims, of names or of an order.
static LogicalResult verifyLists(ParamOp param, ArrayRef<int64_t> first,
                                 ArrayRef<int64_t> step,
                                 ArrayRef<int64_t> lists) {
  if (std::string problem = problemOfLists(first, step, lists);
      !problem.empty())
    return param.emitOpError() << problem;
  for (unsigned d = 0; d < step.size(); ++d)
    if (size_t count = listOf(lists, d).size();
        count > 0 && int64_t(count) != param.getShape()[d])
      return param.emitOpError()
             << "has a list of " << count << " in leading dim " << d
             << ", expected " << param.getShape()[d];
  return success();
}

static LogicalResult verifyNumbers(ParamOp param) {
  ArrayRef<int64_t> first = param.getLeadingFirst(),
                    step = param.getLeadingStep(),
                    strides = param.getOrderStrides();
  if (failed(verifyLists(param, first, step, param.getLeadingLists())) ||
      failed(verifyLists(param, {}, strides, param.getOrderLists())))
    return failure();
  int64_t order = param.getOrder();
  for (unsigned d = 0; d < param.numLeading(); ++d) {
    int64_t size = param.getShape()[d], number = first[d];
    if (step[d] == 0 && listOf(param.getLeadingLists(), d).empty())
      return param.emitOpError(
          "numbers members with step 0, expected distinct numbers");
    if (!staysWithin(number, step[d], size))
      return param.emitOpError()
             << "has numbers in leading dim " << d << " that overflow 64 bits";
    if (!strides.empty() && !staysWithin(order, strides[d], size))
      return param.emitOpError("has an order that overflows 64 bits");
    for (int64_t offset : listOf(param.getOrderLists(), d))
      if (int64_t at = order; !staysWithin(at, offset, 1))
        return param.emitOpError("has an order that overflows 64 bits");
  }
  return success();
}

LogicalResult ParamOp::verify() {
  if (rank() > kMaxRank)
    return emitOpError() << "has " << rank() << " dims, more than the limit of "
                         << kMaxRank;
  for (int64_t size : getShape())
    if (size <= 0)
      return emitOpError() << "expected positive dims, found " << size;
  if (auto bytes = bytesOf(*this); !bytes || *bytes > kMaxBytes)
    return emitOpError() << "has more bytes, all states together, than the "
                         << "limit of " << kMaxBytes;
  size_t holes = nameTemplate().count("{}");
  if (getLeadingFirst().size() != getLeadingStep().size() ||
      holes != numLeading())
    return emitOpError() << "has " << holes << " {} in its name, expected one "
                         << "for each of " << numLeading() << " leading dims";
  if (std::string problem = problemOfName(nameTemplate(), holes);
      !problem.empty())
    return emitOpError() << "has a name that " << problem;
  if (auto storage = getStorage())
    if (std::string problem = problemOfName(*storage, /*numbers=*/0);
        !problem.empty())
      return emitOpError() << "has a storage whose name " << problem;
  if (numLeading() > rank())
    return emitOpError() << "has " << numLeading()
                         << " leading dims, more than its " << rank()
                         << " dims";
  if (numMembers() > kMaxTensors)
    return emitOpError() << "is a family of " << numMembers()
                         << " tensors, more than the limit of " << kMaxTensors;
  if ((getOrder() >= 0 || !getOrderStrides().empty()) &&
      getOrderStrides().size() != numLeading())
    return emitOpError() << "has " << getOrderStrides().size()
                         << " order strides, expected one for each of "
                         << numLeading() << " leading dims";
  return verifyNumbers(*this);
}

LogicalResult LayoutOp::verify() {
  if (getWorld() <= 0)
    return emitOpError() << "expected a positive world, found " << getWorld();
  if (!getDevices().empty() && int64_t(getDevices().size()) != getWorld())
    return emitOpError() << "lists " << getDevices().size()
                         << " devices for a world of " << getWorld();
  if (getWorld() > kMaxRanks)
    return emitOpError() << "has a world of " << getWorld()
                         << ", more than the limit of " << kMaxRanks;
  if (!getDevices().empty() &&
      failed(verifyDeviceList([&] { return emitOpError(); }, getDevices())))
    return failure();
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
      return op.emitOpError("is not allowed in a layout, expected dt.place");
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
                         << ", which is not a dt.space";
  if (!getMeshes())
    return success();
  std::optional<ArrayRef<int64_t>> devices = lookupDevices(tables);
  for (auto [index, attr] : llvm::enumerate(getMeshesAttr())) {
    auto name = cast<FlatSymbolRefAttr>(attr);
    MeshOp mesh = lookupMesh(tables, name);
    if (!mesh)
      return emitOpError() << "is on " << name << ", which is not a dt.mesh";
    if (failed(verifyMesh(*this, mesh, devices)) ||
        failed(verifyZeroAxes(*this, mesh, index)))
      return failure();
  }
  return success();
}

} // namespace dt
