//===- ScheduleWaves.cpp - Transfers into contention-free waves -----------===//
//
// Reads the pieces of all transfers, and in flat mode the copies and what
// devices hold, into a WaveProblem, asks a solver, and writes one `dt.wave` per
// wave with one `dt.sendrecv` per param and group of states. Copies stand
// before the first wave and name the one that they are done before.
//
//===----------------------------------------------------------------------===//

#include "ProblemFile.h"
#include "TransitionInfo.h"
#include "dt/Passes/Passes.h"
#include "dt/Scheduling/RouteSchedule.h"
#include "dt/Scheduling/WaveProblemText.h"
#include "dt/Scheduling/WaveSolver.h"

#include "mlir/IR/Threading.h"

#include <map>

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_SCHEDULEWAVES
#include "dt/Passes/Passes.h.inc"

namespace {

//===----------------------------------------------------------------------===//
// The problem
//===----------------------------------------------------------------------===//

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

/// Buffers of a flow's states on one side, by width.
std::vector<FlatStates> statesOn(Side side, const FlowInfo &flow) {
  std::vector<FlatStates> out;
  StatesAttr states = flow.allStates();
  for (auto [i, entry] : llvm::enumerate(states.getEntries())) {
    std::optional<DType> stored =
        side == Side::Source ? entry.source : entry.destination;
    if (!(flow.states >> i & 1) || !stored)
      continue;
    int64_t width = byteWidth(*stored);
    auto same = llvm::find_if(
        out, [&](const FlatStates &group) { return group.width == width; });
    if (same == out.end())
      out.push_back({width, 1});
    else
      ++same->count;
  }
  return out;
}

/// The flow whose source buffers are read for a flow.
uint32_t readsFrom(const TransitionInfo &info, uint32_t flow) {
  const FlowInfo &own = info.flows[flow];
  StatesAttr states = own.allStates();
  const StateEntry &entry = states.getEntries()[llvm::countr_zero(own.states)];
  if (entry.source || !entry.from)
    return flow;
  int from = states.indexOf(entry.from);
  for (uint32_t i = 0; i < info.flows.size(); ++i)
    if (info.flows[i].param == own.param && info.flows[i].states >> from & 1)
      return i;
  return flow;
}

LogicalResult addStorage(const TransitionInfo &info, WaveProblem &problem) {
  auto keeps = collectLocals<KeepOp>(info);
  auto copies = collectLocals<CopyOp>(info);
  if (failed(keeps) || failed(copies))
    return failure();
  problem.copies = std::move(*keeps);
  problem.copies.insert(problem.copies.end(), copies->begin(), copies->end());
  Storage &storage = problem.storage.emplace();
  storage.pageBytes = info.pageBytes();
  storage.limitBytes = info.stagingLimit;
  for (uint32_t i = 0; i < info.flows.size(); ++i) {
    FlowInfo flow = info.flows[i];
    storage.flows.push_back(
        {flow.param.numLeading(), statesOn(Side::Source, flow),
         statesOn(Side::Destination, flow), readsFrom(info, i)});
    storage.source.push_back(flow.source);
    storage.destination.push_back(flow.destination);
  }
  return success();
}

/// Copies matter where storage does: elsewhere they need no order.
FailureOr<WaveProblem> readProblem(const TransitionInfo &info) {
  auto moves = collectMoves(info);
  if (failed(moves))
    return failure();
  WaveProblem problem;
  problem.moves = std::move(*moves);
  problem.elementBytes = elementBytes(info.makeFlows(/*computeCells=*/false));
  problem.cluster = info.cluster;
  problem.stagingBytes = info.stagingLimit;
  if (info.flat && failed(addStorage(info, problem)))
    return failure();
  return problem;
}

//===----------------------------------------------------------------------===//
// The schedule
//===----------------------------------------------------------------------===//

/// The IR counts waves of messages only: each copy gets the number of those
/// before it.
void numberWavesOfMessages(WaveSchedule &schedule) {
  std::vector<int32_t> waves; // of messages, as the solver counts
  for (ScheduledMove &piece : schedule.moves) {
    if (waves.empty() || waves.back() != piece.wave)
      waves.push_back(piece.wave);
    piece.wave = int32_t(waves.size()) - 1;
  }
  for (ScheduledCopy &copy : schedule.copies)
    copy.move.before =
        int32_t(llvm::lower_bound(waves, copy.wave) - waves.begin());
}

/// One op per wave of copies and flow, in this order.
void writeCopies(const TransitionInfo &info, ArrayRef<ScheduledCopy> copies) {
  using Key = std::tuple<int32_t, int32_t, uint32_t>;
  std::map<Key, std::vector<int64_t>> rows;
  for (const ScheduledCopy &copy : copies) {
    const LocalMove &local = copy.move;
    std::vector<int64_t> &table = rows[{local.before, copy.wave, local.flow}];
    table.insert(table.end(), {local.device, local.device});
    for (unsigned d = 0; d < local.box.rank(); ++d)
      table.push_back(local.box[d].lo);
    for (unsigned d = 0; d < local.box.rank(); ++d)
      table.push_back(local.box[d].size());
  }
  TransitionOp transition = info.op;
  Block &body = transition.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(body))
    if (isa<KeepOp, CopyOp>(op))
      op.erase();
  OpBuilder builder(transition.getContext());
  builder.setInsertionPointToEnd(&body);
  for (const auto &[key, table] : rows) {
    auto [before, wave, flow] = key;
    ParamOp param = info.flows[flow].param;
    RowSet set = compressRows(table, PiecesAttr::numColumns(param.rank()));
    CopyOp::create(builder, transition.getLoc(),
                   FlatSymbolRefAttr::get(param.getSymNameAttr()),
                   info.flows[flow].stateNames,
                   PiecesAttr::get(builder.getContext(), set, param.rank()),
                   int64_t(before));
  }
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

