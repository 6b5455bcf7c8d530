//===- VerifyTransport.cpp - Closes the transport level -------------------===//
//
// Waves ascend, every message has its slots, live slots of a device never
// overlap and stay below the limit. A send slot is live in its own group and
// the one before (packing), a receive slot in its own and the one after
// (unpacking).
//
//===----------------------------------------------------------------------===//

#include "Slots.h"
#include "dt/Passes/Passes.h"

#include <map>

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_VERIFYTRANSPORT
#include "dt/Passes/Passes.h.inc"

namespace {

/// A slot of one device with the groups (counted on that device) it lives in.
struct LiveSlot {
  int64_t firstGroup, lastGroup;
  int64_t begin, end;
  WaveOp wave;
};

class SlotChecker {
public:
  SlotChecker(const TransitionInfo &info, int64_t device)
      : info(info), device(device) {}

  void add(WaveOp wave, int64_t offset, int64_t bytes, bool receive) {
    if (groups.empty() || groups.back() != wave.getNumber())
      groups.push_back(wave.getNumber());
    if (offset == kDirect)
      return;
    int64_t group = groups.size() - 1;
    slots.push_back({receive ? group : group - 1, receive ? group + 1 : group,
                     offset, offset + bytes, wave});
  }

  LogicalResult check() {
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].end > info.stagingLimit)
        return slots[i].wave.emitOpError()
               << "uses staging up to byte " << slots[i].end << " on device "
               << device << ", more than the limit of " << info.stagingLimit;
      // Slots come in group order, and none lives for more than two groups.
      for (size_t j = i + 1;
           j < slots.size() && slots[j].firstGroup <= slots[i].lastGroup; ++j)
        if (slots[i].begin < slots[j].end && slots[j].begin < slots[i].end)
          return overlap(slots[i], slots[j]);
    }
    return success();
  }

private:
  LogicalResult overlap(LiveSlot &first, LiveSlot &second) {
    InFlightDiagnostic error = second.wave.emitOpError()
                               << "reuses staging bytes " << second.begin
                               << " to " << second.end << " of device "
                               << device << " while they are in flight";
    error.attachNote(first.wave.getLoc())
        << "the slot at bytes " << first.begin << " to " << first.end
        << " belongs to wave " << first.wave.getNumber();
    return failure();
  }

  const TransitionInfo &info;
  int64_t device;
  std::vector<int64_t> groups; // wave numbers
  std::vector<LiveSlot> slots;
};

LogicalResult checkSlots(const TransitionInfo &info,
                         const std::vector<ScheduledMove> &scheduled) {
  auto staged = readSlots(info, scheduled);
  if (failed(staged))
    return failure();
  std::map<int64_t, WaveOp> waves;
  TransitionOp transition = info.op;
  for (auto wave : transition.getOps<WaveOp>())
    waves[wave.getNumber()] = wave;
  std::map<int64_t, SlotChecker> checkers;
  for (const Message &message : staged->messages)
    for (bool receive : {false, true}) {
      int64_t device = receive ? message.destination : message.source;
      auto it = checkers.try_emplace(device, info, device).first;
      it->second.add(waves[message.wave],
                     receive ? message.receiveSlot : message.sendSlot,
                     message.bytes, receive);
    }
  for (auto &[device, checker] : checkers)
    if (failed(checker.check()))
      return failure();
  return success();
}

LogicalResult checkTransition(TransitionInfo &info) {
  int64_t last = -1;
  bool hasSlots = false;
  for (Operation &op : info.op.getBody().front()) {
    if (!op.hasTrait<TransportLevelOp>())
      return op.emitOpError("is illegal at the transport level");
    auto wave = dyn_cast<WaveOp>(op);
    if (!wave)
      continue;
    if (wave.getNumber() <= last)
      return wave.emitOpError()
             << "has number " << wave.getNumber()
             << ", expected one above that of the wave before, " << last;
    last = wave.getNumber();
    hasSlots |= bool(wave.getSlotsAttr());
  }
  auto scheduled = collectScheduled(info);
  if (failed(scheduled))
    return failure();
  return hasSlots ? checkSlots(info, *scheduled) : success();
}

struct VerifyTransportPass : impl::VerifyTransportBase<VerifyTransportPass> {
  void runOnOperation() override {
    if (failed(forEachTransition(getOperation(), checkTransition)))
      signalPassFailure();
  }
};

} // namespace
} // namespace dt
