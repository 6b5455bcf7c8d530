//===- ProofInput.cpp - A staged transition as the prover sees it ---------===//

#include "ProofInput.h"

#include "Coverage.h"
#include "dt/Geometry/Overlaps.h"

#include "mlir/IR/Threading.h"
#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace mlir;

namespace dt {

namespace {

class Reader {
public:
  explicit Reader(const TransitionInfo &info)
      : info(info), numFlows(info.flows.size()) {
    for (uint32_t flow = 0; flow < numFlows; ++flow) {
      source.add(flow, info.flows[flow].source);
      destination.add(flow, info.flows[flow].destination);
      shapes.push_back(Box::whole(info.shapeOf(flow)));
    }
    for (const Flow &flow : info.makeFlows())
      widths.push_back(flow.bytesPerElement);
  }

  FailureOr<ProofInput> read() {
    readWanted();
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
    if (failed(readJobs()) || failed(checkReleases()))
      return failure();
    return std::move(input);
  }

private:
  /// An op whose pieces are still to be read, and where they go.
  struct Job {
    mutable MovementOpInterface op;
    uint32_t number;
    uint32_t flow;
    int64_t wave;
    bool zero;
    size_t first;
  };
  struct SlotJob {
    WaveOp wave;
    uint32_t op;
    size_t first;
  };

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
    slotJobs.push_back({wave, number(wave), numSlots});
    numSlots += wave.getSlotsAttr().numRows();
    return success();
  }

  void readSlots(const SlotJob &job) {
    WaveOp wave = job.wave;
    ProofSlot *slot = input.slots.data() + job.first;
    wave.getSlotsAttr().forEach([&](ArrayRef<int64_t> row) {
      *slot++ = {job.op,
                 wave.getNumber(),
                 row[WaveOp::kDevice],
                 row[WaveOp::kPeer],
                 row[WaveOp::kReceive] != 0,
                 row[WaveOp::kSlotOffset],
                 row[WaveOp::kBytes]};
    });
  }

  LogicalResult readPieces(MovementOpInterface op, uint32_t flow, int64_t wave,
                           bool zero) {
    jobs.push_back({op, number(op), flow, wave, zero, numPieces});
    numPieces += op.getPieces().numPieces();
    return success();
  }

  /// Reads the pieces of one op. Returns one that is wrong, or null.
  const ProofPiece *readPieces(const Job &job) {
    const ProofPiece *wrong = nullptr;
    ProofPiece *next = input.pieces.data() + job.first;
    job.op.getPieces().forEach([&](int64_t from, int64_t to, const Box &box) {
      ProofPiece &piece = *next++;
      piece.op = job.number;
      piece.flow = job.zero ? numFlows + job.flow : job.flow;
      piece.fedBy =
          job.wave == kMadeTime ? *info.flows[job.flow].deriveFrom : piece.flow;
      piece.wave = job.wave;
      piece.from = from;
      piece.to = to;
      piece.bytes = box.volume() * widths[job.flow];
      piece.box = box;
      piece.atSource =
          job.zero || (piece.wave != kMadeTime &&
                       holds(source, piece.flow, piece.from, piece.box));
      if (!wrong && !isRight(job, piece))
        wrong = &piece;
    });
    return wrong;
  }

  /// Reads all ops on the threads that there are; the first error counts.
  LogicalResult readJobs() {
    input.pieces.resize(numPieces);
    input.slots.resize(numSlots);
    MLIRContext *context = TransitionOp(info.op).getContext();
    std::vector<const ProofPiece *> wrong(jobs.size());
    parallelFor(context, 0, jobs.size(),
                [&](size_t i) { wrong[i] = readPieces(jobs[i]); });
    parallelFor(context, 0, slotJobs.size(),
                [&](size_t i) { readSlots(slotJobs[i]); });
    for (auto [job, piece] : llvm::zip_equal(jobs, wrong))
      if (piece)
        return job.zero ? refuseZero(job, *piece) : refusePiece(job, *piece);
    return success();
  }

  static bool holds(const ShardIndex &index, uint32_t flow, int64_t device,
                    const Box &box) {
    return index.findNumber(flow, device, box).has_value();
  }

  bool isWanted(const ProofPiece &piece) const {
    return shapes[piece.flow].contains(piece.box) &&
           holds(destination, piece.flow, piece.to, piece.box);
  }

  bool isRight(const Job &job, const ProofPiece &piece) const {
    if (job.zero)
      return !overlaps(piece.box, shapes[job.flow]) &&
             holds(destination, job.flow, piece.to, piece.box);
    bool isLocal = piece.wave < 0; // made states are not
    return isWanted(piece) && (!isLocal || piece.atSource);
  }

  LogicalResult refusePiece(const Job &job, const ProofPiece &piece) {
    MovementOpInterface op = job.op;
    if (!isWanted(piece))
      return op.emitOpError()
             << "delivers " << describe(info.flows[piece.flow], piece.box)
             << " to device " << piece.to
             << ", which does not want it in one piece";
    return op.emitOpError()
           << "reads " << describe(info.flows[piece.flow], piece.box)
           << " on device " << piece.from << ", which does not hold it";
  }

  LogicalResult refuseZero(const Job &job, const ProofPiece &piece) {
    MovementOpInterface op = job.op;
    return op.emitOpError()
           << "zeroes " << describe(info.flows[job.flow], piece.box)
           << " on device " << piece.to << ", which is no padding there";
  }

  /// Sources that a wave after the release reads.
  LogicalResult checkReleases() {
    if (releases.empty())
      return success();
    using Key = std::pair<uint32_t, int64_t>; // flow, device
    std::map<Key, std::vector<const ProofPiece *>> reads;
    std::map<Key, std::vector<Box>> readBoxes;
    for (const ProofPiece &piece : input.pieces)
      if (piece.flow < numFlows && piece.atSource) {
        reads[{piece.flow, piece.from}].push_back(&piece);
        readBoxes[{piece.flow, piece.from}].push_back(piece.box);
      }
    for (auto &[op, flow] : releases) {
      std::map<int64_t, std::vector<Box>> released; // by device
      op.getPieces().forEach([&](int64_t device, int64_t, const Box &box) {
        released[device].push_back(box);
      });
      for (const auto &[device, boxes] : released) {
        Key key = {flow, device};
        WorkLimit limit(kMaxPieces);
        int64_t after = op.getAfter();
        for (auto [r, b] : overlappingPairs(readBoxes[key], boxes, &limit))
          if (reads[key][r]->wave > after)
            return reportLate(op, *reads[key][r]);
        if (limit.isExceeded())
          return op.emitOpError() << "releases more than the limit of "
                                  << kMaxPieces << " parts of what is read";
      }
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
  ShardIndex source, destination;
  std::vector<Box> shapes;
  std::vector<int64_t> widths; // bytes per element, all states of the flow
  std::vector<std::pair<ReleaseOp, uint32_t>> releases;
  std::vector<Job> jobs;
  std::vector<SlotJob> slotJobs;
  size_t numPieces = 0, numSlots = 0;
  ProofInput input;
};

} // namespace

FailureOr<ProofInput> readProofInput(const TransitionInfo &info) {
  return Reader(info).read();
}

} // namespace dt
