//===- ProofInput.cpp - A staged transition as the prover sees it ---------===//

#include "ProofInput.h"

#include "Coverage.h"

#include <map>

using namespace mlir;

namespace dt {

namespace {

/// The shards of one flow on one side, by device.
class Shards {
public:
  explicit Shards(const std::vector<Holding> &holdings) {
    for (const Holding &holding : holdings)
      for (int64_t device : holding.devices)
        rows.emplace_back(device, &holding.shard);
    llvm::sort(rows);
  }

  bool hold(int64_t device, const Box &box) const {
    auto at = llvm::lower_bound(rows, Row(device, nullptr));
    for (; at != rows.end() && at->first == device; ++at)
      if (contains(*at->second, box))
        return true;
    return false;
  }

private:
  using Row = std::pair<int64_t, const Shard *>;

  static bool contains(const Shard &shard, const Box &box) {
    for (unsigned d = 0; d < box.rank(); ++d)
      if (llvm::none_of(shard.dims[d],
                        [&](Interval i) { return i.contains(box[d]); }))
        return false;
    return !shard.range || localView(shard, box);
  }

  std::vector<Row> rows;
};

class Reader {
public:
  explicit Reader(const TransitionInfo &info)
      : info(info), numFlows(info.flows.size()) {
    for (uint32_t flow = 0; flow < numFlows; ++flow) {
      source.emplace_back(info.flows[flow].source);
      destination.emplace_back(info.flows[flow].destination);
      shapes.push_back(Box::whole(info.shapeOf(flow)));
    }
    for (const Flow &flow : info.makeFlows(/*computeCells=*/false))
      widths.push_back(flow.bytesPerElement);
  }

  FailureOr<ProofInput> read() {
    readWanted();
    reserve();
    int64_t last = -1;
    for (Operation &op : TransitionOp(info.op).getBody().front()) {
      auto wave = dyn_cast<WaveOp>(op);
      if (!wave) {
        if (failed(readLocal(&op)))
          return failure();
        continue;
      }
      if (wave.getNumber() <= last)
        return wave.emitOpError()
               << "has number " << wave.getNumber()
               << ", expected one above that of the wave before, " << last;
      last = wave.getNumber();
      if (failed(readWave(wave)))
        return failure();
    }
    if (failed(checkReleases()))
      return failure();
    return std::move(input);
  }

private:
  /// Pieces are large and many: they are not to move while they are read.
  void reserve() {
    int64_t pieces = 0, slots = 0;
    TransitionOp(info.op).getBody().walk([&](Operation *op) {
      if (auto movement = dyn_cast<MovementOpInterface>(op))
        pieces += movement.getPieces().numPieces();
      if (auto wave = dyn_cast<WaveOp>(op); wave && wave.getSlotsAttr())
        slots += wave.getSlotsAttr().numRows();
    });
    input.pieces.reserve(pieces);
    input.slots.reserve(slots);
  }

  /// How much each device wants, padding apart.
  void readWanted() {
    std::vector<Box> boxes;
    for (uint32_t flow = 0; flow < numFlows; ++flow) {
      input.flowNames.push_back(name(flow));
      for (const Holding &holding : info.flows[flow].destination) {
        boxes.clear();
        appendRegions(holding.shard, info.shapeOf(flow), boxes);
        addWanted(flow, holding, boxes);
        boxes = padding(holding.shard, info.shapeOf(flow));
        if (!boxes.empty())
          addWanted(numFlows + flow, holding, boxes);
      }
    }
    for (uint32_t flow = 0; flow < numFlows; ++flow)
      input.flowNames.push_back("padding of " + name(flow));
  }

  void addWanted(uint32_t flow, const Holding &holding,
                 const std::vector<Box> &boxes) {
    int64_t volume = 0;
    for (const Box &box : boxes)
      volume += box.volume();
    for (int64_t device : holding.devices)
      input.wanted[{flow, device}] += volume;
  }

  std::string name(uint32_t flow) const {
    FlowInfo of = info.flows[flow];
    return "@" + of.param.getSymName().str();
  }

  uint32_t number(Operation *op) {
    input.ops.push_back(op);
    return input.ops.size() - 1;
  }

  FailureOr<uint32_t> flowOf(MovementOpInterface op) const {
    if (auto flow = info.flowOf(op))
      return *flow;
    return op.emitOpError("names states that do not lie alike");
  }

  LogicalResult readLocal(Operation *op) {
    if (!isa<KeepOp, CopyOp, DeriveOp, ZeroOp, ReleaseOp>(op))
      return op->emitOpError("is not scheduled: run --dt-schedule first");
    auto movement = cast<MovementOpInterface>(op);
    auto flow = flowOf(movement);
    if (failed(flow))
      return failure();
    if (auto release = dyn_cast<ReleaseOp>(op)) {
      releases.push_back({release, *flow});
      return success();
    }
    if (isa<DeriveOp>(op) && !info.flows[*flow].deriveFrom)
      return op->emitOpError("makes a state that is made from none");
    int64_t wave = isa<DeriveOp>(op) ? kMadeTime : -1;
    return readPieces(movement, *flow, wave, isa<ZeroOp>(op));
  }

