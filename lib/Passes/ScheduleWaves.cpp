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
  for (auto op : transition.getOps<TransferOp>()) {
    auto flow = info.flowOf(op);
    if (!flow)
      return op.emitOpError("names states that do not lie alike");
    op.getPieces().forEach([&](int64_t from, int64_t to, const Box &box) {
      moves.push_back({*flow, uint32_t(op.getHop()), from, to, box});
    });
  }
  std::stable_sort(moves.begin(), moves.end(),
                   [](const Move &a, const Move &b) { return a.hop < b.hop; });
  return moves;
}

/// Writes [first, last): the moves of one wave.
void writeWave(const TransitionInfo &info, ArrayRef<ScheduledMove> moves,
               OpBuilder &builder) {
  Location loc = TransitionOp(info.op).getLoc();
  auto wave = WaveOp::create(builder, loc, moves.front().wave, RowsAttr());
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&wave.getBody());
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
  for (const auto &[flow, table] : rows) {
    ParamOp param = info.flows[flow].param;
    unsigned rank = param.rank();
    RowSet set = compressRows(table, PiecesAttr::numColumns(rank));
    SendrecvOp::create(builder, loc,
                       FlatSymbolRefAttr::get(param.getSymNameAttr()),
                       info.flows[flow].stateNames,
                       PiecesAttr::get(builder.getContext(), set, rank));
  }
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
    return info.op.emitOpError()
           << "needs at least " << needed
           << " bytes of staging per device, more than the limit of "
           << info.stagingLimit;
  }

  LogicalResult scheduleTransition(TransitionInfo &info) {
    auto moves = collectMoves(info);
    if (failed(moves))
      return failure();
    std::vector<Flow> flows = info.makeFlows(/*computeCells=*/false);
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
    OpBuilder builder(info.op.getContext());
    builder.setInsertionPointToEnd(&info.op.getBody().front());
    ArrayRef<ScheduledMove> rest(scheduled);
    while (!rest.empty()) {
      int32_t wave = rest.front().wave;
      ArrayRef<ScheduledMove> own = rest.take_while(
          [&](const ScheduledMove &m) { return m.wave == wave; });
      writeWave(info, own, builder);
      rest = rest.drop_front(own.size());
      ++numWaves;
    }
    for (size_t i = 0; i < scheduled.size(); ++i)
      numMessages +=
          i == 0 || scheduled[i].wave != scheduled[i - 1].wave ||
          scheduled[i].move.source != scheduled[i - 1].move.source ||
          scheduled[i].move.destination != scheduled[i - 1].move.destination;
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
