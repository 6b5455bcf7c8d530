//===- AllocateStaging.cpp - Slots for packed messages --------------------===//
//
// Gives every message of every wave its slots (Staging.h) and refuses what
// does not fit the limit.
//
//===----------------------------------------------------------------------===//

#include "TransportReading.h"
#include "dt/Passes/Passes.h"
#include "dt/Scheduling/Staging.h"

#include "mlir/IR/Threading.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_ALLOCATESTAGING
#include "dt/Passes/Passes.h.inc"

namespace {

/// Slots of a large wave are tried by example: where the first rows are no
/// classes, sorting all of them this way and that finds none either.
RowSet compressSlots(std::vector<int64_t> rows) {
  constexpr size_t kMany = 4096 * WaveOp::kNumSlotColumns, kSample = kMany / 4;
  if (rows.size() <= kMany)
    return compressRows(rows, WaveOp::kNumSlotColumns);
  std::vector<int64_t> sample(rows.begin(), rows.begin() + kSample);
  if (compressRows(sample, WaveOp::kNumSlotColumns).table.size() <=
      kSample * 7 / 8)
    return compressRows(rows, WaveOp::kNumSlotColumns);
  RowSet table;
  table.numColumns = WaveOp::kNumSlotColumns;
  table.table = std::move(rows);
  return table;
}

/// One row per end of each message of the wave.
RowsAttr slotRows(MLIRContext *context, ArrayRef<PlanMessage> messages) {
  std::vector<int64_t> rows;
  rows.reserve(2 * WaveOp::kNumSlotColumns * messages.size());
  for (const PlanMessage &message : messages) {
    rows.insert(rows.end(), {message.source, message.destination, 0,
                             message.sendSlot, message.bytes});
    rows.insert(rows.end(), {message.destination, message.source, 1,
                             message.receiveSlot, message.bytes});
  }
  return RowsAttr::get(context, compressSlots(std::move(rows)));
}

std::vector<ScheduledMove> scheduledMoves(const TransportPlan &plan) {
  std::vector<ScheduledMove> out;
  for (const PlanStep &step : plan.steps)
    if (step.kind == PlanStep::Kind::Wave)
      for (size_t i = step.first; i < step.last; ++i) {
        const PlanPiece &piece = plan.pieces[i];
        out.push_back({{piece.flow, /*hop=*/0, piece.from, piece.to, piece.box},
                       step.wave,
                       piece.relay});
      }
  return out;
}

struct AllocateStagingPass : impl::AllocateStagingBase<AllocateStagingPass> {
  LogicalResult allocate(const TransitionReading &reading) {
    const TransitionInfo &info = *reading.info;
    std::vector<ScheduledMove> scheduled = scheduledMoves(reading.plan);
    const std::vector<Flow> &flows = info.flowWidths();
    std::vector<PlanMessage> messages = formMessages(scheduled, flows);
    ShardIndex source = indexShards(reading.plan.flows, /*source=*/true);
    ShardIndex destination = indexShards(reading.plan.flows, /*source=*/false);
    std::vector<unsigned> numStates = info.numStates();
    std::vector<unsigned> numLeading = info.numLeading();
    StagingInput input{scheduled,  flows,  numStates,
                       numLeading, source, destination};
    std::vector<RelayedPair> pairs;
    if (auto error = pairRelays(scheduled, messages, pairs))
      return info.op().emitOpError() << "has no place for slots: " << *error;
    for (auto [device, bytes] : assignSlots(input, messages, pairs)) {
      if (bytes > info.stagingLimit)
        return info.op().emitOpError()
               << "needs " << bytes << " bytes of staging on device " << device
               << ", more than the limit of " << info.stagingLimit
               << " (memory.staging)";
      peakStagingBytes = std::max<uint64_t>(peakStagingBytes, bytes);
    }
    for (const PlanMessage &message : messages)
      numDirect +=
          (message.sendSlot == kInPlace) + (message.receiveSlot == kInPlace);
    ArrayRef<PlanMessage> rest(messages);
    std::vector<std::pair<WaveOp, ArrayRef<PlanMessage>>> waves;
    for (auto wave : info.op().getOps<WaveOp>()) {
      ArrayRef<PlanMessage> own = rest.take_while(
          [&](const PlanMessage &m) { return m.wave == wave.getNumber(); });
      rest = rest.drop_front(own.size());
      waves.push_back({wave, own});
    }
    std::vector<RowsAttr> slots(waves.size());
    parallelFor(&getContext(), 0, waves.size(), [&](size_t w) {
      slots[w] = slotRows(&getContext(), waves[w].second);
    });
    for (auto [wave, rows] : llvm::zip_equal(waves, slots))
      wave.first.setSlotsAttr(rows);
    return success();
  }

  void runOnOperation() override {
    const auto &readings = getAnalysis<TransportReading>();
    if (failed(readings.forEach([&](const TransitionReading &reading) {
          return allocate(reading);
        })))
      return signalPassFailure();
    markAnalysesPreserved<TransitionAnalysis>();
  }
};

} // namespace
} // namespace dt
