//===- VerifyRouting.cpp - Closes the routing level -----------------------===//
//
// Checks the ops as written, with code that does not know the router: every
// destination region is covered exactly once, and everything that is read is
// held by the device that it is read from.
//
//===----------------------------------------------------------------------===//

#include "TransitionInfo.h"
#include "dt/Passes/Passes.h"

#include <map>

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_VERIFYROUTING
#include "dt/Passes/Passes.h.inc"

namespace {

/// The hop of what a device makes from another state, after all transfers.
constexpr int64_t kDerived = INT64_MAX;

/// A piece with the op that names it.
struct Arrival {
  Operation *op;
  int64_t hop; // -1: local
  int64_t from;
  Box box;
};

/// Pieces by the device that they arrive at.
using Arrivals = std::map<int64_t, std::vector<Arrival>>;

std::vector<Cell> toCells(const std::vector<Box> &boxes) {
  std::vector<Cell> out;
  for (const Box &box : boxes)
    out.push_back({box, 0});
  return out;
}

class FlowChecker {
public:
  FlowChecker(const TransitionInfo &info, uint32_t flow)
      : info(info), flow(flow), shape(info.shapeOf(flow)) {
    source.add(flow, info.flows[flow].source);
    if (auto from = info.flows[flow].deriveFrom)
      made.add(flow, info.flows[*from].destination);
    for (const Holding &holding : info.flows[flow].destination)
      for (int64_t device : holding.devices)
        appendRegions(holding.shard, shape, wanted[device]);
  }

  void add(Operation *op, int64_t hop, int64_t from, int64_t to,
           const Box &box) {
    arrivals[to].push_back({op, hop, from, box});
  }
  LogicalResult check();

private:
  LogicalResult checkDevice(int64_t device, const std::vector<Arrival> &pieces);
  LogicalResult checkSender(const Arrival &piece);

  const TransitionInfo &info;
  uint32_t flow;
  std::vector<int64_t> shape;
  ShardIndex source;
  ShardIndex made; // where the state that this may be made from ends
  std::map<int64_t, std::vector<Box>> wanted;
  Arrivals arrivals;
};

/// Held at the source, or arrived there at a lower hop, or made on the spot.
LogicalResult FlowChecker::checkSender(const Arrival &piece) {
  if (piece.hop == kDerived) {
    if (made.find(flow, piece.from, piece.box))
      return success();
    return piece.op->emitOpError()
           << "makes " << describe(info.flows[flow], piece.box) << " on device "
           << piece.from << ", which does not get the state that it is from";
  }
  if (source.find(flow, piece.from, piece.box))
    return success();
  std::vector<Cell> held;
  for (const Arrival &other : arrivals[piece.from])
    if (other.hop < piece.hop)
      held.push_back({other.box, 0});
  if (piece.hop > 0 && uncovered(piece.box, held).empty())
    return success();
  return piece.op->emitOpError()
         << "reads " << describe(info.flows[flow], piece.box) << " from device "
         << piece.from << ", which does not hold it";
}

LogicalResult FlowChecker::checkDevice(int64_t device,
                                       const std::vector<Arrival> &pieces) {
  std::vector<Box> boxes;
  int64_t volume = 0, wantedVolume = 0;
  for (const Arrival &piece : pieces) {
    boxes.push_back(piece.box);
    volume += piece.box.volume();
  }
  for (const Box &box : wanted[device])
    wantedVolume += box.volume();
  std::vector<Cell> cells = toCells(boxes);
  for (const CellPair &pair : join(cells, cells))
    if (pair.left < pair.right) {
      InFlightDiagnostic error = pieces[pair.right].op->emitOpError()
                                 << "delivers "
                                 << describe(info.flows[flow], pair.box)
                                 << " to device " << device << " a second time";
      error.attachNote(pieces[pair.left].op->getLoc()) << "delivered here";
      return failure();
    }
  int64_t inside = 0;
  for (const CellPair &pair : join(cells, toCells(wanted[device])))
    inside += pair.box.volume();
  if (inside != volume)
    return pieces.front().op->emitOpError()
           << "delivers elements to device " << device
           << " that its destination layout does not place there";
  if (volume != wantedVolume)
    return TransitionOp(info.op).emitOpError()
           << "delivers " << volume << " elements of "
           << describe(info.flows[flow], Box::whole(shape)) << " to device "
           << device << ", which wants " << wantedVolume;
  return success();
}

LogicalResult FlowChecker::check() {
  for (const auto &[device, boxes] : wanted)
    arrivals[device];
  for (const auto &[device, pieces] : arrivals) {
    if (pieces.empty() && wanted[device].empty())
      continue;
    if (pieces.empty())
      return TransitionOp(info.op).emitOpError()
             << "delivers nothing of "
             << describe(info.flows[flow], Box::whole(shape)) << " to device "
             << device;
    if (failed(checkDevice(device, pieces)))
      return failure();
    for (const Arrival &piece : pieces)
      if (failed(checkSender(piece)))
        return failure();
  }
  return success();
}

LogicalResult checkTransition(TransitionInfo &info) {
  std::vector<FlowChecker> checkers;
  for (uint32_t i = 0; i < info.flows.size(); ++i)
    checkers.emplace_back(info, i);
  for (Operation &op : info.op.getBody().front()) {
    if (!op.hasTrait<RoutingLevelOp>())
      return op.emitOpError("is illegal at the routing level");
    auto movement = cast<MovementOpInterface>(op);
    auto flow = info.flowOf(movement);
    if (!flow)
      return op.emitOpError("names states that do not lie alike");
    if (isa<ZeroOp>(op))
      continue;
    auto transfer = dyn_cast<TransferOp>(op);
    int64_t hop = transfer            ? transfer.getHop()
                  : isa<DeriveOp>(op) ? kDerived
                                      : -1;
    movement.getPieces().forEach([&](int64_t from, int64_t to, const Box &box) {
      checkers[*flow].add(&op, hop, from, to, box);
    });
  }
  for (FlowChecker &checker : checkers)
    if (failed(checker.check()))
      return failure();
  return success();
}

struct VerifyRoutingPass : impl::VerifyRoutingBase<VerifyRoutingPass> {
  void runOnOperation() override {
    if (failed(forEachTransition(getOperation(), checkTransition)))
      signalPassFailure();
  }
};

} // namespace
} // namespace dt
