//===- TensorAttr.cpp - #dt.tensor ----------------------------------------===//
//
//   <"layers.{}.q_proj.weight" [0 step 1] order 1 + [9],
//    [{0:4 by 6 x 2, 12:13}, at 5, {0:64}] permute [2, 1, 0] parts [2]
//    fill [0xbf80]>
//
// `bounds` has per dim the number of intervals, then lo and hi of each; 0 and
// the index where the tensor does not have the dim. `permutation` is empty
// where each dim stands at its own place, `parts` where each is a dim of the
// tensor.
//
//===----------------------------------------------------------------------===//

#include "LeadingLists.h"
#include "RowText.h"
#include "TensorNames.h"

#include "dt/Geometry/Limits.h"
#include "dt/Geometry/Names.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using EmitError = llvm::function_ref<InFlightDiagnostic()>;

namespace dt {

TensorAttr TensorAttr::get(MLIRContext *context, StringAttr name, int64_t order,
                           const TensorView &view) {
  SmallVector<int64_t> bounds;
  for (const ViewDim &dim : view.dims) {
    if (dim.isIndex) {
      bounds.append({0, dim.intervals.front().lo});
      continue;
    }
    bounds.push_back(int64_t(dim.intervals.size()));
    for (Interval interval : dim.intervals)
      bounds.append({interval.lo, interval.hi});
  }
  std::vector<int64_t> permutation;
  if (!view.order.isIdentity())
    permutation = view.order.dims(view.dims.size());
  SmallVector<int64_t> parts(view.parts.begin(), view.parts.end());
  return get(context, name, /*first=*/{}, /*step=*/{}, /*lists=*/{}, order,
             /*orderStrides=*/{}, /*orderLists=*/{}, bounds, permutation, parts,
             view.fill);
}

std::vector<Sequence> TensorAttr::numbers() const {
  return sequencesOf(getFirst(), getStep(), getLists());
}

std::vector<Sequence> TensorAttr::orderOffsets() const {
  return sequencesOf({}, getOrderStrides(), getOrderLists());
}

TensorAttr TensorAttr::ofFamily(StringAttr name,
                                llvm::ArrayRef<Sequence> numbers,
                                llvm::ArrayRef<Sequence> offsets) const {
  SmallVector<int64_t> first, step, strides;
  for (const Sequence &sequence : numbers) {
    first.push_back(sequence.first);
    step.push_back(sequence.step);
  }
  for (const Sequence &sequence : offsets)
    strides.push_back(sequence.step);
  return get(getContext(), name, first, step, listsOf(numbers), getOrder(),
             strides, listsOf(offsets), getBounds(), getPermutation(),
             getParts(), getFill());
}

TensorView TensorAttr::toGeometry() const {
  TensorView view;
  llvm::ArrayRef<int64_t> rest = getBounds();
  while (!rest.empty()) {
    ViewDim &dim = view.dims.emplace_back();
    dim.isIndex = rest[0] == 0;
    if (dim.isIndex) {
      dim.intervals.push_back({rest[1], rest[1] + 1});
      rest = rest.drop_front(2);
      continue;
    }
    for (int64_t i = 0; i < rest[0]; ++i)
      dim.intervals.push_back({rest[1 + 2 * i], rest[2 + 2 * i]});
    rest = rest.drop_front(1 + 2 * rest[0]);
  }
  view.order = *Permutation::of(getPermutation().vec());
  view.parts.assign(getParts().begin(), getParts().end());
  view.fill = getFill().vec();
  return view;
}

static LogicalResult verifyBounds(EmitError emitError,
                                  llvm::ArrayRef<int64_t> bounds, size_t &rank,
                                  size_t &numOwn) {
  for (llvm::ArrayRef<int64_t> rest = bounds; !rest.empty(); ++rank) {
    numOwn += rest[0] != 0;
    size_t size = rest[0] == 0 ? 2 : 1 + 2 * rest[0];
    if (rest[0] < 0 || rest[0] > kMaxViewIntervals || size > rest.size())
      return emitError() << "has " << rest[0] << " intervals in a dim";
    for (int64_t end : rest.slice(1, size - 1))
      if (end < 0 || end > kMaxBytes)
        return emitError() << "has an end of " << end
                           << " in a dim, expected one from 0 to " << kMaxBytes;
    rest = rest.drop_front(size);
  }
  return success();
}

static LogicalResult verifyPermutation(EmitError emitError,
                                       llvm::ArrayRef<int64_t> permutation,
                                       size_t rank) {
  if (permutation.empty())
    return success();
  auto order = Permutation::of(permutation.vec());
  if (permutation.size() == rank && order && !order->isIdentity())
    return success();
  return emitError() << "has dims [" << permutation << "] of " << rank
                     << ", expected each once, and not all in their order";
}

static LogicalResult verifyParts(EmitError emitError,
                                 llvm::ArrayRef<int64_t> parts, size_t numOwn) {
  bool areSmall = llvm::all_of(parts, [](int64_t part) {
    return part > 0 && part <= int64_t(kMaxRank);
  });
  if (areSmall && dtrt::areParts({parts.begin(), parts.end()}, numOwn))
    return success();
  return emitError() << "has dims of [" << parts << "] of its " << numOwn
                     << " dims, expected them all, and two in one";
}

std::string TensorAttr::memberName(llvm::ArrayRef<int64_t> member) const {
  return withNumbers(getName().getValue(), getFirst(), getStep(), getLists(),
                     member);
}

LogicalResult TensorAttr::verify(
    EmitError emitError, StringAttr name, llvm::ArrayRef<int64_t> first,
    llvm::ArrayRef<int64_t> step, llvm::ArrayRef<int64_t> lists, int64_t,
    llvm::ArrayRef<int64_t> orderStrides, llvm::ArrayRef<int64_t> orderLists,
    llvm::ArrayRef<int64_t> bounds, llvm::ArrayRef<int64_t> permutation,
    llvm::ArrayRef<int64_t> parts, llvm::ArrayRef<uint64_t> fill) {
  if (std::string problem = problemOfName(name.getValue(), first.size());
      !problem.empty())
    return emitError() << "the tensor has a name that " << problem;
  if (step.size() != first.size() ||
      (!orderStrides.empty() && orderStrides.size() != first.size()))
    return emitError() << "tensor " << name << " has " << first.size()
                       << " numbers, " << step.size() << " steps and "
                       << orderStrides.size() << " order strides";
  for (auto [of, from] : {std::pair(lists, step), {orderLists, orderStrides}})
    if (std::string problem = problemOfLists(
            of == lists ? first : llvm::ArrayRef<int64_t>(), from, of);
        !problem.empty())
      return emitError() << "tensor " << name << " " << problem;
  for (unsigned d = 0; d < step.size(); ++d)
    if (step[d] == 0 && listOf(lists, d).empty())
      return emitError() << "tensor " << name
                         << " has a step of 0, expected distinct numbers";
  size_t rank = 0, numOwn = 0;
  if (failed(verifyBounds(emitError, bounds, rank, numOwn)) ||
      failed(verifyPermutation(emitError, permutation, rank)))
    return failure();
  if (!fill.empty() && llvm::all_of(fill, [](uint64_t bits) { return !bits; }))
    return emitError() << "tensor " << name << " has a fill of zeros alone";
  return verifyParts(emitError, parts, numOwn);
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

// 0:4 by 6 x 2
static ParseResult parseRun(AsmParser &parser,
                            SmallVectorImpl<int64_t> &bounds) {
  int64_t lo = 0, hi = 0, step = 0, count = 1;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseInteger(lo) || parser.parseColon() || parser.parseInteger(hi))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("by")) &&
      (parser.parseInteger(step) || parser.parseKeyword("x") ||
       parser.parseInteger(count)))
    return failure();
  if (count < 1 || count > kMaxViewIntervals)
    return parser.emitError(loc) << "expected 1 to " << kMaxViewIntervals
                                 << " intervals, found " << count;
  for (int64_t i = 0; i < count; ++i) {
    int64_t shift = 0, from = 0, to = 0;
    if (__builtin_mul_overflow(i, step, &shift) ||
        __builtin_add_overflow(lo, shift, &from) ||
        __builtin_add_overflow(hi, shift, &to))
      return parser.emitError(loc) << "the intervals overflow 64 bits";
    bounds.append({from, to});
  }
  return success();
}

