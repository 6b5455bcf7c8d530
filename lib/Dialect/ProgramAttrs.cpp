//===- ProgramAttrs.cpp - #dt.shard, #dt.view, #dt.call and !dt.buffer ----===//

#include "RowText.h"

#include "dt/Dialect/Collectives.h"
#include "dt/Geometry/Limits.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using EmitError = llvm::function_ref<InFlightDiagnostic()>;

namespace dt {

//===----------------------------------------------------------------------===//
// #dt.shard
//===----------------------------------------------------------------------===//

ShardAttr ShardAttr::get(MLIRContext *context, const Shard &shard) {
  SmallVector<int64_t> counts, bounds;
  for (const std::vector<Interval> &intervals : shard.dims) {
    counts.push_back(intervals.size());
    for (Interval interval : intervals) {
      bounds.push_back(interval.lo);
      bounds.push_back(interval.hi);
    }
  }
  Interval range = shard.range.value_or(Interval{kNoRange, kNoRange});
  return get(context, counts, bounds, shard.numLeading, range.lo, range.hi);
}

Shard ShardAttr::toGeometry() const {
  Shard shard;
  llvm::ArrayRef<int64_t> bounds = getBounds();
  for (int64_t count : getCounts()) {
    std::vector<Interval> &intervals = shard.dims.emplace_back();
    for (int64_t i = 0; i < count; ++i, bounds = bounds.drop_front(2))
      intervals.push_back({bounds[0], bounds[1]});
  }
  shard.numLeading = getLeading();
  if (getLo() != kNoRange)
    shard.range = Interval{getLo(), getHi()};
  return shard;
}

LogicalResult ShardAttr::verify(EmitError emitError,
                                llvm::ArrayRef<int64_t> counts,
                                llvm::ArrayRef<int64_t> bounds, int64_t leading,
                                int64_t lo, int64_t hi) {
  if (leading < 0 || leading > int64_t(counts.size()))
    return emitError() << "found " << leading << " leading dims of "
                       << counts.size() << " dims";
  for (size_t i = 0; i + 1 < bounds.size(); i += 2)
    if (bounds[i] < 0 || bounds[i] >= bounds[i + 1])
      return emitError() << "expected non-empty intervals from 0, found "
                         << bounds[i] << ":" << bounds[i + 1];
  if (lo != kNoRange && (lo < 0 || lo > hi))
    return emitError() << "expected a range from 0, found " << lo << ":" << hi;
  return success();
}

static ParseResult parseInterval(AsmParser &parser, int64_t &lo, int64_t &hi) {
  return failure(parser.parseInteger(lo) || parser.parseColon() ||
                 parser.parseInteger(hi));
}

Attribute ShardAttr::parse(AsmParser &parser, Type) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  SmallVector<int64_t> counts, bounds;
  int64_t leading = 0, lo = kNoRange, hi = kNoRange;
  auto parseOne = [&]() -> ParseResult {
    int64_t first = 0, last = 0;
    if (parseInterval(parser, first, last))
      return failure();
    ++counts.back();
    bounds.append({first, last});
    return success();
  };
  auto parseDim = [&]() -> ParseResult {
    counts.push_back(0);
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                          parseOne);
  };
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseDim))
    return {};
  if (succeeded(parser.parseOptionalKeyword("leading")) &&
      parser.parseInteger(leading))
    return {};
  if (succeeded(parser.parseOptionalKeyword("range")) &&
      parseInterval(parser, lo, hi))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<ShardAttr>(
      loc, parser.getContext(), ArrayRef<int64_t>(counts),
      ArrayRef<int64_t>(bounds), leading, lo, hi);
}

void ShardAttr::print(AsmPrinter &printer) const {
  llvm::ArrayRef<int64_t> bounds = getBounds();
  printer << "<[";
  llvm::interleaveComma(getCounts(), printer, [&](int64_t count) {
    printer << "[";
    for (int64_t i = 0; i < count; ++i, bounds = bounds.drop_front(2))
      printer << (i ? ", " : "") << bounds[0] << ":" << bounds[1];
    printer << "]";
  });
  printer << "]";
  if (getLeading() != 0)
    printer << " leading " << getLeading();
  if (getLo() != kNoRange)
    printer << " range " << getLo() << ":" << getHi();
  printer << ">";
}

//===----------------------------------------------------------------------===//
// #dt.view
//===----------------------------------------------------------------------===//

