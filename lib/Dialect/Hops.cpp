//===- Hops.cpp - The hops of a transfer ----------------------------------===//

#include "Hops.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace dt {

namespace {
/// Numbers of each hop in the attribute.
constexpr size_t kPerHop = 3; // hop, classes, rows
} // namespace

std::string problemOfHops(PiecesAttr pieces, ArrayRef<int64_t> hops) {
  if (hops.empty())
    return "";
  int64_t classes = 0, rows = 0, last = 0;
  bool areWhole = hops.size() % kPerHop == 0;
  for (size_t at = 0; areWhole && at < hops.size(); at += kPerHop) {
    if (at > 0 && hops[at] <= last)
      return "has hop " + std::to_string(hops[at]) + " behind hop " +
             std::to_string(last) + ", expected them in order";
    last = hops[at];
    areWhole = hops[at + 1] >= 0 && hops[at + 2] >= 0;
    areWhole &= !__builtin_add_overflow(classes, hops[at + 1], &classes);
    areWhole &= !__builtin_add_overflow(rows, hops[at + 2], &rows);
  }
  RowsAttr all = pieces.getRows();
  if (areWhole && classes == int64_t(all.decodeClasses().size()) &&
      rows == int64_t(all.getTable().size() / all.getNumColumns()))
    return "";
  return "has hops that are not of its pieces";
}

SmallVector<HopPieces, 1> splitHops(PiecesAttr pieces, ArrayRef<int64_t> hops) {
  if (hops.size() <= kPerHop)
    return {{hops.empty() ? 0 : hops.front(), pieces}};
  SmallVector<HopPieces, 1> out;
  RowSet all = pieces.toRowSet();
  auto nextClass = all.classes.begin();
  auto nextRow = all.table.begin();
  for (; !hops.empty(); hops = hops.drop_front(kPerHop)) {
    RowSet own;
    own.numColumns = all.numColumns;
    auto classEnd = nextClass + hops[1];
    own.classes.assign(std::make_move_iterator(nextClass),
                       std::make_move_iterator(classEnd));
    auto rowEnd = nextRow + hops[2] * int64_t(all.numColumns);
    own.table.assign(nextRow, rowEnd);
    nextClass = classEnd;
    nextRow = rowEnd;
    out.push_back(
        {hops[0], PiecesAttr::get(pieces.getContext(), own, pieces.getRank())});
  }
  return out;
}

PiecesAttr joinHops(ArrayRef<HopPieces> parts, SmallVectorImpl<int64_t> &hops) {
  hops.clear();
  SmallVector<HopPieces> inOrder(parts);
  llvm::stable_sort(inOrder, [](const HopPieces &a, const HopPieces &b) {
    return a.hop < b.hop;
  });
  PiecesAttr first = inOrder.front().pieces;
  RowSet all;
  all.numColumns = first.getRows().getNumColumns();
  for (const HopPieces &part : inOrder) {
    RowSet own = part.pieces.toRowSet();
    if (hops.empty() || hops[hops.size() - kPerHop] != part.hop)
      hops.append({part.hop, 0, 0});
    hops[hops.size() - 2] += int64_t(own.classes.size());
    hops[hops.size() - 1] += int64_t(own.table.size() / all.numColumns);
    llvm::append_range(all.classes, own.classes);
    llvm::append_range(all.table, own.table);
  }
  if (hops.size() == kPerHop && hops.front() == 0)
    hops.clear();
  if (inOrder.size() == 1)
    return first;
  return PiecesAttr::get(first.getContext(), all, first.getRank());
}

ParseResult parseHops(OpAsmParser &parser, PiecesAttr &pieces,
                      llvm::SmallVector<int64_t> &hops) {
  SmallVector<HopPieces, 1> parts;
  auto parsePart = [&]() -> ParseResult {
    HopPieces &part = parts.emplace_back();
    if (parser.parseCustomAttributeWithFallback(part.pieces))
      return failure();
    if (succeeded(parser.parseOptionalKeyword("hop")))
      return parser.parseInteger(part.hop);
    return success();
  };
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(parsePart))
    return failure();
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].pieces.getRank() != parts[0].pieces.getRank())
      return parser.emitError(loc)
             << "has pieces of " << parts[0].pieces.getRank() << " and of "
             << parts[i].pieces.getRank() << " dims";
    if (parts[i].hop <= parts[i - 1].hop)
      return parser.emitError(loc)
             << "has hop " << parts[i].hop << " behind hop " << parts[i - 1].hop
             << ", expected them in order";
  }
  pieces = joinHops(parts, hops);
  return success();
}

void printHops(OpAsmPrinter &printer, Operation *, PiecesAttr pieces,
               ArrayRef<int64_t> hops) {
  auto print = [&](const HopPieces &part) {
    printer.printStrippedAttrOrType(part.pieces);
    if (part.hop != 0)
      printer << " hop " << part.hop;
  };
  llvm::interleave(splitHops(pieces, hops), print, [&] {
    printer << ",";
    printer.printNewline();
    printer << "  ";
  });
}

} // namespace dt
