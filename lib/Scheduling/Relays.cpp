//===- Relays.cpp - Messages that go over a third device ------------------===//

#include "dt/Scheduling/Relays.h"

#include "dtrt/types/DeviceIndex.h"

#include <algorithm>
#include <deque>

using namespace dt;

namespace {

/// What a relay gets: itself, and flows with boxes in one order.
using Content = std::pair<int64_t, std::vector<std::pair<uint32_t, Box>>>;

Content contentOf(const std::vector<ScheduledMove> &scheduled,
                  const PlanMessage &message, int64_t relay) {
  Content out = {relay, {}};
  for (size_t i = message.first; i < message.last; ++i)
    out.second.emplace_back(scheduled[i].move.flow, scheduled[i].move.box);
  std::sort(out.second.begin(), out.second.end());
  return out;
}

std::string describe(const PlanMessage &message) {
  return "the message from device " + std::to_string(message.source) +
         " to device " + std::to_string(message.destination) + " of wave " +
         std::to_string(message.wave);
}

/// A message has pieces that are relayed, or others.
std::optional<std::string>
checkMarks(const std::vector<ScheduledMove> &scheduled,
           const PlanMessage &message) {
  for (size_t i = message.first; i < message.last; ++i)
    if (scheduled[i].relay != message.relay)
      return describe(message) + " is relayed in part";
  return std::nullopt;
}

} // namespace

std::optional<std::string>
dt::pairRelays(const std::vector<ScheduledMove> &scheduled,
               const std::vector<PlanMessage> &messages,
               std::vector<RelayedPair> &pairs) {
  std::map<Content, std::deque<size_t>> waiting;
  for (size_t first = 0, last = 0; first < messages.size(); first = last) {
    for (;
         last < messages.size() && messages[last].wave == messages[first].wave;
         ++last) {
      const PlanMessage &message = messages[last];
      if (auto error = checkMarks(scheduled, message))
        return error;
      if (message.relay != RelayHop::Out)
        continue;
      auto came = waiting.find(contentOf(scheduled, message, message.source));
      if (came == waiting.end())
        return describe(message) + " is relayed before it has come";
      pairs.push_back({came->second.front(), last});
      came->second.pop_front();
      if (came->second.empty())
        waiting.erase(came);
    }
    // Only now: what comes in a wave goes on in a later one.
    for (size_t i = first; i < last; ++i)
      if (messages[i].relay == RelayHop::In)
        waiting[contentOf(scheduled, messages[i], messages[i].destination)]
            .push_back(i);
  }
  if (!waiting.empty())
    return describe(messages[waiting.begin()->second.front()]) +
           " comes to a relay, which never sends it on";
  return std::nullopt;
}

std::vector<std::pair<int64_t, int64_t>>
dt::groupNumbers(const std::vector<PlanMessage> &messages) {
  struct Group {
    int32_t wave = -1;
    int64_t number = -1;
  };
  dtrt::DeviceIndex index;
  std::vector<Group> groups;
  auto numberIn = [&](int64_t device, int32_t wave) {
    uint32_t number = index(device);
    if (number == groups.size())
      groups.emplace_back();
    Group &group = groups[number];
    group.number += group.wave != wave;
    group.wave = wave;
    return group.number;
  };
  std::vector<std::pair<int64_t, int64_t>> out;
  out.reserve(messages.size());
  for (const PlanMessage &message : messages) {
    int64_t source = numberIn(message.source, message.wave);
    out.emplace_back(source, numberIn(message.destination, message.wave));
  }
  return out;
}

RelaySlots dt::placeRelays(const std::vector<PlanMessage> &messages,
                           const std::vector<RelayedPair> &pairs) {
  struct Slot {
    int64_t relay, first, last; // groups of the relay
    int64_t bytes;
    size_t pair;
  };
  RelaySlots out;
  out.offsets.resize(pairs.size());
  auto groups = groupNumbers(messages);
  std::vector<Slot> slots;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const PlanMessage &in = messages[pairs[i].in];
    slots.push_back({in.destination, groups[pairs[i].in].second,
                     groups[pairs[i].out].first, alignSlot(in.bytes), i});
  }
  std::sort(slots.begin(), slots.end(), [](const Slot &a, const Slot &b) {
    return std::tie(a.relay, a.first, a.pair) <
           std::tie(b.relay, b.first, b.pair);
  });
  std::map<int64_t, const Slot *> used; // by offset, of one relay
  for (size_t s = 0; s < slots.size(); ++s) {
    const Slot &slot = slots[s];
    if (s == 0 || slots[s - 1].relay != slot.relay)
      used.clear();
    int64_t offset = 0;
    for (auto at = used.begin(); at != used.end();) {
      if (at->second->last < slot.first) {
        at = used.erase(at);
        continue;
      }
      if (at->first - offset >= slot.bytes)
        break;
      offset = at->first + at->second->bytes;
      ++at;
    }
    used[offset] = &slot;
    out.offsets[slot.pair] = offset;
    int64_t &bytes = out.bytes[slot.relay];
    bytes = std::max(bytes, offset + slot.bytes);
  }
  return out;
}

std::vector<ScheduledMove>
dt::withoutRelays(const std::vector<ScheduledMove> &scheduled,
                  const std::vector<PlanMessage> &messages,
                  const std::vector<RelayedPair> &pairs) {
  std::vector<ScheduledMove> out;
  for (const ScheduledMove &piece : scheduled)
    if (piece.relay == RelayHop::None)
      out.push_back(piece);
  for (const RelayedPair &pair : pairs) {
    const PlanMessage &message = messages[pair.out];
    for (size_t i = message.first; i < message.last; ++i) {
      ScheduledMove whole = {scheduled[i].move, scheduled[i].wave};
      whole.move.source = messages[pair.in].source;
      out.push_back(whole);
    }
  }
  return out;
}
