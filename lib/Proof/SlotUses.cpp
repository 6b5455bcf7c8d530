//===- SlotUses.cpp - When slots of staging are in use --------------------===//

#include "dt/Proof/SlotUses.h"

#include <algorithm>
#include <map>

namespace dt {

//===----------------------------------------------------------------------===//
// Forwards
//===----------------------------------------------------------------------===//

std::pair<const Forwards::Entry *, const Forwards::Entry *>
Forwards::messageOf(const PlanSlot &slot) const {
  std::call_once(isIndexed, [&] {
    for (const PlanPiece &piece : pieces)
      if (piece.wave >= 0)
        index.push_back({{piece.wave, piece.from, piece.to}, &piece});
    std::stable_sort(
        index.begin(), index.end(),
        [](const Entry &a, const Entry &b) { return a.first < b.first; });
  });
  Key key = {slot.wave, slot.receive ? slot.peer : slot.device,
             slot.receive ? slot.device : slot.peer};
  auto first =
      std::partition_point(index.begin(), index.end(),
                           [&](const Entry &e) { return e.first < key; });
  auto last = std::partition_point(
      first, index.end(), [&](const Entry &e) { return e.first == key; });
  return {index.data() + (first - index.begin()),
          index.data() + (last - index.begin())};
}

bool Forwards::feeds(const PlanSlot &receive, const PlanSlot &send) const {
  if (receive.relay == RelayHop::In)
    return false; // nothing of it comes to the destination
  auto [firstRead, lastRead] = messageOf(send);
  if (std::none_of(firstRead, lastRead,
                   [](const Entry &e) { return !e.second->atSource; }))
    return false;
  auto [firstBrought, lastBrought] = messageOf(receive);
  for (auto read = firstRead; read != lastRead; ++read)
    for (auto brought = firstBrought; brought != lastBrought; ++brought)
      if (!read->second->atSource &&
          read->second->fedBy == brought->second->flow &&
          overlaps(read->second->box, brought->second->box))
        return true;
  return false;
}

//===----------------------------------------------------------------------===//
// Uses
//===----------------------------------------------------------------------===//

namespace {

/// The ends of one device with the number of their group.
struct GroupedEnd {
  const PlanSlot *slot = nullptr;
  int64_t group = 0;
};

std::vector<GroupedEnd> numberGroups(std::vector<const PlanSlot *> ends) {
  std::sort(ends.begin(), ends.end(), [](const PlanSlot *a, const PlanSlot *b) {
    return std::tie(a->wave, a->receive, a->peer) <
           std::tie(b->wave, b->receive, b->peer);
  });
  std::vector<GroupedEnd> out;
  int64_t wave = -1, group = -1;
  for (const PlanSlot *slot : ends) {
    group += slot->wave != wave;
    wave = slot->wave;
    out.push_back({slot, group});
  }
  return out;
}

/// Whether an end of group `group` is bound to one of another kind in that
/// group: a send to what it brings, a receive to what it passes on.
bool isBound(const PlanSlot &slot, int64_t group,
             const std::vector<GroupedEnd> &ends, const Forwards &forwards) {
  auto at = std::partition_point(
      ends.begin(), ends.end(),
      [&](const GroupedEnd &end) { return end.group < group; });
  for (; at != ends.end() && at->group == group; ++at)
    if (at->slot->receive != slot.receive &&
        (slot.receive ? forwards.feeds(slot, *at->slot)
                      : forwards.feeds(*at->slot, slot)))
      return true;
  return false;
}

bool shareTimeAndBytes(const SlotUse &a, const SlotUse &b) {
  return a.first <= b.last && b.first <= a.last && a.begin() < b.end() &&
         b.begin() < a.end();
}

} // namespace

std::vector<SlotUse> slotUses(std::vector<const PlanSlot *> slots,
                              const Forwards *forwards) {
  std::vector<GroupedEnd> ends = numberGroups(std::move(slots));
  std::vector<SlotUse> out;
  std::map<int64_t, size_t> relayed; // what came to an offset, in `out`
  for (const GroupedEnd &end : ends) {
    if (end.slot->offset == -1)
      continue;
    bool receive = end.slot->receive;
    if (end.slot->isRelays() && !receive)
      if (auto came = relayed.find(end.slot->offset); came != relayed.end()) {
        out[came->second].last = 2 * end.group;
        continue;
      }
    if (end.slot->isRelays() && receive)
      relayed[end.slot->offset] = out.size();
    bool isShort =
        forwards &&
        isBound(*end.slot, end.group + (receive ? 1 : -1), ends, *forwards);
    int64_t own = 2 * end.group;
    out.push_back({end.slot, end.group, receive ? own : own - 2 + isShort,
                   receive ? own + 2 - isShort : own});
  }
  std::sort(out.begin(), out.end(), [](const SlotUse &a, const SlotUse &b) {
    return a.order() < b.order();
  });
  return out;
}

std::vector<SlotPair> slotsThatMeet(const std::vector<SlotUse> &uses,
                                    const Forwards *forwards) {
  std::vector<SlotPair> out;
  // Groups have few messages, so few uses are near one another; what is relayed
  // may wait for long. A use begins a group before its own at most.
  for (size_t a = 0; a < uses.size(); ++a)
    for (size_t b = a + 1;
         b < uses.size() && 2 * uses[b].group - 2 <= uses[a].last; ++b) {
      const PlanSlot &older = *uses[a].slot, &newer = *uses[b].slot;
      bool isOrdered = forwards && older.receive && !newer.receive &&
                       uses[a].group < uses[b].group &&
                       shareTimeAndBytes(uses[a], uses[b]) &&
                       forwards->feeds(older, newer);
      if (shareTimeAndBytes(uses[a], uses[b]) && !isOrdered)
        out.emplace_back(a, b);
    }
  return out;
}

} // namespace dt
