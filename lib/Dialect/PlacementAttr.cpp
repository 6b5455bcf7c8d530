//===- PlacementAttr.cpp - #dt.placement and its parts --------------------===//
//
//   [{}, {"pp" cuts [0, 17, 32], "fsdp" chunk} extent 64] at {"cp" = [0]}
//     flat ["dp"]
//
//===----------------------------------------------------------------------===//

#include "RowText.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using EmitError = llvm::function_ref<InFlightDiagnostic()>;

namespace dt {

static ParseResult parseName(AsmParser &parser, StringAttr &name) {
  std::string text;
  if (parser.parseString(&text))
    return failure();
  name = StringAttr::get(parser.getContext(), text);
  return success();
}

//===----------------------------------------------------------------------===//
// #dt.split
//===----------------------------------------------------------------------===//

static SplitAttr parseSplit(AsmParser &parser) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  StringAttr axis;
  SmallVector<int64_t> cuts, owners, blocks, replicas;
  if (parseName(parser, axis))
    return {};
  if (succeeded(parser.parseOptionalKeyword("cuts")) &&
      parseIntList(parser, cuts))
    return {};
  if (succeeded(parser.parseOptionalKeyword("owners")) &&
      parseIntList(parser, owners))
    return {};
  if (succeeded(parser.parseOptionalKeyword("blocks")) &&
      parseIntList(parser, blocks))
    return {};
  if (succeeded(parser.parseOptionalKeyword("replicas")) &&
      parseIntList(parser, replicas))
    return {};
  bool chunk = succeeded(parser.parseOptionalKeyword("chunk"));
  return parser.getChecked<SplitAttr>(
      loc, parser.getContext(), axis, ArrayRef<int64_t>(cuts),
      ArrayRef<int64_t>(owners), ArrayRef<int64_t>(blocks), chunk,
      ArrayRef<int64_t>(replicas));
}

static void printSplit(AsmPrinter &printer, SplitAttr split) {
  printer.printString(split.getAxis());
  auto printList = [&](llvm::StringRef name, llvm::ArrayRef<int64_t> values) {
    if (values.empty())
      return;
    printer << " " << name << " ";
    printIntList(printer.getStream(), values);
  };
  printList("cuts", split.getCuts());
  printList("owners", split.getOwners());
  printList("blocks", split.getBlocks());
  printList("replicas", split.getReplicas());
  if (split.getChunk())
    printer << " chunk";
}

Attribute SplitAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  SplitAttr split = parseSplit(parser);
  if (!split || parser.parseGreater())
    return {};
  return split;
}

void SplitAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printSplit(printer, *this);
  printer << ">";
}

LogicalResult SplitAttr::verify(EmitError emitError, StringAttr axis,
                                llvm::ArrayRef<int64_t> cuts,
                                llvm::ArrayRef<int64_t> owners,
                                llvm::ArrayRef<int64_t> blocks, bool chunk,
                                llvm::ArrayRef<int64_t> replicas) {
  if (!cuts.empty() && (cuts.size() < 2 || cuts.front() != 0))
    return emitError() << "the cuts over axis " << axis
                       << " need a 0 and an end, found " << cuts.front();
  for (size_t i = 1; i < cuts.size(); ++i)
    if (cuts[i] < cuts[i - 1])
      return emitError() << "the cuts over axis " << axis << " decrease from "
                         << cuts[i - 1] << " to " << cuts[i];
  if (!cuts.empty() && !owners.empty() && owners.size() + 1 != cuts.size())
    return emitError() << "axis " << axis << " has " << owners.size()
                       << " owners for " << cuts.size() - 1 << " pieces";
  for (int64_t owner : owners)
    if (owner < 0)
      return emitError() << "expected owners from 0 on axis " << axis
                         << ", found " << owner;
  for (int64_t block : blocks)
    if (block <= 0)
      return emitError() << "expected positive blocks on axis " << axis
                         << ", found " << block;
  if (!replicas.empty() &&
      (replicas.size() != blocks.size() || !cuts.empty() || !owners.empty()))
    return emitError() << "axis " << axis << " has " << replicas.size()
                       << " numbers of replicas, expected one for each of "
                       << blocks.size() << " blocks, in equal pieces";
  for (int64_t times : replicas)
    if (times <= 0)
      return emitError() << "expected positive replicas on axis " << axis
                         << ", found " << times;
  if (chunk && !cuts.empty())
    return emitError() << "axis " << axis
                       << " has both cuts and chunk, expected one of them";
  return success();
}

//===----------------------------------------------------------------------===//
// #dt.dim and #dt.restriction
//===----------------------------------------------------------------------===//

static DimAttr parseDim(AsmParser &parser) {
  SmallVector<SplitAttr> splits;
  int64_t extent = 0;
  auto parseOne = [&]() -> ParseResult {
    return success(bool(splits.emplace_back(parseSplit(parser))));
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, parseOne))
    return {};
  if (succeeded(parser.parseOptionalKeyword("extent"))) {
    llvm::SMLoc loc = parser.getCurrentLocation();
    if (parser.parseInteger(extent))
      return {};
    if (extent <= 0) {
      parser.emitError(loc) << "expected a positive extent, found " << extent;
      return {};
    }
  }
  return DimAttr::get(parser.getContext(), splits, extent);
}

