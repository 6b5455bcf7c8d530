//===- Slots.cpp - Slot tables of waves as messages -----------------------===//

#include "Slots.h"

#include "dt/Routing/DeviceIndex.h"

#include "mlir/IR/Threading.h"
#include "llvm/ADT/STLExtras.h"

#include <map>
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

/// One end of a message.
struct End {
  const Message *message = nullptr;
  bool receive = false;

  int64_t device() const {
    return receive ? message->destination : message->source;
  }
  int64_t peer() const {
    return receive ? message->source : message->destination;
  }
};

/// Gives the messages of a wave their slots. Returns an end that has none.
End readWave(WaveOp wave, MutableArrayRef<Message> messages) {
  std::vector<Slot> slots = sortedSlots(wave);
  for (Message &message : messages)
    for (bool receive : {false, true}) {
      End end = {&message, receive};
      const Slot *slot = find(slots, end.device(), end.peer(), receive);
      if (!slot || slot->bytes != message.bytes)
        return end;
      (receive ? message.receiveSlot : message.sendSlot) = slot->offset;
    }
  return {};
}

void measureArenas(StagedMessages &staged) {
  DeviceIndex index;
  std::vector<int64_t> arenas;
  auto count = [&](int64_t device, int64_t slot, int64_t bytes) {
    uint32_t number = index(device);
    if (number == arenas.size())
      arenas.push_back(0);
    if (slot != kDirect)
      arenas[number] = std::max(arenas[number], slot + bytes);
  };
  for (const Message &message : staged.messages) {
    count(message.source, message.sendSlot, message.bytes);
    count(message.destination, message.receiveSlot, message.bytes);
  }
  for (auto [device, bytes] : llvm::zip_equal(index.all(), arenas))
    staged.arenaBytes[device] = bytes;
}

} // namespace

/// The first end without a slot that is no one run of bytes.
static End firstIndirect(const TransitionInfo &info,
                         const std::vector<ScheduledMove> &scheduled,
                         const std::vector<Flow> &flows,
                         ArrayRef<Message> messages) {
  ShardIndex source, destination;
  for (uint32_t i = 0; i < info.flows.size(); ++i) {
    source.add(i, info.flows[i].source);
    destination.add(i, info.flows[i].destination);
  }
  std::vector<unsigned> numStates = info.numStates();
  std::vector<unsigned> numLeading = info.numLeading();
  StagingInput input{scheduled,  flows,  numStates,
                     numLeading, source, destination};
  for (const Message &message : messages)
    for (bool receive : {false, true})
      if ((receive ? message.receiveSlot : message.sendSlot) == kDirect &&
          !isDirect(input, message, !receive))
        return {&message, receive};
  return {};
}

FailureOr<StagedMessages>
readSlots(const TransitionInfo &info,
          const std::vector<ScheduledMove> &scheduled) {
  StagedMessages out;
  std::vector<Flow> flows = info.makeFlows();
  out.messages = formMessages(scheduled, flows);
  MutableArrayRef<Message> rest(out.messages);
  TransitionOp transition = info.op;
  std::vector<std::pair<WaveOp, MutableArrayRef<Message>>> waves;
  std::map<int64_t, WaveOp> byNumber;
  for (auto wave : transition.getOps<WaveOp>()) {
    byNumber[wave.getNumber()] = wave;
    MutableArrayRef<Message> own = rest.take_while(
        [&](const Message &m) { return m.wave == wave.getNumber(); });
    rest = rest.drop_front(own.size());
    waves.push_back({wave, own});
  }
  std::vector<End> missing(waves.size());
  parallelFor(transition.getContext(), 0, waves.size(), [&](size_t w) {
    missing[w] = readWave(waves[w].first, waves[w].second);
  });
  auto describe = [](const End &end) {
    return "on device " + std::to_string(end.device()) + " for the message " +
           std::to_string(end.message->source) + " -> " +
           std::to_string(end.message->destination);
  };
  for (auto [wave, end] : llvm::zip_equal(waves, missing))
    if (end.message)
      return wave.first.emitOpError()
             << "has no slot of " << end.message->bytes << " bytes "
             << describe(end);
  if (End end = firstIndirect(info, scheduled, flows, out.messages);
      end.message)
    return byNumber[end.message->wave].emitOpError()
           << "has no slot " << describe(end)
           << ", which is no one run of bytes there";
  measureArenas(out);
  return out;
}

} // namespace dt
