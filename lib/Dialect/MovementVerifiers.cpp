//===- MovementVerifiers.cpp - Ops on pieces against their transition -----===//
//
// Pieces name devices and boxes: the devices belong to the layouts of the
// transition, the boxes lie inside the param. Whether the pieces are the right
// ones is a fact of the whole program and belongs to a pass.
//
//===----------------------------------------------------------------------===//

#include "PieceChecks.h"

using namespace mlir;

namespace dt {

//===----------------------------------------------------------------------===//
// dt.transition: its layouts, and the devices that ops inside name
//===----------------------------------------------------------------------===//

namespace {
/// The devices of one layout.
class DeviceSet {
public:
  DeviceSet(LayoutOp layout, SymbolTableCollection &tables)
      : world(layout.getWorld()) {
    if (std::optional<ArrayRef<int64_t>> devices = layout.lookupDevices(tables))
      sorted.assign(devices->begin(), devices->end());
    llvm::sort(sorted);
  }

  /// All devices from lo to hi; false is no answer where numbers have gaps.
  bool containsAll(int64_t lo, int64_t hi) const {
    if (sorted.empty())
      return hi < world;
    bool hasGaps = sorted.back() - sorted.front() + 1 != int64_t(sorted.size());
    return !hasGaps && sorted.front() <= lo && hi <= sorted.back();
  }

  bool contains(int64_t device) const {
    if (sorted.empty())
      return device < world;
    return std::binary_search(sorted.begin(), sorted.end(), device);
  }

private:
  int64_t world;
  std::vector<int64_t> sorted; // empty: the ranks themselves
};

enum Sides : unsigned { kSource = 1, kDestination = 2, kEither = 3 };
} // namespace

// Where the two ends of an op's pieces of a hop must lie. Later hops read from
// devices that earlier ones filled.
static std::pair<Sides, Sides> endsOf(Operation *op, int64_t hop) {
  if (isa<ZeroOp>(op))
    return {kDestination, kDestination};
  if (isa<KeepOp, CopyOp>(op) || (isa<TransferOp>(op) && hop == 0))
    return {kSource, kDestination};
  // A relay may be of any world.
  auto message = dyn_cast<SendrecvOp>(op);
  if (message && message.getToRelay())
    return {kEither, kEither};
  return {kEither, kDestination};
}

static SmallVector<HopPieces, 1> partsOf(MovementOpInterface op) {
  if (auto transfer = dyn_cast<TransferOp>(op.getOperation()))
    return transfer.byHop();
  return {{0, op.getPieces()}};
}

static LogicalResult verifyDevices(Operation *op, PiecesAttr pieces,
                                   const Row &lo, const Row &hi,
                                   unsigned column, Sides sides,
                                   const DeviceSet &source,
                                   const DeviceSet &destination) {
  // Nearly always the bounds tell, and a million rows need no list.
  if ((sides & kSource && source.containsAll(lo[column], hi[column])) ||
      (sides & kDestination && destination.containsAll(lo[column], hi[column])))
    return success();
  for (int64_t device : pieces.getRows().distinct(column)) {
    if ((sides & kSource && source.contains(device)) ||
        (sides & kDestination && destination.contains(device)))
      continue;
    StringRef where = sides == kSource        ? "the source layout"
                      : sides == kDestination ? "the destination layout"
                                              : "both layouts";
    return op->emitOpError()
           << "has pieces " << (column == PiecesAttr::kFrom ? "from" : "to")
           << " device " << device << ", which is not in " << where;
  }
  return success();
}

/// The devices of ops on storage.
static LogicalResult verifyStorageDevices(Operation *op,
                                          const DeviceSet &source,
                                          const DeviceSet &destination) {
  PiecesAttr pieces;
  Sides side = kSource;
  if (auto create = dyn_cast<CreateOp>(op)) {
    pieces = create.getPieces();
    side = kDestination;
  } else if (auto release = dyn_cast<ReleaseOp>(op)) {
    pieces = release.getPieces();
  }
  Row lo, hi;
  if (!pieces || !pieces.getRows().bounds(lo, hi))
    return success();
  return verifyDevices(op, pieces, lo, hi, PiecesAttr::kFrom, side, source,
                       destination);
}

static LogicalResult verifyLayouts(TransitionOp op, LayoutOp source,
                                   LayoutOp destination) {
  if (!source)
    return op.emitOpError()
           << "names " << op.getSourceAttr() << ", which is not a dt.layout";
  if (!destination)
    return op.emitOpError() << "names " << op.getDestinationAttr()
                            << ", which is not a dt.layout";
  if (source.getSpaceAttr() == destination.getSpaceAttr())
    return success();
  InFlightDiagnostic diagnostic =
      op.emitOpError() << "goes from a layout of " << source.getSpaceAttr()
                       << " to one of " << destination.getSpaceAttr()
                       << ", expected the same space";
  diagnostic.attachNote(destination.getLoc()) << "the destination is here";
  return diagnostic;
}

LogicalResult TransitionOp::verifySymbolUses(SymbolTableCollection &tables) {
  LayoutOp from = lookupSource(tables), to = lookupDestination(tables);
  if (failed(verifyLayouts(*this, from, to)))
    return failure();
  DeviceSet source(from, tables), destination(to, tables);
  for (Operation &op : getBody().front())
    if (failed(verifyStorageDevices(&op, source, destination)))
      return failure();
  WalkResult result = walk([&](MovementOpInterface op) {
    for (const HopPieces &part : partsOf(op)) {
      auto [fromSides, toSides] = endsOf(op, part.hop);
      Row lo, hi;
      if (!part.pieces.getRows().bounds(lo, hi))
        continue;
      if (failed(verifyDevices(op, part.pieces, lo, hi, PiecesAttr::kFrom,
                               fromSides, source, destination)) ||
          failed(verifyDevices(op, part.pieces, lo, hi, PiecesAttr::kTo,
                               toSides, source, destination)))
        return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return success(!result.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// Storage: its param and states
//===----------------------------------------------------------------------===//

template <typename Op>
static LogicalResult verifyStorageUses(Op op, SymbolTableCollection &tables) {
  auto param = findParam(op, op.getParamAttr(), tables);
  if (failed(param))
    return failure();
  if (!*param)
    return success();
  if (failed(verifyStates(op, op.getStatesAttr(), *param)))
    return failure();
  unsigned expected = param->numLeading() + 1;
  if (op.getPieces().getRank() == expected)
    return success();
  return op.emitOpError() << "has pieces of " << op.getPieces().getRank()
                          << " dims, expected " << expected
                          << ": the leading dims of @" << param->getSymName()
                          << " and elements of a member's storage";
}

LogicalResult CreateOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyStorageUses(*this, tables);
}
LogicalResult ReleaseOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyStorageUses(*this, tables);
}

} // namespace dt
