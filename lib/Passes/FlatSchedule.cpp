//===- FlatSchedule.cpp - Waves and copies of a flat transition -----------===//

#include "FlatSchedule.h"

#include "dt/Routing/CostModel.h"
#include "dt/Routing/FlatOrder.h"

using namespace mlir;

namespace dt {

namespace {

std::vector<FlatStates> statesOf(const std::vector<FlowBuffers> &buffers) {
  std::vector<FlatStates> out;
  for (const FlowBuffers &group : buffers)
    out.push_back({group.width, llvm::popcount(group.states)});
  return out;
}

class FlatScheduler {
public:
  FlatScheduler(const TransitionReading &reading,
                const std::vector<Move> &moves, const std::vector<Flow> &flows)
      : info(*reading.info), moves(moves), flows(flows),
        source(indexShards(reading.plan.flows, /*source=*/true)),
        destination(indexShards(reading.plan.flows, /*source=*/false)) {
    for (uint32_t i = 0; i < info.flows.size(); ++i) {
      const PlanFlow &flow = reading.plan.flows[i];
      ParamOp param = info.flows[i].param;
      flatFlows.push_back({param.numLeading(), statesOf(flow.sourceBuffers),
                           statesOf(flow.destinationBuffers), flow.readsFrom});
    }
    for (const PlanStep &step : reading.plan.steps)
      if (step.kind == PlanStep::Kind::Copy)
        for (size_t i = step.first; i < step.last; ++i)
          locals.push_back({reading.plan.pieces[i].flow,
                            reading.plan.pieces[i].from,
                            reading.plan.pieces[i].box});
  }

  LogicalResult schedule(int64_t effort, std::vector<ScheduledMove> &best,
                         FlatCopies &copies);

private:
  /// Half of the limit is for slots, half for tensors on both sides at once.
  static int64_t room(int64_t limit) { return limit / 2; }
  static int64_t slots(int64_t limit) { return limit - room(limit); }
  std::vector<ScheduledMove> schedulePhase(const std::vector<Move> &moves,
                                           int64_t effort);
  std::optional<FlatOrder> orderFor(int64_t limit) const;
  int64_t slotsNeeded() const;
  bool fits(int64_t limit) const;
  int64_t smallestLimit() const;

  const TransitionInfo &info;
  const std::vector<Move> &moves;
  const std::vector<Flow> &flows;
  std::vector<FlatFlow> flatFlows;
  ShardIndex source, destination;
  std::vector<LocalMove> locals;
  size_t lastBest = 0; // candidate for chunks
};

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

bool FlatScheduler::fits(int64_t limit) const {
  return limit - room(limit) >= slotsNeeded() && orderFor(limit).has_value();
}

/// To one part in sixteen.
int64_t FlatScheduler::smallestLimit() const {
  int64_t works = 2 * std::max<int64_t>(info.stagingLimit, 256);
  while (!fits(works))
    works *= 2;
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
                                      std::vector<ScheduledMove> &best,
                                      FlatCopies &copies) {
  int64_t limit = info.stagingLimit;
  std::optional<FlatOrder> order;
  if (limit - room(limit) >= slotsNeeded())
    order = orderFor(limit);
  if (!order)
    return info.op().emitOpError()
           << "cannot hold to the larger of source and destination plus "
           << limit << " bytes, the smallest limit that works is "
           << smallestLimit();
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
      copies.copies.push_back(std::move(phase.locals[i]));
      copies.copies.back().before = wave;
      copies.steps.push_back(firstStep + phase.steps[i]);
      step = std::max(step, copies.steps.back());
    }
    if (phase.moves.empty())
      continue;
    std::vector<ScheduledMove> scheduled =
        schedulePhase(phase.moves, number++ % stride ? 0 : share);
    if (scheduled.empty())
      return info.op().emitOpError("forwards only what nothing delivers");
    for (ScheduledMove &entry : scheduled) {
      entry.wave += wave;
      best.push_back(std::move(entry));
    }
    wave = best.back().wave + 1;
  }
  return success();
}

} // namespace

size_t writeCopies(const TransitionInfo &info, const FlatCopies &copies,
                   size_t first, int32_t wave, OpBuilder &builder) {
  using Key = std::pair<uint32_t, uint32_t>; // step, flow
  std::map<Key, std::vector<int64_t>> rows;
  for (; first < copies.copies.size() && copies.copies[first].before <= wave;
       ++first) {
    const LocalMove &local = copies.copies[first];
    std::vector<int64_t> &table = rows[{copies.steps[first], local.flow}];
    table.insert(table.end(), {local.device, local.device});
    for (unsigned d = 0; d < local.box.rank(); ++d)
      table.push_back(local.box[d].lo);
    for (unsigned d = 0; d < local.box.rank(); ++d)
      table.push_back(local.box[d].size());
  }
  for (const auto &[key, table] : rows) {
    const FlowInfo &flow = info.flows[key.second];
    ParamOp param = flow.param;
    RowSet set = compressRows(table, PiecesAttr::numColumns(param.rank()));
    CopyOp::create(builder, info.op().getLoc(),
                   FlatSymbolRefAttr::get(param.getSymNameAttr()),
                   flow.stateNames,
                   PiecesAttr::get(builder.getContext(), set, param.rank()));
  }
  return first;
}

LogicalResult scheduleFlat(const TransitionReading &reading,
                           const std::vector<Move> &moves,
                           const std::vector<Flow> &flows, int64_t effort,
                           std::vector<ScheduledMove> &best,
                           FlatCopies &copies) {
  return FlatScheduler(reading, moves, flows).schedule(effort, best, copies);
}

} // namespace dt
