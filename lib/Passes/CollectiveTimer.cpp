//===- CollectiveTimer.cpp - How long a collective takes ------------------===//

#include "CollectiveTimer.h"

#include "dt/Scheduling/BestSchedule.h"
#include "dt/Scheduling/RouteSchedule.h"

#include <limits>

using namespace mlir;

namespace dt {

namespace {

/// Pieces that are scheduled to time the messages of a collective.
constexpr int64_t kEffort = 100000;

/// What moves by the transfers of a collective, lower hops first.
std::vector<Move> movesOf(CollectiveOp op, uint32_t flow) {
  std::vector<Move> out;
  for (auto transfer : op.getBody().front().getOps<TransferOp>())
    for (const HopPieces &part : transfer.byHop())
      part.pieces.forEach([&](int64_t from, int64_t to, const Box &box) {
        out.push_back({flow, uint32_t(part.hop), from, to, box});
      });
  llvm::stable_sort(out,
                    [](const Move &a, const Move &b) { return a.hop < b.hop; });
  return out;
}

} // namespace

CollectiveTimer::CollectiveTimer(const TransitionInfo &info)
    : info(info), elementBytes(dt::elementBytes(info.flowWidths())),
      stored(info.stored()) {}

double CollectiveTimer::secondsOf(const std::vector<LibraryCall> &calls) const {
  LibraryWaves waves = scheduleCalls(calls, elementBytes, info.stagingLimit);
  return predictSeconds(timedCalls(waves, elementBytes, info.cluster),
                        info.cluster);
}

double CollectiveTimer::secondsOf(CollectiveOp op, uint32_t number) const {
  WaveProblem problem;
  problem.moves = movesOf(op, number);
  problem.elementBytes = elementBytes;
  problem.cluster = info.cluster;
  problem.stagingBytes = info.stagingLimit;
  problem.stored = &stored;
  WaveOptions options;
  options.effort = kEffort;
  WaveSchedule schedule;
  if (scheduleBest(problem, options, schedule))
    return std::numeric_limits<double>::infinity();
  return problem.seconds(schedule.moves);
}

} // namespace dt