  LogicalResult solve(TransitionInfo &info, const WaveProblem &problem,
                      WaveSchedule &schedule) {
    std::string name = solver;
    if (name.empty())
      name = problem.storage ? "flat" : "best";
    WaveSolver found = findWaveSolver(name);
    if (!found)
      return info.op.emitOpError() << "has no solver '" << name
                                   << "', expected " << waveSolverNames();
    WaveOptions options;
    options.effort = effort;
    if (auto error = found(problem, options, schedule))
      return info.op.emitOpError() << *error;
    return success();
  }

  LogicalResult scheduleTransition(TransitionInfo &info) {
    auto problem = readProblem(info);
    if (failed(problem))
      return failure();
    if (!writeProblem.empty() &&
        failed(file.write(info.op, writeProblem, toText(*problem))))
      return failure();
    if (auto error = problem->check())
      return info.op.emitOpError() << "cannot be scheduled: " << *error;
    WaveSchedule schedule;
    if (failed(solve(info, *problem, schedule)))
      return failure();
    std::vector<TimedMessage> messages = problem->messages(schedule.moves);
    PortSeconds busiest = busiestPorts(messages, info.cluster);
    predictedUs += predictSeconds(messages, info.cluster) * 1e6;
    busiestNicUs += busiest.nic * 1e6;
    busiestIslandUs += busiest.island * 1e6;
    numMessages += messages.size();
    numberWavesOfMessages(schedule);
    if (!schedule.moves.empty())
      numWaves += schedule.moves.back().wave + 1;
    if (problem->storage)
      writeCopies(info, schedule.copies);
    for (auto op : llvm::make_early_inc_range(info.op.getOps<TransferOp>()))
      op.erase();
    writeWaves(info, schedule.moves);
    return success();
  }

  void runOnOperation() override {
    file = ProblemFile();
    if (failed(forEachTransition(getOperation(), [&](TransitionInfo &info) {
          return scheduleTransition(info);
        })))
      signalPassFailure();
  }

private:
  ProblemFile file;
};

} // namespace
} // namespace dt
