//===- Slots.cpp - Slot tables of waves as messages -----------------------===//

#include "Slots.h"

#include <tuple>

using namespace mlir;

namespace dt {

namespace {

/// A row of the table, in the order (device, peer, receive).
struct Slot {
  int64_t device, peer, receive;
  int64_t offset, bytes;
  friend bool operator<(const Slot &a, const Slot &b) {
    return std::tie(a.device, a.peer, a.receive) <
           std::tie(b.device, b.peer, b.receive);
  }
};

std::vector<Slot> sortedSlots(WaveOp wave) {
  std::vector<Slot> out;
  if (RowsAttr rows = wave.getSlotsAttr())
    rows.forEach([&](ArrayRef<int64_t> row) {
      out.push_back({row[WaveOp::kDevice], row[WaveOp::kPeer],
                     row[WaveOp::kReceive], row[WaveOp::kSlotOffset],
                     row[WaveOp::kBytes]});
    });
  llvm::sort(out);
  return out;
}

const Slot *find(const std::vector<Slot> &slots, int64_t device, int64_t peer,
                 bool receive) {
  auto at = llvm::lower_bound(slots, Slot{device, peer, receive, 0, 0});
  bool found = at != slots.end() && at->device == device && at->peer == peer &&
               at->receive == receive;
  return found ? &*at : nullptr;
}

} // namespace

FailureOr<StagedMessages>
readSlots(const TransitionInfo &info,
          const std::vector<ScheduledMove> &scheduled) {
  StagedMessages out;
  std::vector<Flow> flows = info.makeFlows(/*computeCells=*/false);
  out.messages = formMessages(scheduled, flows);
  MutableArrayRef<Message> rest(out.messages);
  TransitionOp transition = info.op;
  for (auto wave : transition.getOps<WaveOp>()) {
    std::vector<Slot> slots = sortedSlots(wave);
    while (!rest.empty() && rest.front().wave == wave.getNumber()) {
      Message &message = rest.front();
      for (bool receive : {false, true}) {
        int64_t device = receive ? message.destination : message.source;
        int64_t peer = receive ? message.source : message.destination;
        const Slot *slot = find(slots, device, peer, receive);
        if (!slot || slot->bytes != message.bytes)
          return wave.emitOpError()
                 << "has no slot of " << message.bytes << " bytes on device "
                 << device << " for the message " << message.source << " -> "
                 << message.destination;
        (receive ? message.receiveSlot : message.sendSlot) = slot->offset;
        int64_t &arena = out.arenaBytes[device];
        if (slot->offset != kDirect)
          arena = std::max(arena, slot->offset + message.bytes);
      }
      rest = rest.drop_front();
    }
  }
  return out;
}

} // namespace dt
