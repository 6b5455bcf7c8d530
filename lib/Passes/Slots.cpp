//===- Slots.cpp - Slot tables of waves as messages -----------------------===//

#include "Slots.h"

#include <tuple>

using namespace mlir;

namespace dt {

namespace {

using End = std::tuple<int64_t, int64_t, int64_t>; // device, peer, receive

struct Slot {
  int64_t offset, bytes;
};

std::map<End, Slot> slotsOf(WaveOp wave) {
  std::map<End, Slot> out;
  if (RowsAttr rows = wave.getSlotsAttr())
    rows.forEach([&](ArrayRef<int64_t> row) {
      out[{row[WaveOp::kDevice], row[WaveOp::kPeer], row[WaveOp::kReceive]}] = {
          row[WaveOp::kSlotOffset], row[WaveOp::kBytes]};
    });
  return out;
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
    std::map<End, Slot> slots = slotsOf(wave);
    while (!rest.empty() && rest.front().wave == wave.getNumber()) {
      Message &message = rest.front();
      for (bool receive : {false, true}) {
        int64_t device = receive ? message.destination : message.source;
        int64_t peer = receive ? message.source : message.destination;
        auto it = slots.find({device, peer, receive});
        if (it == slots.end() || it->second.bytes != message.bytes)
          return wave.emitOpError()
                 << "has no slot of " << message.bytes << " bytes on device "
                 << device << " for the message " << message.source << " -> "
                 << message.destination;
        int64_t offset = it->second.offset;
        (receive ? message.receiveSlot : message.sendSlot) = offset;
        int64_t &arena = out.arenaBytes[device];
        if (offset != kDirect)
          arena = std::max(arena, offset + message.bytes);
      }
      rest = rest.drop_front();
    }
  }
  return out;
}

} // namespace dt
