//===- ScheduleWaves.cpp - Transfers into contention-free waves -----------===//
//
// Expands the pieces of all transfers, asks the scheduler (Schedule.h), and
// writes one `dt.wave` per wave with one `dt.sendrecv` per param and group of
// states.
//
//===----------------------------------------------------------------------===//

#include "FlatSchedule.h"
#include "dt/Geometry/Limits.h"
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
FailureOr<std::vector<Move>> collectMoves(const TransitionInfo &info) {
  std::vector<Move> moves;
  TransitionOp transition = info.op;
  size_t count = 0;
  for (auto op : transition.getOps<TransferOp>())
    count += op.getPieces().numPieces();
  moves.reserve(count);
  for (auto op : transition.getOps<TransferOp>()) {
    auto flow = info.flowOf(op);
    if (!flow)
      return op.emitOpError("names states that do not lie alike");
    op.getPieces().forEach([&](int64_t from, int64_t to, const Box &box) {
      moves.push_back({*flow, uint32_t(op.getHop()), from, to, box});
    });
  }
  auto isEarlier = [](const Move &a, const Move &b) { return a.hop < b.hop; };
  if (!std::is_sorted(moves.begin(), moves.end(), isEarlier))
    std::stable_sort(moves.begin(), moves.end(), isEarlier);
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
  Location loc = TransitionOp(info.op).getLoc();
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

/// Writes all waves: their pieces become classes on the threads that there are.
void writeWaves(const TransitionInfo &info, ArrayRef<ScheduledMove> scheduled) {
  std::vector<ArrayRef<ScheduledMove>> waves;
  while (!scheduled.empty()) {
    int32_t wave = scheduled.front().wave;
    waves.push_back(scheduled.take_while(
        [&](const ScheduledMove &m) { return m.wave == wave; }));
    scheduled = scheduled.drop_front(waves.back().size());
  }
  MLIRContext *context = TransitionOp(info.op).getContext();
  std::vector<std::vector<Load>> loads(waves.size());
  parallelFor(context, 0, waves.size(),
              [&](size_t w) { loads[w] = compressWave(info, waves[w]); });
  OpBuilder builder(context);
  builder.setInsertionPointToEnd(&TransitionOp(info.op).getBody().front());
  for (size_t w = 0; w < waves.size(); ++w)
    writeWave(info, waves[w].front().wave, loads[w], builder);
}

struct ScheduleWavesPass : impl::ScheduleWavesBase<ScheduleWavesPass> {
  using ScheduleWavesBase::ScheduleWavesBase;

  /// Schedules with several chunk sizes and keeps what is predicted to be
  /// fastest. Large transitions try fewer.
  LogicalResult findBest(TransitionInfo &info, const std::vector<Move> &moves,
                         const std::vector<Flow> &flows,
                         std::vector<ScheduledMove> &best) {
    int64_t needed = 0;
    if (scheduleBest(moves, flows, info.cluster, info.stagingLimit, effort,
                     best, needed))
      return success();
    if (needed == 0)
      return info.op.emitOpError("forwards only what nothing delivers");
    if (needed == kTooManyMessages)
      return refuseMessages(info.op);
    return info.op.emitOpError()
           << "needs at least " << needed
           << " bytes of staging per device, more than the limit of "
           << info.stagingLimit
           << " (memory.staging), so that a message holds an element and no "
              "port cuts its bytes more than "
           << kMaxPortCuts << " times";
  }

  LogicalResult scheduleTransition(TransitionInfo &info) {
    auto moves = collectMoves(info);
    if (failed(moves))
      return failure();
    std::vector<Flow> flows = info.makeFlows();
    std::vector<ScheduledMove> scheduled;
    if (failed(info.flat ? scheduleFlat(info, *moves, flows, effort, scheduled)
                         : findBest(info, *moves, flows, scheduled)))
      return failure();
    PortSeconds busiest = busiestPorts(scheduled, flows, info.cluster);
    predictedUs += predictSeconds(scheduled, flows, info.cluster) * 1e6;
    busiestNicUs += busiest.nic * 1e6;
    busiestIslandUs += busiest.island * 1e6;
    for (auto op : llvm::make_early_inc_range(info.op.getOps<TransferOp>()))
      op.erase();
    writeWaves(info, scheduled);
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
    if (failed(forEachTransition(getOperation(), [&](TransitionInfo &info) {
          return scheduleTransition(info);
        })))
      signalPassFailure();
  }
};

} // namespace
} // namespace dt
