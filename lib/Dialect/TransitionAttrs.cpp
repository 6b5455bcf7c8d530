//===- TransitionAttrs.cpp - Cluster, memory and compression --------------===//

#include "dt/Dialect/Ops.h"

#include "dt/Geometry/Limits.h"

#include "mlir/IR/Builders.h"

#include <charconv>

using namespace mlir;
using EmitError = llvm::function_ref<InFlightDiagnostic()>;

namespace dt {

//===----------------------------------------------------------------------===//
// #dt.cluster
//===----------------------------------------------------------------------===//

ClusterAttr ClusterAttr::get(MLIRContext *context, const Cluster &cluster) {
  Builder builder(context);
  return get(context, cluster.devicesPerNode,
             builder.getF64FloatAttr(cluster.intraNodeGBps),
             builder.getF64FloatAttr(cluster.interNodeGBps),
             builder.getF64FloatAttr(cluster.latencyUs), cluster.devicesPerNic,
             cluster.pxn, builder.getF64FloatAttr(cluster.launchUs),
             cluster.channelsPerPeer,
             builder.getF64FloatAttr(cluster.intraChannelGBps),
             builder.getF64FloatAttr(cluster.interChannelGBps), cluster.relays,
             cluster.collectives, builder.getF64FloatAttr(cluster.multicastUs),
             builder.getF64FloatAttr(cluster.copyEngineUs), cluster.links);
}

Cluster ClusterAttr::toCluster() const {
  Cluster out;
  out.devicesPerNode = getDevicesPerNode();
  out.intraNodeGBps = getIntra().getValueAsDouble();
  out.interNodeGBps = getInter().getValueAsDouble();
  out.latencyUs = getLatency().getValueAsDouble();
  out.links = getLinks().vec();
  out.devicesPerNic = getDevicesPerNic();
  out.pxn = getPxn();
  out.launchUs = getLaunch().getValueAsDouble();
  out.channelsPerPeer = getChannelsPerPeer();
  out.intraChannelGBps = getIntraChannel().getValueAsDouble();
  out.interChannelGBps = getInterChannel().getValueAsDouble();
  out.relays = getRelays();
  out.collectives = getCollectives();
  out.multicastUs = getMulticast().getValueAsDouble();
  out.copyEngineUs = getCopyEngine().getValueAsDouble();
  return out;
}

static LogicalResult verifyRate(EmitError emitError, double GBps) {
  if (!(GBps > 0))
    return emitError() << "expected positive rates, found " << GBps;
  if (!(GBps >= kMinGBps && GBps <= kMaxGBps))
    return emitError() << "expected rates from " << kMinGBps << " to "
                       << kMaxGBps << ", found " << GBps;
  return success();
}

LogicalResult ClusterAttr::verify(
    EmitError emitError, int64_t devicesPerNode, FloatAttr intra,
    FloatAttr inter, FloatAttr latency, int64_t devicesPerNic, bool /*pxn*/,
    FloatAttr launch, int64_t channelsPerPeer, FloatAttr intraChannel,
    FloatAttr interChannel, bool /*relays*/, dtrt::CollectiveChoice,
    FloatAttr multicast, FloatAttr copyEngine, ArrayRef<Link> links) {
  if (devicesPerNode <= 0)
    return emitError() << "expected at least one device per node, found "
                       << devicesPerNode;
  if (devicesPerNode > kMaxDevice)
    return emitError() << "expected at most " << kMaxDevice
                       << " devices per node, found " << devicesPerNode;
  if (devicesPerNic <= 0 || devicesPerNode % devicesPerNic != 0)
    return emitError() << "expected devices per NIC that divide "
                       << devicesPerNode << ", found " << devicesPerNic;
  for (FloatAttr rate : {intra, inter, intraChannel, interChannel})
    if (failed(verifyRate(emitError, rate.getValueAsDouble())))
      return failure();
  for (auto [what, value] :
       {std::make_pair("latency", latency), std::make_pair("launch", launch),
        std::make_pair("multicast", multicast),
        std::make_pair("copy engine's time", copyEngine)})
    if (!(value.getValueAsDouble() >= 0 &&
          value.getValueAsDouble() <= kMaxLatencyUs))
      return emitError() << "expected a " << what << " from 0 to "
                         << kMaxLatencyUs << ", found " << value;
  if (channelsPerPeer < 0 || channelsPerPeer > dtrt::kMostChannels)
    return emitError() << "expected at most " << dtrt::kMostChannels
                       << " channels, found " << channelsPerPeer;
  if (links.size() > kMaxLinks)
    return emitError() << "found " << links.size()
                       << " links, more than the limit of " << kMaxLinks;
  for (const Link &link : links) {
    if (link.from.index < 0 || link.to.index < 0)
      return emitError() << "expected link ends from 0, found "
                         << std::min(link.from.index, link.to.index);
    if (link.from.index > kMaxDevice || link.to.index > kMaxDevice)
      return emitError() << "expected link ends up to " << kMaxDevice
                         << ", found "
                         << std::max(link.from.index, link.to.index);
    if (failed(verifyRate(emitError, link.GBps)))
      return failure();
  }
  return success();
}

// Whole numbers may go without the point.
static ParseResult parseNumber(AsmParser &parser, double &number) {
  int64_t whole = 0;
  OptionalParseResult isWhole = parser.parseOptionalInteger(whole);
  if (isWhole.has_value()) {
    if (failed(*isWhole))
      return failure();
    number = double(whole);
  } else if (parser.parseFloat(number)) {
    return failure();
  }
  return success();
}

// , name 25.0
static ParseResult parseRate(AsmParser &parser, llvm::StringRef name,
                             double &value) {
  return failure(parser.parseComma() || parser.parseKeyword(name) ||
                 parseNumber(parser, value));
}

// node 0, or device 9
static ParseResult parseLinkEnd(AsmParser &parser, LinkEnd &end) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  llvm::StringRef kind;
  if (failed(parser.parseOptionalKeyword(&kind, {"node", "device"})))
    return parser.emitError(loc, "expected 'node' or 'device'");
  end.isNode = kind == "node";
  return parser.parseInteger(end.index);
}

