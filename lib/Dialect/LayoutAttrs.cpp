//===- LayoutAttrs.cpp - States, meshes, buckets, cluster and memory ------===//

#include "RowText.h"

#include "mlir/IR/Builders.h"

#include <charconv>

using namespace mlir;
using EmitError = llvm::function_ref<InFlightDiagnostic()>;

namespace dt {

//===----------------------------------------------------------------------===//
// #dt.states
//===----------------------------------------------------------------------===//

static constexpr size_t kMaxStates = 64; // one bit each in a 64-bit mask

int StatesAttr::indexOf(llvm::StringRef name) const {
  for (auto [index, entry] : llvm::enumerate(getEntries()))
    if (entry.name == name)
      return index;
  return -1;
}

uint64_t StatesAttr::mask(ArrayAttr names) const {
  size_t count = getEntries().size();
  if (!names)
    return count == kMaxStates ? ~uint64_t(0) : (uint64_t(1) << count) - 1;
  uint64_t result = 0;
  for (auto name : names.getAsRange<StringAttr>())
    if (int index = indexOf(name.getValue()); index >= 0)
      result |= uint64_t(1) << index;
  return result;
}

DType StatesAttr::readDType(unsigned state) const {
  const StateEntry &entry = getEntries()[state];
  if (entry.source)
    return *entry.source;
  return *getEntries()[indexOf(entry.from)].source;
}

/// Sums over the states of a mask the width of `dtypeOf(state)`, if any.
template <typename Fn>
static int64_t sumWidths(StatesAttr states, uint64_t mask, Fn dtypeOf) {
  int64_t bytes = 0;
  for (unsigned state = 0; state < states.getEntries().size(); ++state)
    if (std::optional<DType> dtype = dtypeOf(state); dtype && mask >> state & 1)
      bytes += byteWidth(*dtype);
  return bytes;
}

int64_t StatesAttr::sourceBytes(uint64_t mask) const {
  return sumWidths(*this, mask,
                   [&](unsigned state) { return getEntries()[state].source; });
}

int64_t StatesAttr::destinationBytes(uint64_t mask) const {
  return sumWidths(*this, mask, [&](unsigned state) {
    return getEntries()[state].destination;
  });
}

int64_t StatesAttr::wireBytes(uint64_t mask) const {
  return sumWidths(*this, mask, [&](unsigned state) -> std::optional<DType> {
    std::optional<DType> destination = getEntries()[state].destination;
    if (!destination)
      return std::nullopt;
    return wireDType(readDType(state), *destination);
  });
}

/// What is wrong with one state by itself and its `from`; empty: nothing.
static std::string problemOf(const StateEntry &entry,
                             llvm::ArrayRef<StateEntry> entries) {
  if (!entry.source && !entry.destination)
    return "exists on neither side";
  if (!entry.source && !entry.from)
    return "is not in the source and made from no other state";
  std::optional<DType> read = entry.source;
  if (entry.from) {
    const auto *found = llvm::find_if(
        entries, [&](const StateEntry &e) { return e.name == entry.from; });
    if (found == entries.end() || found == &entry || !found->source)
      return "is made from '" + entry.from.str() +
             "', which is no other state of the source";
    if (entry.destination && !canConvert(*found->source, *entry.destination))
      return std::string("cannot be made from ") + name(*found->source);
    // Both ways must give the same bits, so no dtype may change.
    if (entry.source &&
        (entry.source != entry.destination ||
         (found->destination && found->source != found->destination)))
      return "may be made from '" + entry.from.str() +
             "', but one of them changes dtype";
    if (!read)
      read = found->source;
  }
  if (entry.destination && !canConvert(*read, *entry.destination))
    return std::string("cannot change from ") + name(*read) + " to " +
           name(*entry.destination);
  return "";
}

LogicalResult StatesAttr::verify(EmitError emitError,
                                 llvm::ArrayRef<StateEntry> entries) {
  if (entries.empty() || entries.size() > kMaxStates)
    return emitError() << "expected 1 to " << kMaxStates << " states, found "
                       << entries.size();
  llvm::SmallPtrSet<const void *, 8> seen;
  for (const StateEntry &entry : entries)
    if (!seen.insert(entry.name.getAsOpaquePointer()).second)
      return emitError() << "state " << entry.name << " appears twice";
  for (const StateEntry &entry : entries)
    if (std::string problem = problemOf(entry, entries); !problem.empty())
      return emitError() << "state " << entry.name << " " << problem;
  return success();
}

/// A dtype, or `none`.
static ParseResult parseSideDType(AsmParser &parser,
                                  std::optional<DType> &dtype) {
  llvm::StringRef dtypeName;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&dtypeName))
    return failure();
  dtype = std::nullopt;
  if (dtypeName == "none")
    return success();
  dtype = parseDType({dtypeName.data(), dtypeName.size()});
  if (dtype)
    return success();
  return parser.emitError(loc)
         << "unknown dtype '" << dtypeName << "', expected one such as bf16";
}