static ParseResult parseViewDim(AsmParser &parser,
                                SmallVectorImpl<int64_t> &bounds) {
  size_t start = bounds.size();
  bounds.push_back(0);
  if (succeeded(parser.parseOptionalKeyword("at")))
    return parser.parseInteger(bounds.emplace_back());
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces,
                                     [&] { return parseRun(parser, bounds); }))
    return failure();
  bounds[start] = int64_t(bounds.size() - start) / 2;
  if (bounds[start] == 0)
    return parser.emitError(loc) << "expected intervals, found none";
  return success();
}

Attribute TensorAttr::parse(AsmParser &parser, Type) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  std::string name;
  SmallVector<int64_t> first, step, lists, orderStrides, orderLists, bounds,
      permutation, parts;
  int64_t order = 0;
  if (parser.parseLess() || parser.parseString(&name) ||
      parseNumbers(parser, first, step, lists) ||
      parser.parseKeyword("order") || parser.parseInteger(order) ||
      parseOffsets(parser, orderStrides, orderLists))
    return {};
  if (parser.parseComma() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
        return parseViewDim(parser, bounds);
      }))
    return {};
  if (succeeded(parser.parseOptionalKeyword("permute")) &&
      parseIntList(parser, permutation))
    return {};
  if (succeeded(parser.parseOptionalKeyword("parts")) &&
      parseIntList(parser, parts))
    return {};
  SmallVector<uint64_t> fill;
  if (succeeded(parser.parseOptionalKeyword("fill")) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
        return parser.parseInteger(fill.emplace_back());
      }))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<TensorAttr>(
      loc, parser.getContext(), StringAttr::get(parser.getContext(), name),
      ArrayRef<int64_t>(first), ArrayRef<int64_t>(step),
      ArrayRef<int64_t>(lists), order, ArrayRef<int64_t>(orderStrides),
      ArrayRef<int64_t>(orderLists), ArrayRef<int64_t>(bounds),
      ArrayRef<int64_t>(permutation), ArrayRef<int64_t>(parts),
      ArrayRef<uint64_t>(fill));
}