static ParseResult parseLink(AsmParser &parser, Link &link) {
  return failure(parseLinkEnd(parser, link.from) || parser.parseKeyword("to") ||
                 parseLinkEnd(parser, link.to) || parser.parseEqual() ||
                 parseNumber(parser, link.GBps));
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

// A word such as pxn, if it is there; `more`: whether something follows it.
static void parseFlag(AsmParser &parser, llvm::StringRef word, bool &flag,
                      bool &more) {
  flag = succeeded(parser.parseOptionalKeyword(word));
  if (flag)
    more = succeeded(parser.parseOptionalComma());
}

// launch 5.0, or another time, if it is there.
static ParseResult parseTime(AsmParser &parser, StringRef word, double &time,
                             bool &more) {
  if (failed(parser.parseOptionalKeyword(word)))
    return success();
  if (parseNumber(parser, time))
    return failure();
  more = succeeded(parser.parseOptionalComma());
  return success();
}

// channels 2 of 10.3 and 14.0, if they are there.
static ParseResult parseChannels(AsmParser &parser, Cluster &cluster,
                                 bool &more) {
  if (failed(parser.parseOptionalKeyword("channels")))
    return success();
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseInteger(cluster.channelsPerPeer))
    return failure();
  if (cluster.channelsPerPeer < 1)
    return parser.emitError(loc, "expected at least one channel, found ")
           << cluster.channelsPerPeer;
  if (parser.parseKeyword("of") ||
      parseNumber(parser, cluster.intraChannelGBps) ||
      parser.parseKeyword("and") ||
      parseNumber(parser, cluster.interChannelGBps))
    return failure();
  more = succeeded(parser.parseOptionalComma());
  return success();
}

// collectives library, or messages, if it is there; `more` as above.
static ParseResult parseCollectives(AsmParser &parser,
                                    dtrt::CollectiveChoice &choice,
                                    bool &more) {
  if (failed(parser.parseOptionalKeyword("collectives")))
    return success();
  StringRef word;
  SMLoc at = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  for (auto each :
       {dtrt::CollectiveChoice::Messages, dtrt::CollectiveChoice::Library})
    if (word == dtrt::collectiveChoiceName(each))
      choice = each;
  if (choice == dtrt::CollectiveChoice::Auto)
    return parser.emitError(at, "expected messages or library");
  more = succeeded(parser.parseOptionalComma());
  return success();
}

