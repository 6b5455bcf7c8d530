//===- ScheduleWaves.cpp - Transfers into contention-free waves -----------===//
//
// Expands the pieces of all transfers, asks the scheduler (Schedule.h), and
// writes one `dt.wave` per wave with one `dt.sendrecv` per param and group of
// states.
//
//===----------------------------------------------------------------------===//

#include "FlatSchedule.h"
#include "dt/Passes/Passes.h"
#include "dt/Routing/Best.h"
#include "dt/Routing/CostModel.h"

#include "mlir/IR/Threading.h"

#include <map>

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_SCHEDULEWAVES
#include "dt/Passes/Passes.h.inc"

namespace {

/// All transfers, those of lower hops first.
std::vector<Move> collectMoves(const TransportPlan &plan) {
  std::vector<Move> moves;
  for (const PlanStep &step : plan.steps)
    if (step.kind == PlanStep::Kind::Wave)
      for (size_t i = step.first; i < step.last; ++i) {
        const PlanPiece &piece = plan.pieces[i];
        moves.push_back(
            {piece.flow, uint32_t(step.wave), piece.from, piece.to, piece.box});
      }
  return moves;
}

/// What one wave carries of a flow.
struct Load {
  uint32_t flow = 0;
  PiecesAttr pieces;
};

/// The moves of one wave by flow, as classes of pieces.
std::vector<Load> compressWave(const TransitionInfo &info,
                               ArrayRef<ScheduledMove> moves) {
  std::map<uint32_t, std::vector<int64_t>> rows; // per flow
  for (const ScheduledMove &scheduled : moves) {
    const Move &move = scheduled.move;
    std::vector<int64_t> &table = rows[move.flow];
    table.push_back(move.source);
    table.push_back(move.destination);
    for (unsigned d = 0; d < move.box.rank(); ++d)
      table.push_back(move.box[d].lo);
    for (unsigned d = 0; d < move.box.rank(); ++d)
      table.push_back(move.box[d].size());
  }
  std::vector<Load> out;
  for (const auto &[flow, table] : rows) {
    ParamOp param = info.flows[flow].param;
    unsigned rank = param.rank();
    RowSet set = compressRows(table, PiecesAttr::numColumns(rank));
    out.push_back({flow, PiecesAttr::get(param.getContext(), set, rank)});
  }
  return out;
}

void writeWave(const TransitionInfo &info, int32_t number, ArrayRef<Load> loads,
               OpBuilder &builder) {
  Location loc = info.op().getLoc();
  auto wave = WaveOp::create(builder, loc, number, RowsAttr());
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&wave.getBody());
  for (const Load &load : loads) {
    const FlowInfo &flow = info.flows[load.flow];
    SendrecvOp::create(
        builder, loc,
        FlatSymbolRefAttr::get(ParamOp(flow.param).getSymNameAttr()),
        flow.stateNames, load.pieces);
  }
}

/// Writes all waves, and before each the copies that are due: pieces become
/// classes on the threads that there are.
void writeWaves(const TransitionInfo &info, ArrayRef<ScheduledMove> scheduled,
                const FlatCopies &copies) {
  std::vector<ArrayRef<ScheduledMove>> waves;
  while (!scheduled.empty()) {
    int32_t wave = scheduled.front().wave;
    waves.push_back(scheduled.take_while(
        [&](const ScheduledMove &m) { return m.wave == wave; }));
    scheduled = scheduled.drop_front(waves.back().size());
  }
  MLIRContext *context = info.op().getContext();
  std::vector<std::vector<Load>> loads(waves.size());
  parallelFor(context, 0, waves.size(),
              [&](size_t w) { loads[w] = compressWave(info, waves[w]); });
  OpBuilder builder(context);
  builder.setInsertionPointToEnd(&info.op().getBody().front());
  size_t nextCopy = 0;
  for (size_t w = 0; w < waves.size(); ++w) {
    int32_t wave = waves[w].front().wave;
    nextCopy = writeCopies(info, copies, nextCopy, wave, builder);
    writeWave(info, wave, loads[w], builder);
  }
  writeCopies(info, copies, nextCopy, INT32_MAX, builder);
}

/// What has no place among waves: made states come last, and in flat mode
/// padding too, whose storage comes when all else is in place.
void moveToEnd(const TransitionInfo &info) {
  Block &body = info.op().getBody().front();
  SmallVector<Operation *> late;
  for (Operation &op : body)
    if (isa<DeriveOp>(op) || (info.flat && isa<ZeroOp>(op)))
      late.push_back(&op);
  for (Operation *op : late)
    op->moveBefore(&body, body.end());
}

struct ScheduleWavesPass : impl::ScheduleWavesBase<ScheduleWavesPass> {
  using ScheduleWavesBase::ScheduleWavesBase;

  /// Schedules with several chunk sizes and keeps what is predicted to be
  /// fastest. Large transitions try fewer.
  LogicalResult findBest(const TransitionInfo &info,
                         const std::vector<Move> &moves,
                         const std::vector<Flow> &flows,
                         std::vector<ScheduledMove> &best) {
    int64_t needed = 0;
    if (scheduleBest(moves, flows, info.cluster, info.stagingLimit, effort,
                     best, needed))
      return success();
    if (needed == 0)
      return info.op().emitOpError("forwards only what nothing delivers");
    return info.op().emitOpError()
           << "needs at least " << needed
           << " bytes of staging per device, more than the limit of "
           << info.stagingLimit;
  }

  LogicalResult scheduleTransition(const TransitionInfo &info) {
    auto reading = readRouting(info);
    if (failed(reading))
      return failure();
    std::vector<Move> moves = collectMoves(reading->plan);
    const std::vector<Flow> &flows = info.flowWidths();
    std::vector<ScheduledMove> scheduled;
    FlatCopies copies;
    if (failed(info.flat ? scheduleFlat(*reading, moves, flows, effort,
                                        scheduled, copies)
                         : findBest(info, moves, flows, scheduled)))
      return failure();
    PortSeconds busiest = busiestPorts(scheduled, flows, info.cluster);
    predictedUs += predictSeconds(scheduled, flows, info.cluster) * 1e6;
    busiestNicUs += busiest.nic * 1e6;
    busiestIslandUs += busiest.island * 1e6;
    for (Operation &op :
         llvm::make_early_inc_range(info.op().getBody().front()))
      if (isa<TransferOp>(op) || (info.flat && isa<KeepOp, CopyOp>(op)))
        op.erase();
    writeWaves(info, scheduled, copies);
    moveToEnd(info);
    for (size_t i = 0; i < scheduled.size(); ++i) {
      bool isNewWave = i == 0 || scheduled[i].wave != scheduled[i - 1].wave;
      numWaves += isNewWave;
      numMessages +=
          isNewWave ||
          scheduled[i].move.source != scheduled[i - 1].move.source ||
          scheduled[i].move.destination != scheduled[i - 1].move.destination;
    }
    return success();
  }

  void runOnOperation() override {
    const auto &transitions = getAnalysis<TransitionAnalysis>();
    if (failed(transitions.forEach([&](const TransitionInfo &info) {
          return scheduleTransition(info);
        })))
      return signalPassFailure();
    markAnalysesPreserved<TransitionAnalysis>();
  }
};

} // namespace
} // namespace dt
