//===- ScheduleWaves.cpp - Transfers into contention-free waves -----------===//
//
// Reads the pieces of all transfers, and in flat mode the copies and what
// devices hold, into a WaveProblem, asks a solver, and writes one `dt.wave` per
// wave with one `dt.sendrecv` per param and group of states, and waves of
// copies between them. In flat mode what does not change stays: `dt.keep` says
// so, before all waves.
//
//===----------------------------------------------------------------------===//

#include "LibraryOps.h"
#include "ProblemFile.h"
#include "Threads.h"
#include "TransportReading.h"
#include "dt/Dialect/Collectives.h"
#include "dt/Passes/Passes.h"
#include "dt/Passes/Replan.h"
#include "dt/Proof/StayingShards.h"
#include "dt/Scheduling/RelaySchedule.h"
#include "dt/Scheduling/Reschedule.h"
#include "dt/Scheduling/RouteSchedule.h"
#include "dt/Scheduling/WaveProblemText.h"
#include "dt/Scheduling/WaveSolver.h"

#include <map>
#include <set>

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_SCHEDULEWAVES
#include "dt/Passes/Passes.h.inc"

namespace {

//===----------------------------------------------------------------------===//
// The problem
//===----------------------------------------------------------------------===//

/// Of both worlds, ascending.
std::vector<int64_t> allDevices(const TransitionInfo &info) {
  Worlds worlds = worldsOf(info);
  std::set<int64_t> devices;
  for (const auto &ranks : {worlds.sourceRank, worlds.destinationRank})
    for (auto [device, rank] : ranks)
      devices.insert(device);
  return {devices.begin(), devices.end()};
}

/// All transfers that are messages, those of lower hops first.
std::vector<Move> collectMoves(const TransportPlan &plan) {
  std::vector<Move> moves;
  size_t count = 0;
  for (const PlanStep &step : plan.steps)
    if (step.kind == PlanStep::Kind::Wave)
      count += step.last - step.first;
  moves.reserve(count);
  for (const PlanStep &step : plan.steps)
    if (step.kind == PlanStep::Kind::Wave)
      for (size_t i = step.first; i < step.last; ++i) {
        const PlanPiece &piece = plan.pieces[i];
        if (piece.collective != kNoCollective)
          continue;
        moves.push_back(
            {piece.flow, uint32_t(step.wave), piece.from, piece.to, piece.box});
      }
  return moves;
}

/// Copies of what stays where it is, or of all else.
std::vector<LocalMove> collectCopies(const TransportPlan &plan,
                                     const StayingShards &staying, bool stay) {
  std::vector<LocalMove> copies;
  for (const PlanStep &step : plan.steps)
    if (step.kind == PlanStep::Kind::Copy)
      for (size_t i = step.first; i < step.last; ++i) {
        const PlanPiece &piece = plan.pieces[i];
        if (staying.allOf(piece.flow, piece.to) == stay)
          copies.push_back({piece.flow, piece.from, piece.box});
      }
  return copies;
}

/// Devices on which all of a flow stays, ascending.
std::vector<int64_t> stayingDevices(const PlanFlow &flow, uint32_t number,
                                    const StayingShards &staying) {
  std::vector<int64_t> out;
  for (const Holding &holding : *flow.destination)
    for (int64_t device : holding.devices)
      if (staying.allOf(number, device))
        out.push_back(device);
  llvm::sort(out);
  out.erase(llvm::unique(out), out.end());
  return out;
}

std::vector<FlatStates> statesOf(const PlanFlow &flow,
                                 const std::vector<FlowBuffers> &buffers) {
  std::vector<FlatStates> out;
  for (const FlowBuffers &group : buffers) {
    out.push_back({group.width, llvm::popcount(group.states)});
    if (!flow.storages.empty())
      out.back().storage = flow.storages[llvm::countr_zero(group.states)];
  }
  return out;
}

Storage readStorage(const TransitionReading &reading,
                    const StayingShards &staying) {
  const TransitionInfo &info = *reading.info;
  Storage storage;
  storage.pageBytes = info.pageBytes();
  storage.limitBytes = info.stagingLimit;
  for (uint32_t i = 0; i < info.flows.size(); ++i) {
    const PlanFlow &flow = reading.plan.flows[i];
    ParamOp param = info.flows[i].param;
    storage.flows.push_back({param.numLeading(),
                             statesOf(flow, flow.sourceBuffers),
                             statesOf(flow, flow.destinationBuffers),
                             flow.readsFrom, stayingDevices(flow, i, staying)});
    storage.source.push_back(*flow.source);
    storage.destination.push_back(*flow.destination);
  }
  return storage;
}

/// Copies matter where storage does: elsewhere they need no order.
WaveProblem readProblem(const TransitionReading &reading,
                        const StayingShards &staying) {
  const TransitionInfo &info = *reading.info;
  WaveProblem problem;
  problem.moves = collectMoves(reading.plan);
  problem.elementBytes = elementBytes(info.flowWidths());
  problem.cluster = info.cluster;
  problem.stagingBytes = info.stagingLimit;
  if (info.isFlat()) {
    problem.copies = collectCopies(reading.plan, staying, /*stay=*/false);
    problem.storage = readStorage(reading, staying);
  }
  return problem;
}

//===----------------------------------------------------------------------===//
// The schedule
//===----------------------------------------------------------------------===//

/// Which pieces go in one wave, and which copies go beside them, or alone.
struct WaveContents {
  ArrayRef<ScheduledMove> moves;
  ArrayRef<ScheduledCopy> copies;
};

template <typename Scheduled>
ArrayRef<Scheduled> takeWave(ArrayRef<Scheduled> &rest, int32_t wave) {
  ArrayRef<Scheduled> out = rest.take_while(
      [&](const Scheduled &entry) { return entry.wave == wave; });
  rest = rest.drop_front(out.size());
  return out;
}

/// All waves in order.
std::vector<WaveContents> splitWaves(const WaveSchedule &schedule) {
  ArrayRef<ScheduledMove> moves = schedule.moves;
  ArrayRef<ScheduledCopy> copies = schedule.copies;
  std::vector<WaveContents> out;
  while (!moves.empty() || !copies.empty()) {
    int32_t wave = INT32_MAX;
    if (!moves.empty())
      wave = moves.front().wave;
    if (!copies.empty())
      wave = std::min(wave, copies.front().wave);
    WaveContents contents;
    contents.moves = takeWave(moves, wave);
    contents.copies = takeWave(copies, wave);
    out.push_back(contents);
  }
  return out;
}

/// What one wave carries or copies of a flow.
struct WaveLoad {
  uint32_t flow = 0;
  PiecesAttr pieces;
  RelayHop relay = RelayHop::None;
};

/// Rows of pieces, per flow and part in a relay.
using FlowRows = std::map<std::pair<uint32_t, RelayHop>, std::vector<int64_t>>;

FlowRows rowsOf(ArrayRef<ScheduledMove> moves) {
  FlowRows rows;
  for (const ScheduledMove &piece : moves)
    appendRow(rows[{piece.move.flow, piece.relay}], piece.move.source,
              piece.move.destination, piece.move.box);
  return rows;
}

FlowRows rowsOf(ArrayRef<ScheduledCopy> copies) {
  FlowRows rows;
  for (const auto &[copy, number] : copies)
    appendRow(rows[{copy.flow, RelayHop::None}], copy.device, copy.device,
              copy.box);
  return rows;
}

/// Pieces by flow, as classes.
std::vector<WaveLoad> compress(const TransitionInfo &info,
                               const FlowRows &rows) {
  std::vector<WaveLoad> out;
  for (const auto &[key, table] : rows) {
    auto [flow, relay] = key;
    ParamOp param = info.flows[flow].param;
    unsigned rank = param.rank();
    RowSet set = compressRows(table, PiecesAttr::numColumns(rank));
    out.push_back(
        {flow, PiecesAttr::get(param.getContext(), set, rank), relay});
  }
  return out;
}

/// `wave`: that copies run beside.
template <typename Op, typename... Wave>
void writeLoads(const TransitionInfo &info, ArrayRef<WaveLoad> loads,
                OpBuilder &builder, Wave... wave) {
  for (const WaveLoad &load : loads) {
    const FlowInfo &flow = info.flows[load.flow];
    Op::create(builder, info.op().getLoc(),
               FlatSymbolRefAttr::get(ParamOp(flow.param).getSymNameAttr()),
               flow.stateNames, load.pieces, wave...);
  }
}

void writeMessages(const TransitionInfo &info, ArrayRef<WaveLoad> loads,
                   OpBuilder &builder) {
  for (const WaveLoad &load : loads) {
    const FlowInfo &flow = info.flows[load.flow];
    SendrecvOp::create(
        builder, info.op().getLoc(),
        FlatSymbolRefAttr::get(ParamOp(flow.param).getSymNameAttr()),
        flow.stateNames, load.pieces, load.relay == RelayHop::In,
        load.relay == RelayHop::Out);
  }
}

void writeCall(const TransitionInfo &info, const LibraryCall &call,
               OpBuilder &builder) {
  auto op = LibraryCollectiveOp::create(builder, info.op().getLoc(),
                                        patternOf(call.kind), call.members,
                                        call.root);
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&op.getBody());
  std::vector<ScheduledMove> moves;
  for (const Move &move : call.moves)
    moves.push_back({move, 0});
  writeMessages(info, compress(info, rowsOf(moves)), builder);
}

