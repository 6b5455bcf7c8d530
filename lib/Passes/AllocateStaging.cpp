//===- AllocateStaging.cpp - Slots for packed messages --------------------===//
//
// Gives every message of every wave its slots (Staging.h) and refuses what
// does not fit the limit.
//
//===----------------------------------------------------------------------===//

#include "Threads.h"
#include "TransportReading.h"
#include "dt/Emit/Programs.h"
#include "dt/Passes/Passes.h"
#include "dt/Scheduling/Staging.h"

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

/// Of all collectives, by wave.
std::vector<CollectiveSlots> blocksOf(const TransportPlan &plan) {
  std::vector<CollectiveSlots> out;
  for (const PlanCollective &own : plan.collectives)
    for (int64_t member : own.members)
      out.push_back(
          {own.wave, member, own.givenBytes(member), own.gotBytes(member)});
  return out;
}

/// One row per end of each message of the wave, and for the blocks that a
/// member of a collective gives or gets.
RowsAttr slotRows(MLIRContext *context, ArrayRef<PlanMessage> messages,
                  ArrayRef<CollectiveSlots> blocks) {
  std::vector<int64_t> rows;
  rows.reserve(2 * WaveOp::kNumSlotColumns * messages.size());
  for (const CollectiveSlots &own : blocks) {
    if (own.giveSlot != kInPlace)
      rows.insert(rows.end(),
                  {own.device, own.device, 0, own.giveSlot, own.givenBytes});
    if (own.getSlot != kInPlace)
      rows.insert(rows.end(),
                  {own.device, own.device, 1, own.getSlot, own.gotBytes});
  }
  for (const PlanMessage &message : messages) {
    if (message.collective >= 0)
      continue;
    rows.insert(rows.end(), {message.source, message.destination, 0,
                             message.sendSlot, message.bytes});
    rows.insert(rows.end(), {message.destination, message.source, 1,
                             message.receiveSlot, message.bytes});
  }
  return RowsAttr::get(context, compressSlots(std::move(rows)));
}

/// The messages that relay one another.
std::optional<std::string> pairRelays(const TransportPlan &plan,
                                      const std::vector<PlanMessage> &messages,
                                      std::vector<RelayedPair> &pairs) {
  if (llvm::all_of(messages, [](const PlanMessage &message) {
        return message.relay == RelayHop::None;
      }))
    return std::nullopt;
  std::vector<ScheduledMove> scheduled;
  scheduled.reserve(plan.pieces.size());
  for (const PlanPiece &piece : plan.pieces)
    scheduled.push_back(
        {{piece.flow, /*hop=*/0, piece.from, piece.to, piece.box},
         piece.wave,
         piece.relay});
  return dt::pairRelays(scheduled, messages, pairs);
}

/// What stands at the front of `rest` and is of the wave.
template <typename Entry>
ArrayRef<Entry> takeOfWave(ArrayRef<Entry> &rest, int64_t wave) {
  ArrayRef<Entry> own =
      rest.take_while([&](const Entry &entry) { return entry.wave == wave; });
  rest = rest.drop_front(own.size());
  return own;
}

void writeSlots(const TransitionInfo &info, ArrayRef<PlanMessage> messages,
                ArrayRef<CollectiveSlots> blocks) {
  MLIRContext *context = info.op().getContext();
  std::vector<WaveOp> waves;
  std::vector<std::pair<ArrayRef<PlanMessage>, ArrayRef<CollectiveSlots>>> own;
  for (auto wave : info.op().getOps<WaveOp>()) {
    waves.push_back(wave);
    auto first = takeOfWave(messages, wave.getNumber());
    own.push_back({first, takeOfWave(blocks, wave.getNumber())});
  }
  std::vector<RowsAttr> slots(waves.size());
  forEachOnThreads(context, waves.size(), [&](size_t w) {
    slots[w] = slotRows(context, own[w].first, own[w].second);
  });
  for (auto [wave, rows] : llvm::zip_equal(waves, slots))
    wave.setSlotsAttr(rows);
}

struct AllocateStagingPass : impl::AllocateStagingBase<AllocateStagingPass> {
  LogicalResult allocate(const TransitionReading &reading) {
    const TransitionInfo &info = *reading.info;
    const TransportPlan &plan = reading.plan;
    std::vector<PlanMessage> messages =
        messagesOf(plan, threadsOf(&getContext()));
    StoredFlows stored = info.stored();
    auto isRun = [&](const PlanMessage &message, bool atSender) {
      const PlanPiece &piece = plan.pieces[message.first];
      return stored.isRun(
          {piece.flow, /*hop=*/0, piece.from, piece.to, piece.box}, atSender);
    };
    std::vector<RelayedPair> pairs;
    if (auto error = pairRelays(plan, messages, pairs))
      return info.op().emitOpError() << "has no place for slots: " << *error;
    std::vector<CollectiveSlots> blocks = blocksOf(plan);
    for (auto [device, bytes] : assignSlots(isRun, messages, pairs, &blocks)) {
      if (bytes > info.stagingLimit)
        return info.op().emitOpError()
               << "needs " << bytes << " bytes of staging on device " << device
               << ", more than the limit of " << info.stagingLimit
               << " (memory.staging)";
      peakStagingBytes = std::max<uint64_t>(peakStagingBytes, bytes);
    }
    for (const PlanMessage &message : messages)
      numDirect += message.collective >= 0
                       ? 0
                       : (message.sendSlot == kInPlace) +
                             (message.receiveSlot == kInPlace);
    writeSlots(info, messages, blocks);
    return success();
  }

  void runOnOperation() override {
    auto &readings = getAnalysis<TransportReading>();
    if (failed(readings.forEach([&](const TransitionReading &reading) {
          return allocate(reading);
        })) ||
        failed(readings.readAgain()))
      return signalPassFailure();
    markAnalysesPreserved<TransitionAnalysis, TransportReading>();
  }
};

} // namespace
} // namespace dt
