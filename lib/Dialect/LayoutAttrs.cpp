//===- LayoutAttrs.cpp - Meshes of layouts, and ZeRO buckets --------------===//

#include "RowText.h"

#include "dt/Geometry/Limits.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using EmitError = llvm::function_ref<InFlightDiagnostic()>;

namespace dt {

//===----------------------------------------------------------------------===//
// #dt.mesh
//===----------------------------------------------------------------------===//

bool MeshAttr::isIota(llvm::ArrayRef<int64_t> devices) {
  for (auto [index, device] : llvm::enumerate(devices))
    if (device != int64_t(index))
      return false;
  return true;
}

MeshAttr MeshAttr::get(MLIRContext *context, const Mesh &mesh) {
  SmallVector<AxisEntry> axes;
  for (const MeshAxis &axis : mesh.axes)
    axes.push_back({StringAttr::get(context, axis.name), axis.size});
  return get(context, axes, mesh.devices);
}

Mesh MeshAttr::toGeometry() const {
  Mesh mesh;
  for (const AxisEntry &axis : getAxes())
    mesh.axes.push_back({axis.name.str(), axis.size});
  mesh.devices = getDevices().vec();
  return mesh;
}

int64_t MeshAttr::numRanks() const {
  int64_t count = 1;
  for (const AxisEntry &axis : getAxes())
    count *= axis.size;
  return count;
}

bool MeshAttr::hasAxis(llvm::StringRef name) const {
  return llvm::any_of(getAxes(), [&](const AxisEntry &axis) {
    return axis.name.getValue() == name;
  });
}

int64_t MeshAttr::axisSize(llvm::StringRef name) const {
  for (const AxisEntry &axis : getAxes())
    if (axis.name.getValue() == name)
      return axis.size;
  return 1;
}

LogicalResult MeshAttr::verify(EmitError emitError,
                               llvm::ArrayRef<AxisEntry> axes,
                               llvm::ArrayRef<int64_t> devices) {
  int64_t numRanks = 1;
  llvm::SmallPtrSet<const void *, 8> seen;
  if (axes.size() > kMaxAxes)
    return emitError() << "found " << axes.size()
                       << " axes, more than the limit of " << kMaxAxes;
  for (const AxisEntry &axis : axes) {
    if (!seen.insert(axis.name.getAsOpaquePointer()).second)
      return emitError() << "axis " << axis.name << " appears twice";
    if (axis.size <= 0)
      return emitError() << "axis " << axis.name
                         << " needs a positive size, found " << axis.size;
    if (__builtin_mul_overflow(numRanks, axis.size, &numRanks) ||
        numRanks > kMaxRanks)
      return emitError() << "the mesh has more ranks than the limit of "
                         << kMaxRanks;
  }
  if (devices.empty())
    return success();
  if (int64_t(devices.size()) != numRanks)
    return emitError() << "found " << devices.size() << " devices for "
                       << numRanks << " ranks";
  return verifyDeviceList(emitError, devices);
}

Attribute MeshAttr::parse(AsmParser &parser, Type) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  SmallVector<AxisEntry> axes;
  SmallVector<int64_t> devices;
  auto parseAxis = [&]() -> ParseResult {
    AxisEntry &axis = axes.emplace_back();
    std::string name;
    if (parser.parseString(&name) || parser.parseEqual() ||
        parser.parseInteger(axis.size))
      return failure();
    axis.name = StringAttr::get(parser.getContext(), name);
    return success();
  };
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseAxis))
    return {};
  if (succeeded(parser.parseOptionalComma()) &&
      (parser.parseKeyword("devices") || parser.parseEqual() ||
       parseIntList(parser, devices)))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<MeshAttr>(loc, parser.getContext(), ArrayRef(axes),
                                     ArrayRef(devices));
}

void MeshAttr::print(AsmPrinter &printer) const {
  printer << "<[";
  llvm::interleaveComma(getAxes(), printer, [&](const AxisEntry &axis) {
    printer.printString(axis.name);
    printer << "=" << axis.size;
  });
  printer << "]";
  if (!getDevices().empty()) {
    printer << ", devices=";
    printIntList(printer.getStream(), getDevices());
  }
  printer << ">";
}

//===----------------------------------------------------------------------===//
// #dt.zero
//===----------------------------------------------------------------------===//

ZeroAttr ZeroAttr::get(MLIRContext *context,
                       const std::vector<std::vector<std::string>> &axes,
                       int64_t bucketSize) {
  Builder builder(context);
  SmallVector<Attribute> perMesh;
  for (const std::vector<std::string> &names : axes) {
    SmallVector<llvm::StringRef> refs(names.begin(), names.end());
    perMesh.push_back(builder.getStrArrayAttr(refs));
  }
  return get(context, builder.getArrayAttr(perMesh), bucketSize);
}

std::vector<std::vector<std::string>> ZeroAttr::axesAsStrings() const {
  std::vector<std::vector<std::string>> result;
  for (auto names : getAxes().getAsRange<ArrayAttr>()) {
    result.emplace_back();
    for (auto name : names.getAsRange<StringAttr>())
      result.back().push_back(name.str());
  }
  return result;
}

LogicalResult ZeroAttr::verify(EmitError emitError, ArrayAttr axes,
                               int64_t bucketSize) {
  auto isNameList = [](Attribute attr) {
    auto names = dyn_cast<ArrayAttr>(attr);
    return names && llvm::all_of(names, llvm::IsaPred<StringAttr>);
  };
  if (!llvm::all_of(axes, isNameList))
    return emitError() << "expected one list of axis names per mesh, found "
                       << axes;
  if (bucketSize <= 0)
    return emitError() << "expected a positive bucket size, found "
                       << bucketSize;
  return success();
}

Attribute ZeroAttr::parse(AsmParser &parser, Type) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  ArrayAttr axes;
  int64_t bucketSize = 0;
  if (parser.parseLess() || parser.parseAttribute(axes) ||
      parser.parseKeyword("bucket") || parser.parseInteger(bucketSize) ||
      parser.parseGreater())
    return {};
  return parser.getChecked<ZeroAttr>(loc, parser.getContext(), axes,
                                     bucketSize);
}

void ZeroAttr::print(AsmPrinter &printer) const {
  printer << "<" << getAxes() << " bucket " << getBucketSize() << ">";
}

} // namespace dt