ViewAttr ViewAttr::get(MLIRContext *context, const Box &box, ArrayAttr states) {
  SmallVector<int64_t> offset, size;
  for (unsigned d = 0; d < box.rank(); ++d) {
    offset.push_back(box[d].lo);
    size.push_back(box[d].size());
  }
  return get(context, offset, size, states);
}

Box ViewAttr::toBox() const {
  return Box::fromOffsetSize(getOffset().vec(), getSize().vec());
}

LogicalResult ViewAttr::verify(EmitError emitError,
                               llvm::ArrayRef<int64_t> offset,
                               llvm::ArrayRef<int64_t> size, ArrayAttr states) {
  if (offset.size() != size.size())
    return emitError() << "the offset has " << offset.size()
                       << " dims but the size has " << size.size();
  if (offset.size() > kMaxRank)
    return emitError() << "has " << offset.size()
                       << " dims, more than the limit of " << kMaxRank;
  for (auto [lo, extent] : llvm::zip(offset, size))
    if (lo < 0 || extent <= 0)
      return emitError() << "expected offsets from 0 and positive sizes, found "
                         << lo << " and " << extent;
  if (states && !llvm::all_of(states, llvm::IsaPred<StringAttr>))
    return emitError() << "expected names of states, found " << states;
  return success();
}

Attribute ViewAttr::parse(AsmParser &parser, Type) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  SmallVector<int64_t> offset, size;
  ArrayAttr states;
  if (parser.parseLess() || parseIntList(parser, offset) ||
      parser.parseKeyword("size") || parseIntList(parser, size))
    return {};
  if (succeeded(parser.parseOptionalKeyword("for")) &&
      parser.parseAttribute(states))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<ViewAttr>(loc, parser.getContext(),
                                     ArrayRef<int64_t>(offset),
                                     ArrayRef<int64_t>(size), states);
}

void ViewAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printIntList(printer.getStream(), getOffset());
  printer << " size ";
  printIntList(printer.getStream(), getSize());
  if (getStates())
    printer << " for " << getStates();
  printer << ">";
}

//===----------------------------------------------------------------------===//
// #dt.call
//===----------------------------------------------------------------------===//

int64_t CallAttr::bytesGiven(int64_t device) const {
  return getBlockBytes() *
         int64_t(dtrt::blocksGiven(*callKindOf(getKind()), getMembers().size(),
                                   getRoot() == device));
}

int64_t CallAttr::bytesGot(int64_t device) const {
  return getBlockBytes() *
         int64_t(dtrt::blocksGot(*callKindOf(getKind()), getMembers().size(),
                                 getRoot() == device));
}

LogicalResult CallAttr::verify(EmitError emitError, Pattern kind,
                               llvm::ArrayRef<int64_t> members, int64_t root,
                               int64_t blockBytes) {
  auto fail = [&] { return emitError() << "a call "; };
  if (failed(verifyCall(fail, kind, members, root)))
    return failure();
  int64_t most = kMaxBytes / int64_t(members.size());
  if (blockBytes < 1 || blockBytes > most)
    return fail() << "has blocks of " << blockBytes << " bytes, expected 1 to "
                  << most;
  return success();
}

Attribute CallAttr::parse(AsmParser &parser, Type) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  SmallVector<int64_t> members;
  int64_t root = kNoRoot, blockBytes = 0;
  if (parser.parseLess())
    return {};
  FailureOr<Pattern> kind = FieldParser<Pattern>::parse(parser);
  if (failed(kind) || parser.parseKeyword("among") ||
      parseIntList(parser, members))
    return {};
  if (succeeded(parser.parseOptionalKeyword("from")) &&
      parser.parseInteger(root))
    return {};
  if (parser.parseKeyword("blocks") || parser.parseInteger(blockBytes) ||
      parser.parseGreater())
    return {};
  return parser.getChecked<CallAttr>(loc, parser.getContext(), *kind,
                                     ArrayRef<int64_t>(members), root,
                                     blockBytes);
}

void CallAttr::print(AsmPrinter &printer) const {
  printer << "<" << keywordOf(getKind()) << " among ";
  printIntList(printer.getStream(), getMembers());
  if (getRoot() != kNoRoot)
    printer << " from " << getRoot();
  printer << " blocks " << getBlockBytes() << ">";
}

//===----------------------------------------------------------------------===//
// !dt.buffer
//===----------------------------------------------------------------------===//

LogicalResult BufferType::verify(EmitError emitError, int64_t bytes) {
  if (bytes < 0)
    return emitError() << "expected a size from 0 bytes, found " << bytes;
  return success();
}

} // namespace dt
