//===- FlatSchedule.cpp - Waves and copies of a flat transition -----------===//

#include "FlatSchedule.h"

#include "dt/Geometry/Limits.h"
#include "dt/Routing/CostModel.h"
#include "dt/Routing/FlatOrder.h"

using namespace mlir;

namespace dt {

namespace {

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
  FlowInfo own = info.flows[flow];
  StatesAttr states = own.allStates();
  const StateEntry &entry = states.getEntries()[llvm::countr_zero(own.states)];
  if (entry.source || !entry.from)
    return flow;
  int from = states.indexOf(entry.from);
  for (uint32_t i : info.flowsOf.lookup(own.param.getSymNameAttr()))
    if (info.flows[i].states >> from & 1)
      return i;
  return flow;
}

class FlatScheduler {
public:
  FlatScheduler(TransitionInfo &info, const std::vector<Move> &moves,
                const std::vector<Flow> &flows)
      : info(info), moves(moves), flows(flows) {
    for (uint32_t i = 0; i < info.flows.size(); ++i) {
      source.add(i, info.flows[i].source);
      destination.add(i, info.flows[i].destination);
      FlowInfo flow = info.flows[i];
      flatFlows.push_back(
          {flow.param.numLeading(), statesOn(Side::Source, flow),
           statesOn(Side::Destination, flow), readsFrom(info, i)});
    }
  }

  LogicalResult collectLocals();
  LogicalResult schedule(int64_t effort, std::vector<ScheduledMove> &best);
  void writeCopies();

private:
  /// Half of the limit is for slots, half for tensors on both sides at once.
  static int64_t room(int64_t limit) { return limit / 2; }
  static int64_t slots(int64_t limit) { return limit - room(limit); }
  std::vector<ScheduledMove> schedulePhase(const std::vector<Move> &moves,
                                           int64_t effort);
  std::optional<FlatOrder> orderFor(int64_t limit) const;
  int64_t slotsNeeded() const;
  bool hasSlots(int64_t limit) const;
  bool fits(int64_t limit) const;
  int64_t smallestLimit() const;
  LogicalResult refuseLimit();