// Of intervals of one size at one distance, how many follow each other.
static size_t runLength(llvm::ArrayRef<Interval> intervals) {
  size_t count = 1;
  for (; count < intervals.size(); ++count) {
    Interval last = intervals[count - 1], next = intervals[count];
    if (next.size() != intervals[0].size() ||
        next.lo - last.lo != intervals[1].lo - intervals[0].lo)
      break;
  }
  return count;
}

static void printViewDim(llvm::raw_ostream &os, const ViewDim &dim) {
  if (dim.isIndex) {
    os << "at " << dim.intervals.front().lo;
    return;
  }
  os << "{";
  llvm::ArrayRef<Interval> rest = dim.intervals;
  while (!rest.empty()) {
    size_t count = runLength(rest);
    os << rest[0].lo << ":" << rest[0].hi;
    if (count > 1)
      os << " by " << rest[1].lo - rest[0].lo << " x " << count;
    rest = rest.drop_front(count);
    os << (rest.empty() ? "" : ", ");
  }
  os << "}";
}

void TensorAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printString(getName());
  printNumbers(printer.getStream(), getFirst(), getStep(), getLists());
  printer << " order " << getOrder();
  printOffsets(printer.getStream(), getOrderStrides(), getOrderLists());
  printer << ", [";
  TensorView view = toGeometry();
  llvm::interleaveComma(view.dims, printer, [&](const ViewDim &dim) {
    printViewDim(printer.getStream(), dim);
  });
  printer << "]";
  if (!getPermutation().empty()) {
    printer << " permute ";
    printIntList(printer.getStream(), getPermutation());
  }
  if (!getParts().empty()) {
    printer << " parts ";
    printIntList(printer.getStream(), getParts());
  }
  if (!getFill().empty()) {
    printer << " fill [";
    llvm::interleaveComma(getFill(), printer, [&](uint64_t bits) {
      printer << "0x" << llvm::utohexstr(bits, /*LowerCase=*/true);
    });
    printer << "]";
  }
  printer << ">";
}

} // namespace dt
