//===- Staging.cpp - Slots of the staging arena ---------------------------===//

#include "dt/Scheduling/Staging.h"

#include "dt/Scheduling/Relays.h"

#include "dtrt/types/DeviceIndex.h"

#include <algorithm>

using namespace dt;

namespace {

/// Whether a message waits here between the two waves that relay it.
bool staysInSlot(const PlanMessage &message, bool send) {
  return message.relay == (send ? RelayHop::Out : RelayHop::In);
}

/// Whether a message is one run of bytes on the given side.
bool isDirect(const IsRun &isRun, const PlanMessage &message, bool send) {
  return message.last - message.first == 1 && !staysInSlot(message, send) &&
         isRun(message, send);
}

/// One device's arena: sizes of its four areas.
struct Arena {
  int32_t wave = -1;
  int64_t group = -1;
  int64_t used[2] = {0, 0};              // {send, receive} of this group
  int64_t area[2][2] = {{0, 0}, {0, 0}}; // {send, receive} x parity

  /// Offset inside its area.
  int64_t take(int32_t ofWave, bool receive, int64_t bytes) {
    if (ofWave != wave) {
      wave = ofWave;
      ++group;
      used[0] = used[1] = 0;
    }
    int64_t offset = used[receive];
    used[receive] += alignSlot(bytes);
    int64_t &size = area[receive][group % 2];
    size = std::max(size, used[receive]);
    return offset;
  }
  int64_t areaStart(bool receive, int64_t parity) const {
    int64_t start = 0;
    for (int i = 0; i < 2 * receive + parity; ++i)
      start += area[i / 2][i % 2];
    return start;
  }
};

/// Ends of messages, and blocks of collectives, get their places in the areas
/// as waves go by; the areas' sizes are known at the end.
class SlotAssigner {
public:
  SlotAssigner(const IsRun &isRun, std::vector<PlanMessage> &messages,
               std::vector<CollectiveSlots> &collectives)
      : isRun(isRun), messages(messages), collectives(collectives) {
    for (bool receive : {false, true}) {
      parity[receive].resize(messages.size());
      blockParity[receive].resize(collectives.size());
    }
  }

  void run() {
    size_t next = 0; // of the collectives
    for (size_t i = 0; i < messages.size(); ++i) {
      for (; next < collectives.size() &&
             collectives[next].wave <= messages[i].wave;
           ++next)
        takeBlocks(next);
      if (messages[i].collective < 0)
        takeMessage(i);
    }
    for (; next < collectives.size(); ++next)
      takeBlocks(next);
    addStarts();
  }
  std::map<int64_t, int64_t> bytes() const {
    std::map<int64_t, int64_t> out;
    for (uint32_t number = 0; number < arenas.size(); ++number)
      out[index.all()[number]] = arenas[number].areaStart(/*receive=*/true, 2);
    return out;
  }

private:
  Arena &arenaOf(int64_t device) {
    uint32_t number = index(device);
    if (number == arenas.size())
      arenas.emplace_back();
    return arenas[number];
  }
  void takeMessage(size_t i);
  void takeBlocks(size_t i);
  void addStarts();

  const IsRun &isRun;
  std::vector<PlanMessage> &messages;
  std::vector<CollectiveSlots> &collectives;
  dtrt::DeviceIndex index;
  std::vector<Arena> arenas;
  // Of the group of each end, of messages and of collectives.
  std::vector<bool> parity[2], blockParity[2];
};

void SlotAssigner::takeMessage(size_t i) {
  PlanMessage &message = messages[i];
  for (bool receive : {false, true}) {
    int64_t &slot = receive ? message.receiveSlot : message.sendSlot;
    Arena &arena = arenaOf(receive ? message.destination : message.source);
    bool direct = isDirect(isRun, message, !receive);
    bool isElsewhere = direct || staysInSlot(message, !receive);
    int64_t offset =
        arena.take(message.wave, receive, isElsewhere ? 0 : message.bytes);
    slot = direct ? kInPlace : offset;
    parity[receive][i] = arena.group % 2;
  }
}

void SlotAssigner::takeBlocks(size_t i) {
  CollectiveSlots &blocks = collectives[i];
  Arena &arena = arenaOf(blocks.device);
  for (bool receive : {false, true}) {
    int64_t bytes = receive ? blocks.gotBytes : blocks.givenBytes;
    int64_t offset = arena.take(blocks.wave, receive, bytes);
    (receive ? blocks.getSlot : blocks.giveSlot) =
        bytes > 0 ? offset : kInPlace;
    blockParity[receive][i] = arena.group % 2;
  }
}

/// The areas' sizes are known only now.
void SlotAssigner::addStarts() {
  auto add = [&](int64_t device, bool receive, bool odd, int64_t &slot) {
    if (slot != kInPlace)
      slot += arenaOf(device).areaStart(receive, odd);
  };
  for (size_t i = 0; i < messages.size(); ++i) {
    PlanMessage &message = messages[i];
    add(message.source, false, parity[0][i], message.sendSlot);
    add(message.destination, true, parity[1][i], message.receiveSlot);
  }
  for (size_t i = 0; i < collectives.size(); ++i) {
    CollectiveSlots &blocks = collectives[i];
    add(blocks.device, false, blockParity[0][i], blocks.giveSlot);
    add(blocks.device, true, blockParity[1][i], blocks.getSlot);
  }
}

} // namespace

std::vector<PlanMessage>
dt::formMessages(const std::vector<ScheduledMove> &scheduled,
                 const std::vector<Flow> &flows) {
  std::vector<PlanMessage> out;
  forEachMessage(scheduled, [&](size_t first, size_t last) {
    PlanMessage &message = out.emplace_back();
    message.wave = scheduled[first].wave;
    message.source = scheduled[first].move.source;
    message.destination = scheduled[first].move.destination;
    message.first = first;
    message.last = last;
    message.relay = scheduled[first].relay;
    for (size_t i = first; i < last; ++i)
      message.bytes += scheduled[i].move.box.volume() *
                       flows[scheduled[i].move.flow].bytesPerElement;
  });
  return out;
}

IsRun dt::runsOf(const std::vector<ScheduledMove> &scheduled,
                 const StoredFlows &stored) {
  return [&](const PlanMessage &message, bool atSender) {
    return stored.isRun(scheduled[message.first].move, atSender);
  };
}

/// Behind the areas, of which `bytes` says how much they take; adds to it.
static void assignRelaySlots(const std::vector<RelayedPair> &pairs,
                             std::map<int64_t, int64_t> &bytes,
                             std::vector<PlanMessage> &messages) {
  RelaySlots slots = placeRelays(messages, pairs);
  for (size_t i = 0; i < pairs.size(); ++i) {
    PlanMessage &in = messages[pairs[i].in], &out = messages[pairs[i].out];
    in.receiveSlot = out.sendSlot = bytes[in.destination] + slots.offsets[i];
  }
  for (auto [relay, own] : slots.bytes)
    bytes[relay] += own;
}

std::map<int64_t, int64_t>
dt::assignSlots(const IsRun &isRun, std::vector<PlanMessage> &messages,
                const std::vector<RelayedPair> &pairs,
                std::vector<CollectiveSlots> *collectives) {
  std::vector<CollectiveSlots> none;
  SlotAssigner slots(isRun, messages, collectives ? *collectives : none);
  slots.run();
  std::map<int64_t, int64_t> bytes = slots.bytes();
  assignRelaySlots(pairs, bytes, messages);
  return bytes;
}
