//===- VerifyTransport.cpp - Closes the transport level -------------------===//
//
// Waves ascend and do what is asked of the transition (Coverage.h): a forward
// reads what arrived in an earlier wave, and nothing is read after its release.
// Every message has its slots, live slots of a device never overlap and stay
// below the limit. A send slot is live in its own group and
// the one before (packing), a receive slot in its own and the one after
// (unpacking).
//
//===----------------------------------------------------------------------===//

#include "Coverage.h"
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
    for (const LiveSlot &slot : slots)
      if (slot.end > info.stagingLimit)
        return beyondLimit(slot);
    // Slots that are live in a group, by their first byte: those that meet
    // stand beside each other.
    std::map<int64_t, std::vector<size_t>> live;
    for (size_t i = 0; i < slots.size(); ++i)
      for (int64_t group = slots[i].firstGroup; group <= slots[i].lastGroup;
           ++group)
        live[group].push_back(i);
    for (auto &[group, own] : live) {
      llvm::sort(own, [&](size_t a, size_t b) {
        return std::make_pair(slots[a].begin, a) <
               std::make_pair(slots[b].begin, b);
      });
      for (size_t i = 1; i < own.size(); ++i)
        if (slots[own[i]].begin < slots[own[i - 1]].end)
          return overlap(slots[std::min(own[i], own[i - 1])],
                         slots[std::max(own[i], own[i - 1])]);
    }
    return success();
  }

private:
  LogicalResult beyondLimit(LiveSlot slot) {
    return slot.wave.emitOpError()
           << "uses staging up to byte " << slot.end << " on device " << device
           << ", more than the limit of " << info.stagingLimit;
  }

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

/// Hands the pieces of the transition to the checkers of their flows.
class PieceCollector {
public:
  explicit PieceCollector(const TransitionInfo &info) : info(info) {
    for (uint32_t i = 0; i < info.flows.size(); ++i)
      checkers.emplace_back(info, i);
  }

  /// `wave` is -1 for what stands in no wave.
  LogicalResult add(Operation *op, int64_t wave) {
    auto movement = cast<MovementOpInterface>(op);
    auto flow = info.flowOf(movement);
    if (!flow)
      return op->emitOpError("names states that do not lie alike");
    FlowChecker &checker = checkers[*flow];
    auto release = dyn_cast<ReleaseOp>(op);
    movement.getPieces().forEach([&](int64_t from, int64_t to, const Box &box) {
      if (release)
        checker.addRelease(from, {op, release.getAfter(), box});
      else if (isa<ZeroOp>(op))
        checker.addZero(op, to, box);
      else
        checker.addArrival(
            to, {op, isa<DeriveOp>(op) ? kMadeTime : wave, from, box});
    });
    return success();
  }

  LogicalResult check() {
    for (FlowChecker &checker : checkers)
      if (failed(checker.check()))
        return failure();
    return success();
  }

private:
  const TransitionInfo &info;
  std::vector<FlowChecker> checkers;
};

LogicalResult addWave(WaveOp wave, int64_t &last, PieceCollector &pieces) {
  if (wave.getNumber() <= last)
    return wave.emitOpError()
           << "has number " << wave.getNumber()
           << ", expected one above that of the wave before, " << last;
  last = wave.getNumber();
  for (Operation &op : wave.getBody().front())
    if (failed(pieces.add(&op, last)))
      return failure();
  return success();
}

LogicalResult checkTransition(TransitionInfo &info) {
  PieceCollector pieces(info);
  int64_t last = -1;
  bool hasSlots = false;
  for (Operation &op : info.op.getBody().front()) {
    if (!op.hasTrait<TransportLevelOp>())
      return op.emitOpError("is illegal at the transport level");
    auto wave = dyn_cast<WaveOp>(op);
    LogicalResult added =
        wave ? addWave(wave, last, pieces) : pieces.add(&op, /*wave=*/-1);
    if (failed(added))
      return failure();
    hasSlots |= wave && wave.getSlotsAttr();
  }
  if (failed(pieces.check()))
    return failure();
  if (!hasSlots)
    return success();
  auto scheduled = collectScheduled(info);
  return failed(scheduled) ? failure() : checkSlots(info, *scheduled);
}

struct VerifyTransportPass : impl::VerifyTransportBase<VerifyTransportPass> {
  void runOnOperation() override {
    if (failed(forEachTransition(getOperation(), checkTransition)))
      signalPassFailure();
  }
};

} // namespace
} // namespace dt
