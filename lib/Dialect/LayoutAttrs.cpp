//===- LayoutAttrs.cpp - Meshes, buckets, cluster and memory --------------===//

#include "RowText.h"

#include "dt/Geometry/Limits.h"

#include "mlir/IR/Builders.h"

#include <charconv>

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

LogicalResult verifyDeviceList(EmitError emitError, ArrayRef<int64_t> devices) {
  SmallVector<int64_t> sorted(devices);
  llvm::sort(sorted);
  if (sorted.front() < 0)
    return emitError() << "expected devices from 0, found " << sorted.front();
  if (sorted.back() > kMaxDevice)
    return emitError() << "expected devices up to " << kMaxDevice << ", found "
                       << sorted.back();
  auto *twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    return emitError() << "device " << *twice << " appears twice";
  return success();
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

//===----------------------------------------------------------------------===//
// #dt.cluster
//===----------------------------------------------------------------------===//

ClusterAttr ClusterAttr::get(MLIRContext *context, int64_t devicesPerNode,
                             double intraNodeGBps, double interNodeGBps,
                             double latencyUs, ArrayRef<LinkEntry> links,
                             int64_t devicesPerNic) {
  Builder builder(context);
  return get(context, devicesPerNode, builder.getF64FloatAttr(intraNodeGBps),
             builder.getF64FloatAttr(interNodeGBps),
             builder.getF64FloatAttr(latencyUs), devicesPerNic, links);
}

static LogicalResult verifyRate(EmitError emitError, FloatAttr rate) {
  double GBps = rate.getValueAsDouble();
  if (!(GBps > 0))
    return emitError() << "expected positive rates, found " << rate;
  if (!(GBps >= kMinGBps && GBps <= kMaxGBps))
    return emitError() << "expected rates from " << kMinGBps << " to "
                       << kMaxGBps << ", found " << rate;
  return success();
}

LogicalResult ClusterAttr::verify(EmitError emitError, int64_t devicesPerNode,
                                  FloatAttr intra, FloatAttr inter,
                                  FloatAttr latency, int64_t devicesPerNic,
                                  ArrayRef<LinkEntry> links) {
  if (devicesPerNode <= 0)
    return emitError() << "expected at least one device per node, found "
                       << devicesPerNode;
  if (devicesPerNode > kMaxDevice)
    return emitError() << "expected at most " << kMaxDevice
                       << " devices per node, found " << devicesPerNode;
  if (devicesPerNic <= 0 || devicesPerNode % devicesPerNic != 0)
    return emitError() << "expected devices per NIC that divide "
                       << devicesPerNode << ", found " << devicesPerNic;
  if (failed(verifyRate(emitError, intra)) ||
      failed(verifyRate(emitError, inter)))
    return failure();
  if (!(latency.getValueAsDouble() >= 0 &&
        latency.getValueAsDouble() <= kMaxLatencyUs))
    return emitError() << "expected a latency from 0 to " << kMaxLatencyUs
                       << ", found " << latency;
  for (const LinkEntry &link : links) {
    if (link.from < 0 || link.to < 0)
      return emitError() << "expected link ends from 0, found "
                         << std::min(link.from, link.to);
    if (link.from > kMaxDevice || link.to > kMaxDevice)
      return emitError() << "expected link ends up to " << kMaxDevice
                         << ", found " << std::max(link.from, link.to);
    if (failed(verifyRate(emitError, link.GBps)))
      return failure();
  }
  return success();
}

// Whole numbers may go without the point.
static ParseResult parseNumber(AsmParser &parser, FloatAttr &value) {
  double number = 0;
  int64_t whole = 0;
  OptionalParseResult isWhole = parser.parseOptionalInteger(whole);
  if (isWhole.has_value()) {
    if (failed(*isWhole))
      return failure();
    number = double(whole);
  } else if (parser.parseFloat(number)) {
    return failure();
  }
  value = parser.getBuilder().getF64FloatAttr(number);
  return success();
}

// , name 25.0
static ParseResult parseRate(AsmParser &parser, llvm::StringRef name,
                             FloatAttr &value) {
  return failure(parser.parseComma() || parser.parseKeyword(name) ||
                 parseNumber(parser, value));
}

// node 0, or device 9
static ParseResult parseLinkEnd(AsmParser &parser, bool &isNode,
                                int64_t &index) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  llvm::StringRef kind;
  if (failed(parser.parseOptionalKeyword(&kind, {"node", "device"})))
    return parser.emitError(loc, "expected 'node' or 'device'");
  isNode = kind == "node";
  return parser.parseInteger(index);
}

static ParseResult parseLink(AsmParser &parser, LinkEntry &link) {
  return failure(parseLinkEnd(parser, link.fromNode, link.from) ||
                 parser.parseKeyword("to") ||
                 parseLinkEnd(parser, link.toNode, link.to) ||
                 parser.parseEqual() || parseNumber(parser, link.GBps));
}

