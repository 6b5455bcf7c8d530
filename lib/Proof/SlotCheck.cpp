//===- SlotCheck.cpp - Four areas per arena -------------------------------===//

#include "FirstFault.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace dt {

namespace {

/// A slot with the number of its group among those of its device.
struct PlacedSlot {
  const ProofSlot *slot = nullptr;
  int64_t group = 0;
  int64_t begin() const { return slot->offset; }
  int64_t end() const { return slot->offset + slot->bytes; }
  /// When the slot is in use, in groups: it is packed during the one before,
  /// or unpacked during the one after.
  int64_t firstUse() const { return slot->receive ? group : group - 1; }
  int64_t lastUse() const { return slot->receive ? group + 1 : group; }
};

std::string bytesOf(const PlacedSlot &slot) {
  return "staging bytes " + std::to_string(slot.begin()) + " to " +
         std::to_string(slot.end());
}

/// The slots of one device, ordered by group.
class DeviceSlots {
public:
  DeviceSlots(std::vector<PlacedSlot> slots) : slots(std::move(slots)) {}

  MaybeFault check(int64_t limit) {
    for (const PlacedSlot &slot : slots)
      if (slot.begin() < 0 || slot.end() > limit)
        return Fault{slot.slot->op, "uses " + bytesOf(slot) + " on device " +
                                        std::to_string(slot.slot->device) +
                                        ", more than the limit of " +
                                        std::to_string(limit)};
    if (!groupsAreDisjoint() || !areasAreDisjoint())
      return explain();
    return std::nullopt;
  }

private:
  /// Slots of one kind in one group.
  bool groupsAreDisjoint() {
    std::sort(slots.begin(), slots.end(),
              [](const PlacedSlot &a, const PlacedSlot &b) {
                return std::make_tuple(a.group, a.slot->receive, a.begin()) <
                       std::make_tuple(b.group, b.slot->receive, b.begin());
              });
    for (size_t i = 1; i < slots.size(); ++i)
      if (slots[i].group == slots[i - 1].group &&
          slots[i].slot->receive == slots[i - 1].slot->receive &&
          slots[i].begin() < slots[i - 1].end())
        return false;
    return true;
  }

  bool areasAreDisjoint() const {
    Interval areas[4];
    for (const PlacedSlot &slot : slots) {
      Interval &area = areas[2 * slot.slot->receive + slot.group % 2];
      if (area.empty())
        area = {slot.begin(), slot.end()};
      area = {std::min(area.lo, slot.begin()), std::max(area.hi, slot.end())};
    }
    for (int a = 0; a < 4; ++a)
      for (int b = a + 1; b < 4; ++b)
        if (!intersect(areas[a], areas[b]).empty())
          return false;
    return true;
  }

  /// Two slots that meet; or, if none do, that they keep to no areas.
  Fault explain() const {
    for (size_t i = 0; i < slots.size(); ++i)
      for (size_t j = i + 1;
           j < slots.size() && slots[j].group <= slots[i].group + 2; ++j) {
        const PlacedSlot &a = slots[i], &b = slots[j];
        if (a.begin() < b.end() && b.begin() < a.end() &&
            a.firstUse() <= b.lastUse() && b.firstUse() <= a.lastUse())
          return {
              b.slot->op,
              "reuses " + bytesOf(b) + " of device " +
                  std::to_string(b.slot->device) + " while they are in flight",
              a.slot->op,
              "they hold the message of wave " + std::to_string(a.slot->wave)};
      }
    Fault fault;
    fault.op = slots.front().slot->op;
    fault.text = "places the slots of device " +
                 std::to_string(slots.front().slot->device) +
                 " otherwise than in four areas, {send, receive} x {even, odd "
                 "group}, which is not proved to be safe";
    return fault;
  }

  std::vector<PlacedSlot> slots;
};

} // namespace

namespace {
/// The slots of one device, in any order.
MaybeFault checkDevice(std::vector<const ProofSlot *> slots, int64_t limit) {
  std::sort(slots.begin(), slots.end(),
            [](const ProofSlot *a, const ProofSlot *b) {
              return std::tie(a->wave, a->receive, a->peer) <
                     std::tie(b->wave, b->receive, b->peer);
            });
  std::vector<PlacedSlot> own;
  int64_t wave = -1, group = -1;
  for (const ProofSlot *slot : slots) {
    group += slot->wave != wave;
    wave = slot->wave;
    if (slot->offset != -1)
      own.push_back({slot, group});
  }
  return DeviceSlots(std::move(own)).check(limit);
}
} // namespace

MaybeFault checkSlots(const std::vector<ProofSlot> &slots, int64_t limit,
                      const ParallelFor &parallel) {
  std::unordered_map<int64_t, uint32_t> known;
  std::vector<std::vector<const ProofSlot *>> devices;
  for (const ProofSlot &slot : slots) {
    auto [at, isNew] = known.try_emplace(slot.device, uint32_t(devices.size()));
    if (isNew)
      devices.emplace_back();
    devices[at->second].push_back(&slot);
  }
  std::sort(devices.begin(), devices.end(), [](const auto &a, const auto &b) {
    return a.front()->device < b.front()->device;
  });
  return firstFault(devices.size(), parallel, [&](size_t i) {
    return checkDevice(std::move(devices[i]), limit);
  });
}

} // namespace dt