Attribute ClusterAttr::parse(AsmParser &parser, Type) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  Cluster cluster;
  if (parser.parseLess() || parser.parseInteger(cluster.devicesPerNode) ||
      parser.parseKeyword("per") || parser.parseKeyword("node") ||
      parseRate(parser, "intra", cluster.intraNodeGBps) ||
      parseRate(parser, "inter", cluster.interNodeGBps) ||
      parseRate(parser, "latency", cluster.latencyUs))
    return {};
  bool more = succeeded(parser.parseOptionalComma());
  if (more && failed(parsePerNic(parser, cluster.devicesPerNic, more)))
    return {};
  if (more)
    parseFlag(parser, "pxn", cluster.pxn, more);
  if (more && failed(parseTime(parser, "launch", cluster.launchUs, more)))
    return {};
  if (more && failed(parseChannels(parser, cluster, more)))
    return {};
  if (more)
    parseFlag(parser, "relays", cluster.relays, more);
  if (more && failed(parseCollectives(parser, cluster.collectives, more)))
    return {};
  if (more && failed(parseTime(parser, "multicast", cluster.multicastUs, more)))
    return {};
  if (more && succeeded(parser.parseOptionalKeyword("copy")) &&
      failed(parseTime(parser, "engine", cluster.copyEngineUs, more)))
    return {};
  if (more &&
      (parser.parseKeyword("links") ||
       parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
         return parseLink(parser, cluster.links.emplace_back());
       })))
    return {};
  if (parser.parseGreater())
    return {};
  Builder &builder = parser.getBuilder();
  return parser.getChecked<ClusterAttr>(
      loc, parser.getContext(), cluster.devicesPerNode,
      builder.getF64FloatAttr(cluster.intraNodeGBps),
      builder.getF64FloatAttr(cluster.interNodeGBps),
      builder.getF64FloatAttr(cluster.latencyUs), cluster.devicesPerNic,
      cluster.pxn, builder.getF64FloatAttr(cluster.launchUs),
      cluster.channelsPerPeer,
      builder.getF64FloatAttr(cluster.intraChannelGBps),
      builder.getF64FloatAttr(cluster.interChannelGBps), cluster.relays,
      cluster.collectives, builder.getF64FloatAttr(cluster.multicastUs),
      builder.getF64FloatAttr(cluster.copyEngineUs),
      ArrayRef<Link>(cluster.links));
}

// The shortest text that reads back as the same number, with the point that
// the lexer insists on: 200.0, 1.0e-07.
static void printNumber(AsmPrinter &printer, double value) {
  char buffer[32];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  llvm::StringRef text(buffer, end - buffer);
  auto [mantissa, exponent] = text.split('e');
  printer << mantissa << (mantissa.contains('.') ? "" : ".0");
  if (!exponent.empty())
    printer << "e" << exponent;
}