static void printDim(AsmPrinter &printer, DimAttr dim) {
  printer << "{";
  llvm::interleaveComma(dim.getSplits(), printer,
                        [&](SplitAttr split) { printSplit(printer, split); });
  printer << "}";
  if (dim.getExtent() != 0)
    printer << " extent " << dim.getExtent();
}

Attribute DimAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  DimAttr dim = parseDim(parser);
  if (!dim || parser.parseGreater())
    return {};
  return dim;
}

void DimAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printDim(printer, *this);
  printer << ">";
}

static RestrictionAttr parseRestriction(AsmParser &parser) {
  StringAttr axis;
  SmallVector<int64_t> coordinates;
  if (parseName(parser, axis) || parser.parseEqual() ||
      parseIntList(parser, coordinates))
    return {};
  return RestrictionAttr::get(parser.getContext(), axis, coordinates);
}

static void printRestriction(AsmPrinter &printer, RestrictionAttr attr) {
  printer.printString(attr.getAxis());
  printer << " = ";
  printIntList(printer.getStream(), attr.getCoordinates());
}

Attribute RestrictionAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  RestrictionAttr restriction = parseRestriction(parser);
  if (!restriction || parser.parseGreater())
    return {};
  return restriction;
}

void RestrictionAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printRestriction(printer, *this);
  printer << ">";
}

//===----------------------------------------------------------------------===//
// #dt.placement
//===----------------------------------------------------------------------===//

PlacementAttr PlacementAttr::get(MLIRContext *context,
                                 const Placement &placement) {
  SmallVector<DimAttr> dims;
  for (const DimPlacement &dim : placement.dims) {
    SmallVector<SplitAttr> splits;
    for (const Split &split : dim.splits)
      splits.push_back(SplitAttr::get(
          context, StringAttr::get(context, split.axis), split.cuts,
          split.owners, split.blocks, split.chunk, split.replicas));
    dims.push_back(DimAttr::get(context, splits, dim.extent));
  }
  SmallVector<RestrictionAttr> at;
  for (const AxisRestriction &restriction : placement.at)
    at.push_back(RestrictionAttr::get(
        context, StringAttr::get(context, restriction.axis),
        restriction.coordinates));
  SmallVector<StringAttr> flat;
  for (const std::string &axis : placement.flatAxes)
    flat.push_back(StringAttr::get(context, axis));
  return get(context, dims, at, flat);
}

Placement PlacementAttr::toGeometry() const {
  Placement placement;
  for (DimAttr dim : getDims()) {
    DimPlacement &target = placement.dims.emplace_back();
    target.extent = dim.getExtent();
    for (SplitAttr split : dim.getSplits())
      target.splits.push_back({split.getAxis().str(), split.getCuts().vec(),
                               split.getOwners().vec(), split.getBlocks().vec(),
                               split.getChunk(), split.getReplicas().vec()});
  }
  for (RestrictionAttr restriction : getAt())
    placement.at.push_back(
        {restriction.getAxis().str(), restriction.getCoordinates().vec()});
  for (StringAttr axis : getFlat())
    placement.flatAxes.push_back(axis.str());
  return placement;
}

Attribute PlacementAttr::parseBody(AsmParser &parser) {
  SmallVector<DimAttr> dims;
  SmallVector<RestrictionAttr> at;
  SmallVector<StringAttr> flat;
  auto parseOneDim = [&]() -> ParseResult {
    return success(bool(dims.emplace_back(parseDim(parser))));
  };
  auto parseOneAt = [&]() -> ParseResult {
    return success(bool(at.emplace_back(parseRestriction(parser))));
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOneDim))
    return {};
  if (succeeded(parser.parseOptionalKeyword("at")) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, parseOneAt))
    return {};
  if (succeeded(parser.parseOptionalKeyword("flat")) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
        return parseName(parser, flat.emplace_back());
      }))
    return {};
  return PlacementAttr::get(parser.getContext(), dims, at, flat);
}

void PlacementAttr::printBody(AsmPrinter &printer) const {
  printer << "[";
  llvm::interleaveComma(getDims(), printer,
                        [&](DimAttr dim) { printDim(printer, dim); });
  printer << "]";
  if (!getAt().empty()) {
    printer << " at {";
    llvm::interleaveComma(getAt(), printer, [&](RestrictionAttr restriction) {
      printRestriction(printer, restriction);
    });
    printer << "}";
  }
  if (!getFlat().empty()) {
    printer << " flat [";
    llvm::interleaveComma(getFlat(), printer,
                          [&](StringAttr axis) { printer.printString(axis); });
    printer << "]";
  }
}

Attribute PlacementAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  Attribute result = parseBody(parser);
  if (!result || parser.parseGreater())
    return {};
  return result;
}

void PlacementAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printBody(printer);
  printer << ">";
}

} // namespace dt