/// The first waves: those of library collectives. Returns their number.
int64_t writeCalls(const TransitionInfo &info, const LibraryWaves &waves) {
  OpBuilder builder(info.op().getContext());
  builder.setInsertionPointToEnd(&info.op().getBody().front());
  int64_t number = 0;
  for (const std::vector<LibraryCall> &calls : waves) {
    auto wave =
        WaveOp::create(builder, info.op().getLoc(), number++, RowsAttr());
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&wave.getBody());
    for (const LibraryCall &call : calls)
      writeCall(info, call, builder);
  }
  return number;
}

/// Writes all waves, from `number` on; the IR numbers those of messages only.
/// Pieces become classes on the threads that there are.
void writeWaves(const TransitionInfo &info, ArrayRef<WaveContents> waves,
                int64_t number) {
  MLIRContext *context = info.op().getContext();
  std::vector<std::vector<WaveLoad>> moves(waves.size()), copies(waves.size());
  forEachOnThreads(context, waves.size(), [&](size_t w) {
    moves[w] = compress(info, rowsOf(waves[w].moves));
    copies[w] = compress(info, rowsOf(waves[w].copies));
  });
  OpBuilder builder(context);
  builder.setInsertionPointToEnd(&info.op().getBody().front());
  for (size_t w = 0; w < waves.size(); ++w) {
    bool isAlone = waves[w].moves.empty();
    writeLoads<CopyOp>(info, copies[w], builder, isAlone ? -1 : number);
    if (isAlone)
      continue;
    auto wave =
        WaveOp::create(builder, info.op().getLoc(), number++, RowsAttr());
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&wave.getBody());
    writeMessages(info, moves[w], builder);
  }
}