static ParseResult parseState(AsmParser &parser, StateEntry &entry) {
  std::string name, from;
  if (parser.parseKeywordOrString(&name) || parser.parseEqual() ||
      parseSideDType(parser, entry.source))
    return failure();
  entry.name = StringAttr::get(parser.getContext(), name);
  entry.destination = entry.source;
  if (succeeded(parser.parseOptionalArrow()) &&
      parseSideDType(parser, entry.destination))
    return failure();
  if (failed(parser.parseOptionalKeyword("from")))
    return success();
  if (parser.parseKeywordOrString(&from))
    return failure();
  entry.from = StringAttr::get(parser.getContext(), from);
  return success();
}

Attribute StatesAttr::parse(AsmParser &parser, Type) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  SmallVector<StateEntry> entries;
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, [&] {
        return parseState(parser, entries.emplace_back());
      }))
    return {};
  return parser.getChecked<StatesAttr>(loc, parser.getContext(),
                                       ArrayRef<StateEntry>(entries));
}

void StatesAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(getEntries(), printer, [&](const StateEntry &entry) {
    auto text = [](std::optional<DType> dtype) {
      return dtype ? ::dt::name(*dtype) : "none";
    };
    printer.printKeywordOrString(entry.name);
    printer << " = " << text(entry.source);
    if (entry.source != entry.destination)
      printer << " -> " << text(entry.destination);
    if (entry.from) {
      printer << " from ";
      printer.printKeywordOrString(entry.from);
    }
  });
  printer << ">";
}

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
  for (const AxisEntry &axis : axes) {
    if (!seen.insert(axis.name.getAsOpaquePointer()).second)
      return emitError() << "axis " << axis.name << " appears twice";
    if (axis.size <= 0)
      return emitError() << "axis " << axis.name
                         << " needs a positive size, found " << axis.size;
    if (__builtin_mul_overflow(numRanks, axis.size, &numRanks))
      return emitError() << "the mesh has more ranks than 64 bits can count";
  }
  if (devices.empty())
    return success();
  if (int64_t(devices.size()) != numRanks)
    return emitError() << "found " << devices.size() << " devices for "
                       << numRanks << " ranks";
  SmallVector<int64_t> sorted(devices);
  llvm::sort(sorted);
  if (sorted.front() < 0)
    return emitError() << "expected devices from 0, found " << sorted.front();
  auto *twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    return emitError() << "device " << *twice << " appears twice";
  return success();
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
                             double latencyUs, ArrayRef<LinkEntry> links) {
  Builder builder(context);
  return get(context, devicesPerNode, builder.getF64FloatAttr(intraNodeGBps),
             builder.getF64FloatAttr(interNodeGBps),
             builder.getF64FloatAttr(latencyUs), links);
}

LogicalResult ClusterAttr::verify(EmitError emitError, int64_t devicesPerNode,
                                  FloatAttr intra, FloatAttr inter,
                                  FloatAttr latency,
                                  ArrayRef<LinkEntry> links) {
  if (devicesPerNode <= 0)
    return emitError() << "expected at least one device per node, found "
                       << devicesPerNode;
  for (FloatAttr rate : {intra, inter})
    if (!(rate.getValueAsDouble() > 0))
      return emitError() << "expected positive rates, found " << rate;
  if (!(latency.getValueAsDouble() >= 0))
    return emitError() << "expected a latency from 0, found " << latency;
  for (const LinkEntry &link : links) {
    if (link.from < 0 || link.to < 0)
      return emitError() << "expected link ends from 0, found "
                         << std::min(link.from, link.to);
    if (!(link.GBps.getValueAsDouble() > 0))
      return emitError() << "expected positive rates, found " << link.GBps;
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

Attribute ClusterAttr::parse(AsmParser &parser, Type) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  int64_t devicesPerNode = 0;
  FloatAttr intra, inter, latency;
  if (parser.parseLess() || parser.parseInteger(devicesPerNode) ||
      parser.parseKeyword("per") || parser.parseKeyword("node") ||
      parseRate(parser, "intra", intra) || parseRate(parser, "inter", inter) ||
      parseRate(parser, "latency", latency))
    return {};
  SmallVector<LinkEntry> links;
  if (succeeded(parser.parseOptionalComma()) &&
      (parser.parseKeyword("links") ||
       parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
         return parseLink(parser, links.emplace_back());
       })))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<ClusterAttr>(loc, parser.getContext(),
                                        devicesPerNode, intra, inter, latency,
                                        ArrayRef<LinkEntry>(links));
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