  LogicalResult readWave(WaveOp wave) {
    for (Operation &op : wave.getBody().front()) {
      auto sendrecv = dyn_cast<SendrecvOp>(op);
      if (!sendrecv)
        return op.emitOpError("has no proof: expected dt.sendrecv");
      auto flow = flowOf(sendrecv);
      if (failed(flow) || failed(readPieces(sendrecv, *flow, wave.getNumber(),
                                            /*zero=*/false)))
        return failure();
    }
    if (!wave.getSlotsAttr())
      return wave.emitOpError("has no slots: run --dt-allocate-staging first");
    uint32_t op = number(wave);
    wave.getSlotsAttr().forEach([&](ArrayRef<int64_t> row) {
      input.slots.push_back({op, wave.getNumber(), row[WaveOp::kDevice],
                             row[WaveOp::kPeer], row[WaveOp::kReceive] != 0,
                             row[WaveOp::kSlotOffset], row[WaveOp::kBytes]});
    });
    return success();
  }

  LogicalResult readPieces(MovementOpInterface op, uint32_t flow, int64_t wave,
                           bool zero) {
    LogicalResult result = success();
    uint32_t index = number(op);
    op.getPieces().forEach([&](int64_t from, int64_t to, const Box &box) {
      ProofPiece piece;
      piece.op = index;
      piece.flow = zero ? numFlows + flow : flow;
      piece.fedBy =
          wave == kMadeTime ? *info.flows[flow].deriveFrom : piece.flow;
      piece.wave = wave;
      piece.from = from;
      piece.to = to;
      piece.bytes = box.volume() * widths[flow];
      piece.box = box;
      piece.atSource = zero;
      if (succeeded(result))
        result = zero ? checkZero(op, piece, flow) : checkPiece(op, piece);
      input.pieces.push_back(piece);
    });
    return result;
  }

  LogicalResult checkPiece(MovementOpInterface op, ProofPiece &piece) {
    if (!shapes[piece.flow].contains(piece.box) ||
        !destination[piece.flow].hold(piece.to, piece.box))
      return op.emitOpError()
             << "delivers " << describe(info.flows[piece.flow], piece.box)
             << " to device " << piece.to
             << ", which does not want it in one piece";
    piece.atSource = piece.wave != kMadeTime &&
                     source[piece.flow].hold(piece.from, piece.box);
    if (piece.wave < 0 && !piece.atSource)
      return op.emitOpError()
             << "reads " << describe(info.flows[piece.flow], piece.box)
             << " on device " << piece.from << ", which does not hold it";
    return success();
  }

  LogicalResult checkZero(MovementOpInterface op, const ProofPiece &piece,
                          uint32_t flow) {
    if (overlaps(piece.box, shapes[flow]) ||
        !destination[flow].hold(piece.to, piece.box))
      return op.emitOpError()
             << "zeroes " << describe(info.flows[flow], piece.box)
             << " on device " << piece.to << ", which is no padding there";
    return success();
  }

  /// Sources that a wave after the release reads.
  LogicalResult checkReleases() {
    if (releases.empty())
      return success();
    std::map<std::pair<uint32_t, int64_t>, std::vector<const ProofPiece *>>
        reads; // (flow, device)
    for (const ProofPiece &piece : input.pieces)
      if (piece.flow < numFlows && piece.atSource)
        reads[{piece.flow, piece.from}].push_back(&piece);
    for (auto &[op, flow] : releases) {
      const ProofPiece *late = nullptr;
      int64_t after = op.getAfter();
      op.getPieces().forEach(
          [&, flow = flow](int64_t device, int64_t, const Box &box) {
            for (const ProofPiece *piece : reads[{flow, device}])
              if (piece->wave > after && overlaps(piece->box, box))
                late = piece;
          });
      if (late)
        return reportLate(op, *late);
    }
    return success();
  }

  LogicalResult reportLate(ReleaseOp op, const ProofPiece &piece) {
    InFlightDiagnostic error =
        input.ops[piece.op]->emitOpError()
        << "reads " << describe(info.flows[piece.flow], piece.box)
        << " on device " << piece.from << " after its release";
    error.attachNote(op.getLoc())
        << "released here, after wave " << op.getAfter();
    return failure();
  }

  const TransitionInfo &info;
  uint32_t numFlows;
  std::vector<Shards> source, destination; // by flow
  std::vector<Box> shapes;
  std::vector<int64_t> widths; // bytes per element, all states of the flow
  std::vector<std::pair<ReleaseOp, uint32_t>> releases;
  ProofInput input;
};

} // namespace

FailureOr<ProofInput> readProofInput(const TransitionInfo &info) {
  return Reader(info).read();
}

} // namespace dt