/// What stays where it is comes to no wave and needs no order.
void writeKeeps(const TransitionInfo &info,
                const std::vector<LocalMove> &keeps) {
  std::vector<ScheduledCopy> all;
  for (const LocalMove &keep : keeps)
    all.push_back({keep, 0});
  OpBuilder builder(info.op().getContext());
  builder.setInsertionPointToEnd(&info.op().getBody().front());
  writeLoads<KeepOp>(info, compress(info, rowsOf(all)), builder);
}

/// What has no place among waves: derived states come last, and in flat mode
/// padding too, whose storage comes when all else is in place.
void moveToEnd(const TransitionInfo &info) {
  Block &body = info.op().getBody().front();
  SmallVector<Operation *> late;
  for (Operation &op : body)
    if (isa<DeriveOp>(op) || (info.isFlat() && isa<ZeroOp>(op)))
      late.push_back(&op);
  for (Operation *op : late)
    op->moveBefore(&body, body.end());
}

struct ScheduleWavesPass : impl::ScheduleWavesBase<ScheduleWavesPass> {
  using ScheduleWavesBase::ScheduleWavesBase;
  explicit ScheduleWavesPass(std::shared_ptr<Replan> from)
      : from(std::move(from)) {}

  /// Around the waves of the old plan.
  LogicalResult solveAgain(const TransitionInfo &info,
                           const WaveProblem &problem, WaveSchedule &schedule) {
    WaveOptions options;
    options.effort = effort;
    options.old = &from->moves;
    options.lowerBound = from->lowerBound;
    KeptSchedule kept;
    if (auto error = reschedule(problem, options, kept))
      return info.op().emitOpError() << *error;
    from->bytesInWave = kept.bytesInWave;
    schedule = std::move(kept.schedule);
    return success();
  }

  LogicalResult solve(const TransitionInfo &info, const WaveProblem &problem,
                      WaveSchedule &schedule) {
    std::string name = solver;
    if (name.empty())
      name = problem.storage ? "flat" : "best";
    WaveSolver found = findWaveSolver(name);
    if (!found)
      return info.op().emitOpError() << "has no solver '" << name
                                     << "', expected " << waveSolverNames();
    WaveOptions options;
    options.effort = effort;
    if (getContext().isMultithreadingEnabled())
      options.parallel = threadsOf(&getContext());
    if (auto error = found(problem, options, schedule))
      return info.op().emitOpError() << *error;
    return success();
  }

  static double secondsOf(const TransitionInfo &info,
                          const WaveProblem &problem,
                          const LibraryWaves &calls) {
    return predictSeconds(timedCalls(calls, problem.elementBytes, info.cluster),
                          info.cluster);
  }

