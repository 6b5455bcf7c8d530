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
bool isDirect(const StagingInput &input, const PlanMessage &message,
              bool send) {
  if (message.last - message.first != 1 || staysInSlot(message, send))
    return false;
  const Move &move = input.scheduled[message.first].move;
  if (input.numStates[move.flow] != 1)
    return false;
  for (unsigned d = 0; d < input.numLeading[move.flow]; ++d)
    if (move.box[d].size() != 1)
      return false;
  const Flow &flow = input.flows[move.flow];
  std::optional<ShardIndex::Found> found;
  if (send)
    found = input.source.find(move.flow, move.source, move.box);
  bool converts = found ? flow.sourceConverts : flow.destinationConverts;
  // A forward is read from where its own receive put it.
  if (!found)
    found = input.destination.find(
        move.flow, send ? move.source : move.destination, move.box);
  return found && !converts && isContiguous(found->view);
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
dt::assignSlots(const StagingInput &input, std::vector<PlanMessage> &messages,
                const std::vector<RelayedPair> &pairs) {
  dtrt::DeviceIndex index;
  std::vector<Arena> arenas;
  auto arenaOf = [&](int64_t device) -> Arena & {
    uint32_t number = index(device);
    if (number == arenas.size())
      arenas.emplace_back();
    return arenas[number];
  };
  std::vector<bool> parity[2]; // per message: its group's parity per end
  parity[0].resize(messages.size());
  parity[1].resize(messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    PlanMessage &message = messages[i];
    for (bool receive : {false, true}) {
      int64_t &slot = receive ? message.receiveSlot : message.sendSlot;
      Arena &arena = arenaOf(receive ? message.destination : message.source);
      bool direct = isDirect(input, message, !receive);
      bool isElsewhere = direct || staysInSlot(message, !receive);
      int64_t offset =
          arena.take(message.wave, receive, isElsewhere ? 0 : message.bytes);
      slot = direct ? kInPlace : offset;
      parity[receive][i] = arena.group % 2;
    }
  }
  // The areas' sizes are known only now.
  for (size_t i = 0; i < messages.size(); ++i) {
    PlanMessage &message = messages[i];
    if (message.sendSlot != kInPlace)
      message.sendSlot +=
          arenaOf(message.source).areaStart(/*receive=*/false, parity[0][i]);
    if (message.receiveSlot != kInPlace)
      message.receiveSlot += arenaOf(message.destination)
                                 .areaStart(/*receive=*/true, parity[1][i]);
  }
  std::map<int64_t, int64_t> bytes;
  for (uint32_t number = 0; number < arenas.size(); ++number)
    bytes[index.all()[number]] = arenas[number].areaStart(/*receive=*/true, 2);
  assignRelaySlots(pairs, bytes, messages);
  return bytes;
}