// 2 per nic, if it is there; `more`: whether something follows it.
static ParseResult parsePerNic(AsmParser &parser, int64_t &devices,
                               bool &more) {
  OptionalParseResult found = parser.parseOptionalInteger(devices);
  if (!found.has_value())
    return success();
  if (failed(*found) || parser.parseKeyword("per") ||
      parser.parseKeyword("nic"))
    return failure();
  more = succeeded(parser.parseOptionalComma());
  return success();
}

Attribute ClusterAttr::parse(AsmParser &parser, Type) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  int64_t devicesPerNode = 0, devicesPerNic = 1;
  FloatAttr intra, inter, latency;
  if (parser.parseLess() || parser.parseInteger(devicesPerNode) ||
      parser.parseKeyword("per") || parser.parseKeyword("node") ||
      parseRate(parser, "intra", intra) || parseRate(parser, "inter", inter) ||
      parseRate(parser, "latency", latency))
    return {};
  SmallVector<LinkEntry> links;
  bool more = succeeded(parser.parseOptionalComma());
  if (more && failed(parsePerNic(parser, devicesPerNic, more)))
    return {};
  if (more &&
      (parser.parseKeyword("links") ||
       parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
         return parseLink(parser, links.emplace_back());
       })))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<ClusterAttr>(
      loc, parser.getContext(), devicesPerNode, intra, inter, latency,
      devicesPerNic, ArrayRef<LinkEntry>(links));
}

// The shortest text that reads back as the same number, with the point that
// the lexer insists on: 200.0, 1.0e-07.
static void printNumber(AsmPrinter &printer, FloatAttr value) {
  char buffer[32];
  auto [end, error] =
      std::to_chars(buffer, buffer + sizeof(buffer), value.getValueAsDouble());
  llvm::StringRef text(buffer, end - buffer);
  auto [mantissa, exponent] = text.split('e');
  printer << mantissa << (mantissa.contains('.') ? "" : ".0");
  if (!exponent.empty())
    printer << "e" << exponent;
}

void ClusterAttr::print(AsmPrinter &printer) const {
  printer << "<" << getDevicesPerNode() << " per node, intra ";
  printNumber(printer, getIntra());
  printer << ", inter ";
  printNumber(printer, getInter());
  printer << ", latency ";
  printNumber(printer, getLatency());
  if (getDevicesPerNic() != 1)
    printer << ", " << getDevicesPerNic() << " per nic";
  if (!getLinks().empty()) {
    printer << ", links [";
    llvm::interleaveComma(getLinks(), printer, [&](const LinkEntry &link) {
      printer << (link.fromNode ? "node " : "device ") << link.from << " to "
              << (link.toNode ? "node " : "device ") << link.to << " = ";
      printNumber(printer, link.GBps);
    });
    printer << "]";
  }
  printer << ">";
}

//===----------------------------------------------------------------------===//
// #dt.memory
//===----------------------------------------------------------------------===//

LogicalResult MemoryAttr::verify(EmitError emitError, int64_t stagingBytes,
                                 int64_t deviceBytes, bool) {
  if (stagingBytes < 0 || deviceBytes < 0)
    return emitError() << "expected limits from 0 bytes, found "
                       << std::min(stagingBytes, deviceBytes);
  if (stagingBytes > kMaxBytes || deviceBytes > kMaxBytes)
    return emitError() << "expected limits up to " << kMaxBytes
                       << " bytes, found "
                       << std::max(stagingBytes, deviceBytes);
  return success();
}

Attribute MemoryAttr::parse(AsmParser &parser, Type) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  int64_t staging = 0, device = 0;
  llvm::StringRef mode;
  if (parser.parseLess() || parser.parseKeyword("staging") ||
      parser.parseInteger(staging) || parser.parseComma())
    return {};
  if (succeeded(parser.parseOptionalKeyword("device")) &&
      (parser.parseInteger(device) || parser.parseComma()))
    return {};
  llvm::SMLoc modeLoc = parser.getCurrentLocation();
  if (failed(parser.parseOptionalKeyword(&mode, {"flat", "rollback"}))) {
    parser.emitError(modeLoc, "expected 'flat' or 'rollback'");
    return {};
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<MemoryAttr>(loc, parser.getContext(), staging,
                                       device, mode == "flat");
}

void MemoryAttr::print(AsmPrinter &printer) const {
  printer << "<staging " << getStagingBytes() << ", ";
  if (getDeviceBytes() != 0)
    printer << "device " << getDeviceBytes() << ", ";
  printer << (getFlat() ? "flat" : "rollback") << ">";
}

} // namespace dt