  /// Where the cluster allows it: what is faster over third devices goes so.
  void relay(const TransitionInfo &info, const WaveProblem &problem,
             const LibraryWaves &calls, WaveSchedule &schedule) {
    if (!info.cluster.relays || problem.storage)
      return;
    constexpr int64_t kMostEffort = 100000; // for each number of pairs
    WaveOptions options;
    options.effort = std::min<int64_t>(effort, kMostEffort);
    auto gain = relayMessages(problem, options, allDevices(info), schedule);
    if (!gain)
      return;
    Builder builder(&getContext());
    info.op().setSecondsWithoutRelaysAttr(builder.getF64FloatAttr(
        gain->secondsWithout + secondsOf(info, problem, calls)));
    relayedBytes += gain->bytes;
  }

  /// Library collectives come first. They share the staging with the messages
  /// after them.
  LibraryWaves takeCalls(const TransitionInfo &info, WaveProblem &problem) {
    std::vector<LibraryCall> calls = readLibraryCalls(info);
    if (calls.empty())
      return {};
    if (!problem.moves.empty())
      problem.stagingBytes /= 2;
    return scheduleCalls(calls, problem.elementBytes, problem.stagingBytes);
  }

  void countSchedule(const TransitionInfo &info, const WaveProblem &problem,
                     const WaveSchedule &schedule, const LibraryWaves &calls) {
    std::vector<TimedMessage> messages =
        problem.messages(schedule.moves, threadsOf(&getContext()));
    PortSeconds busiest = busiestPorts(messages, info.cluster);
    predictedUs +=
        predictSeconds(messages, info.cluster, problem.timedCopies(schedule)) *
        1e6;
    busiestNicUs += busiest.nic * 1e6;
    busiestIslandUs += busiest.island * 1e6;
    numMessages += messages.size();
    predictedUs += secondsOf(info, problem, calls) * 1e6;
  }

  void writeSchedule(const TransitionInfo &info, const WaveProblem &problem,
                     const std::vector<LocalMove> &keeps,
                     const WaveSchedule &schedule, const LibraryWaves &calls) {
    for (Operation &op :
         llvm::make_early_inc_range(info.op().getBody().front()))
      if (isa<TransferOp, CollectiveOp>(op) ||
          (problem.storage && isa<KeepOp, CopyOp>(op)))
        op.erase();
    writeKeeps(info, keeps);
    std::vector<WaveContents> waves = splitWaves(schedule);
    for (const WaveContents &wave : waves)
      numWaves += !wave.moves.empty();
    numWaves += calls.size();
    writeWaves(info, waves, writeCalls(info, calls));
    moveToEnd(info);
  }

  LogicalResult scheduleTransition(const TransitionReading &reading) {
    const TransitionInfo &info = *reading.info;
    StayingShards staying(reading.plan);
    WaveProblem problem = readProblem(reading, staying);
    LibraryWaves calls = takeCalls(info, problem);
    if (!writeProblem.empty() &&
        failed(file.write(info.op(), writeProblem, toText(problem))))
      return failure();
    if (auto error = problem.check(threadsOf(&getContext())))
      return info.op().emitOpError() << "cannot be scheduled: " << *error;
    constexpr size_t kMostMoves = 262144; // of which runs are looked for
    std::optional<StoredFlows> stored;
    if (problem.moves.size() <= kMostMoves)
      problem.stored = &stored.emplace(info.stored());
    WaveSchedule schedule;
    bool isAgain = from && from->keepsMoves();
    if (failed(isAgain ? solveAgain(info, problem, schedule)
                       : solve(info, problem, schedule)))
      return failure();
    relay(info, problem, calls, schedule);
    std::vector<LocalMove> keeps;
    if (problem.storage)
      keeps = collectCopies(reading.plan, staying, /*stay=*/true);
    forEachOnThreads(&getContext(), 2, [&](size_t part) {
      if (part == 0)
        countSchedule(info, problem, schedule, calls);
      else
        writeSchedule(info, problem, keeps, schedule, calls);
    });
    return success();
  }

  void runOnOperation() override {
    file = ProblemFile();
    const auto &readings = getAnalysis<RoutingReading>();
    if (failed(readings.forEach([&](const TransitionReading &reading) {
          return scheduleTransition(reading);
        })))
      return signalPassFailure();
    markAnalysesPreserved<TransitionAnalysis>();
  }

private:
  ProblemFile file;
  std::shared_ptr<Replan> from; // null: from zero
};

} // namespace

std::unique_ptr<Pass> createScheduleWaves(std::shared_ptr<Replan> from) {
  return std::make_unique<ScheduleWavesPass>(std::move(from));
}

} // namespace dt