void ClusterAttr::print(AsmPrinter &printer) const {
  printer << "<" << getDevicesPerNode() << " per node, intra ";
  printNumber(printer, getIntra().getValueAsDouble());
  printer << ", inter ";
  printNumber(printer, getInter().getValueAsDouble());
  printer << ", latency ";
  printNumber(printer, getLatency().getValueAsDouble());
  if (getDevicesPerNic() != 1)
    printer << ", " << getDevicesPerNic() << " per nic";
  if (getPxn())
    printer << ", pxn";
  if (getLaunch().getValueAsDouble() != 0) {
    printer << ", launch ";
    printNumber(printer, getLaunch().getValueAsDouble());
  }
  if (getChannelsPerPeer() != 0) {
    printer << ", channels " << getChannelsPerPeer() << " of ";
    printNumber(printer, getIntraChannel().getValueAsDouble());
    printer << " and ";
    printNumber(printer, getInterChannel().getValueAsDouble());
  }
  if (getRelays())
    printer << ", relays";
  if (getCollectives() != dtrt::CollectiveChoice::Auto)
    printer << ", collectives " << dtrt::collectiveChoiceName(getCollectives());
  for (auto [what, time] : {std::make_pair("multicast", getMulticast()),
                            std::make_pair("copy engine", getCopyEngine())})
    if (time.getValueAsDouble() != 0) {
      printer << ", " << what << " ";
      printNumber(printer, time.getValueAsDouble());
    }
  if (!getLinks().empty()) {
    printer << ", links [";
    llvm::interleaveComma(getLinks(), printer, [&](const Link &link) {
      printer << (link.from.isNode ? "node " : "device ") << link.from.index
              << (link.to.isNode ? " to node " : " to device ") << link.to.index
              << " = ";
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
                                 int64_t deviceBytes, MemoryMode mode,
                                 Granularity granularity, int64_t pageBytes,
                                 bool /*overNccl*/) {
  if (granularity == Granularity::Tensor && mode != MemoryMode::Flat)
    return emitError() << "expected 'flat' where storage goes by tensor";
  if (pageBytes != 0 &&
      (mode != MemoryMode::Flat || granularity != Granularity::Page))
    return emitError() << "expected 'flat' where storage goes by page";
  if (pageBytes != 0 && !isPage(pageBytes))
    return emitError() << "expected a page of a power of two bytes from "
                       << kMinPageBytes << " to " << kMaxPageBytes << ", found "
                       << pageBytes;
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
  llvm::StringRef name;
  if (parser.parseLess() || parser.parseKeyword("staging") ||
      parser.parseInteger(staging) || parser.parseComma())
    return {};
  if (succeeded(parser.parseOptionalKeyword("device")) &&
      (parser.parseInteger(device) || parser.parseComma()))
    return {};
  llvm::SMLoc modeLoc = parser.getCurrentLocation();
  if (failed(parser.parseOptionalKeyword(&name, {"flat", "rollback"}))) {
    parser.emitError(modeLoc, "expected 'flat' or 'rollback'");
    return {};
  }
  MemoryMode mode = name == memoryModeName(MemoryMode::Flat)
                        ? MemoryMode::Flat
                        : MemoryMode::Rollback;
  Granularity granularity = Granularity::Page;
  int64_t page = 0;
  if (mode == MemoryMode::Flat &&
      succeeded(parser.parseOptionalKeyword("by"))) {
    if (succeeded(parser.parseOptionalKeyword("tensor")))
      granularity = Granularity::Tensor;
    else if (parser.parseKeyword("page", " or 'tensor'") ||
             parser.parseInteger(page))
      return {};
  }
  bool overNccl = succeeded(parser.parseOptionalKeyword("over"));
  if ((overNccl && parser.parseKeyword("nccl")) || parser.parseGreater())
    return {};
  return parser.getChecked<MemoryAttr>(loc, parser.getContext(), staging,
                                       device, mode, granularity, page,
                                       overNccl);
}

void MemoryAttr::print(AsmPrinter &printer) const {
  printer << "<staging " << getStagingBytes() << ", ";
  if (getDeviceBytes() != 0)
    printer << "device " << getDeviceBytes() << ", ";
  printer << memoryModeName(getMode(), getGranularity());
  if (getPageBytes() != 0)
    printer << " by page " << getPageBytes();
  if (getOverNccl())
    printer << " over nccl";
  printer << ">";
}

//===----------------------------------------------------------------------===//
// #dt.compression
//===----------------------------------------------------------------------===//

CompressionAttr CompressionAttr::get(MLIRContext *context,
                                     const dtrt::Compression &compression) {
  return get(context, Builder(context).getF64FloatAttr(compression.belowGBps),
             int64_t(compression.blockBytes));
}

dtrt::Compression CompressionAttr::toCompression() const {
  return {getBelow().getValueAsDouble(), uint64_t(getBlock())};
}

LogicalResult CompressionAttr::verify(EmitError emitError, FloatAttr below,
                                      int64_t block) {
  if (failed(verifyRate(emitError, below.getValueAsDouble())))
    return failure();
  auto least = int64_t(dtrt::Compression::kLeastBlock);
  auto most = int64_t(dtrt::Compression::kMostBlock);
  if (block < least || block > most)
    return emitError() << "expected a block from " << least << " to " << most
                       << " bytes, found " << block;
  return success();
}

Attribute CompressionAttr::parse(AsmParser &parser, Type) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  double below = 0;
  int64_t block = 0;
  if (parser.parseLess() || parser.parseKeyword("below") ||
      parseNumber(parser, below) || parser.parseComma() ||
      parser.parseKeyword("block") || parser.parseInteger(block) ||
      parser.parseGreater())
    return {};
  return parser.getChecked<CompressionAttr>(
      loc, parser.getContext(), parser.getBuilder().getF64FloatAttr(below),
      block);
}

void CompressionAttr::print(AsmPrinter &printer) const {
  printer << "<below ";
  printNumber(printer, getBelow().getValueAsDouble());
  printer << ", block " << getBlock() << ">";
}

} // namespace dt