  TransitionInfo &info;
  const std::vector<Move> &moves;
  const std::vector<Flow> &flows;
  std::vector<FlatFlow> flatFlows;
  ShardIndex source, destination;
  std::vector<LocalMove> locals;
  std::vector<LocalMove> ordered; // as they are done
  std::vector<uint32_t> steps;    // of `ordered`
  size_t lastBest = 0;            // candidate for chunks
};

LogicalResult FlatScheduler::collectLocals() {
  auto keeps = dt::collectLocals<KeepOp>(info);
  auto copies = dt::collectLocals<CopyOp>(info);
  if (failed(keeps) || failed(copies))
    return failure();
  locals = std::move(*keeps);
  locals.insert(locals.end(), copies->begin(), copies->end());
  return success();
}

std::optional<FlatOrder> FlatScheduler::orderFor(int64_t limit) const {
  return orderWithin({moves, locals, flatFlows, source, destination,
                      info.pageBytes(limit), info.cluster},
                     room(limit));
}

/// Slots for one element of each level, at least.
int64_t FlatScheduler::slotsNeeded() const {
  int64_t widest = 0;
  for (const Move &move : moves)
    widest = std::max(widest, flows[move.flow].bytesPerElement);
  return 2 * kSlotsPerLevel * alignSlot(widest);
}

/// Whether all elements have slots, and all that travels has no more messages
/// than the limit. That is quickly said, and phases have no fewer.
bool FlatScheduler::hasSlots(int64_t limit) const {
  return slots(limit) >= slotsNeeded() &&
         (moves.empty() ||
          !candidateChunks(moves, flows, info.cluster, slots(limit)).empty());
}

bool FlatScheduler::fits(int64_t limit) const {
  if (!hasSlots(limit))
    return false;
  std::optional<FlatOrder> order = orderFor(limit);
  if (!order)
    return false;
  std::vector<FlatPhase> phases = order->phases(room(limit));
  return llvm::all_of(phases, [&](const FlatPhase &phase) {
    return phase.moves.empty() || !candidateChunks(phase.moves, flows,
                                                   info.cluster, slots(limit))
                                       .empty();
  });
}

LogicalResult FlatScheduler::refuseLimit() {
  InFlightDiagnostic error = info.op.emitOpError();
  error << "cannot hold to the larger of source and destination plus "
        << info.stagingLimit << " bytes (memory.staging), ";
  if (int64_t smallest = smallestLimit())
    error << "the smallest limit that works is " << smallest;
  else
    error << "nor to any other limit within " << kMaxFlatEffects
          << " blocks and " << kMaxMessages << " messages";
  return error;
}

/// To one part in sixteen; 0 when there is none.
int64_t FlatScheduler::smallestLimit() const {
  int64_t works = 2 * std::max<int64_t>(info.stagingLimit, 256);
  while (works <= kMaxBytes && !fits(works))
    works *= 2;
  if (works > kMaxBytes)
    return 0;
  int64_t fails = works / 2;
  while (works - fails > works / 16) {
    int64_t middle = fails + (works - fails) / 2;
    (fits(middle) ? works : fails) = middle;
  }
  return works;
}

/// With the chunk size that is predicted to be fastest of those that are tried:
/// first the one that suited the phase before.
std::vector<ScheduledMove>
FlatScheduler::schedulePhase(const std::vector<Move> &moves, int64_t effort) {
  std::vector<ChunkBytes> candidates =
      candidateChunks(moves, flows, info.cluster, slots(info.stagingLimit));
  if (candidates.empty())
    return {};
  size_t first = lastBest < candidates.size() ? lastBest : 0;
  std::rotate(candidates.begin(), candidates.begin() + first,
              candidates.begin() + first + 1);
  std::vector<ScheduledMove> best;
  double bestSeconds = 0;
  int64_t tried = 0, needed = 0;
  for (size_t i = 0; i < candidates.size() && tried <= effort; ++i) {
    std::vector<ScheduledMove> scheduled;
    if (!dt::schedule(moves, flows, info.cluster, candidates[i], scheduled,
                      needed))
      continue;
    double seconds = predictSeconds(scheduled, flows, info.cluster);
    tried += int64_t(scheduled.size());
    if (!best.empty() && seconds >= bestSeconds)
      continue;
    best = std::move(scheduled);
    bestSeconds = seconds;
    lastBest = i == 0 ? first : i <= first ? i - 1 : i;
  }
  return best;
}

LogicalResult FlatScheduler::schedule(int64_t effort,
                                      std::vector<ScheduledMove> &best) {
  int64_t limit = info.stagingLimit;
  std::optional<FlatOrder> order;
  if (hasSlots(limit))
    order = orderFor(limit);
  if (!order)
    return refuseLimit();
  std::vector<FlatPhase> phases = order->phases(room(limit));
  // Phases are much alike: several sizes are tried in a few of them.
  constexpr size_t kSearched = 32;
  size_t stride = std::max<size_t>(1, phases.size() / kSearched), number = 0;
  int64_t share = effort / int64_t(std::min(phases.size() + 1, kSearched));
  int32_t wave = 0;
  uint32_t step = 0;
  for (FlatPhase &phase : phases) {
    uint32_t firstStep = step;
    for (size_t i = 0; i < phase.locals.size(); ++i) {
      ordered.push_back(std::move(phase.locals[i]));
      ordered.back().before = wave;
      steps.push_back(firstStep + phase.steps[i]);
      step = std::max(step, steps.back());
    }
    if (phase.moves.empty())
      continue;
    std::vector<ScheduledMove> scheduled =
        schedulePhase(phase.moves, number++ % stride ? 0 : share);
    if (scheduled.empty() && candidateChunks(phase.moves, flows, info.cluster,
                                             slots(limit))
                                 .empty())
      return refuseLimit();
    if (scheduled.empty())
      return info.op.emitOpError("forwards only what nothing delivers");
    if (int64_t(best.size() + scheduled.size()) > kMaxPieces)
      return refuseMessages(info.op);
    for (ScheduledMove &entry : scheduled) {
      entry.wave += wave;
      best.push_back(std::move(entry));
    }
    wave = best.back().wave + 1;
  }
  return success();
}

/// One op per wave, step and flow, in this order.
void FlatScheduler::writeCopies() {
  using Key = std::tuple<int32_t, uint32_t, uint32_t>;
  std::map<Key, std::vector<int64_t>> rows;
  for (size_t i = 0; i < ordered.size(); ++i) {
    const LocalMove &local = ordered[i];
    std::vector<int64_t> &table = rows[{local.before, steps[i], local.flow}];
    table.insert(table.end(), {local.device, local.device});
    for (unsigned d = 0; d < local.box.rank(); ++d)
      table.push_back(local.box[d].lo);
    for (unsigned d = 0; d < local.box.rank(); ++d)
      table.push_back(local.box[d].size());
  }
  for (Operation &op : llvm::make_early_inc_range(info.op.getBody().front()))
    if (isa<KeepOp, CopyOp>(op))
      op.erase();
  OpBuilder builder(info.op.getContext());
  builder.setInsertionPointToEnd(&info.op.getBody().front());
  for (const auto &[key, table] : rows) {
    auto [before, step, flow] = key;
    ParamOp param = info.flows[flow].param;
    RowSet set = compressRows(table, PiecesAttr::numColumns(param.rank()));
    CopyOp::create(builder, info.op.getLoc(),
                   FlatSymbolRefAttr::get(param.getSymNameAttr()),
                   info.flows[flow].stateNames,
                   PiecesAttr::get(builder.getContext(), set, param.rank()),
                   int64_t(before));
  }
}

} // namespace

LogicalResult refuseMessages(TransitionOp op) {
  return op.emitOpError() << "has more messages than the limit of "
                          << kMaxMessages;
}

LogicalResult scheduleFlat(TransitionInfo &info, const std::vector<Move> &moves,
                           const std::vector<Flow> &flows, int64_t effort,
                           std::vector<ScheduledMove> &best) {
  FlatScheduler scheduler(info, moves, flows);
  if (failed(scheduler.collectLocals()) ||
      failed(scheduler.schedule(effort, best)))
    return failure();
  scheduler.writeCopies();
  return success();
}

} // namespace dt
