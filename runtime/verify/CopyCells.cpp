//===- CopyCells.cpp - Elements that have the same history ----------------===//
//
// A box of elements is halved, in the dim in which most events begin or end and
// at the median of these places, until every event has all of it or none.
//
//===----------------------------------------------------------------------===//

#include "CopyCells.h"

#include "dtrt/format/ShardView.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace dtrt {

namespace {

using Kind = CopyEvent::Kind;

/// States that no event tells apart.
struct StateClass {
  uint64_t states = 0; // those
  /// Of any of which a copy is one of them: itself, and what it is made from.
  uint64_t sources = 0;
};

std::vector<StateClass> classesOf(const Family &family,
                                  const std::vector<CopyEvent> &events) {
  std::vector<uint64_t> masks;
  for (const CopyEvent &event : events)
    if (masks.empty() || masks.back() != event.states)
      masks.push_back(event.states);
  std::sort(masks.begin(), masks.end());
  masks.erase(std::unique(masks.begin(), masks.end()), masks.end());
  std::map<std::vector<bool>, StateClass> classes;
  std::vector<StateClass> out;
  for (size_t state = 0; state < family.states.size(); ++state) {
    const StateInfo &info = family.states[state];
    if (!info.inDestination)
      continue;
    uint64_t own = uint64_t(1) << state;
    if (info.derivedFrom >= 0) {
      out.push_back({own, own | uint64_t(1) << unsigned(info.derivedFrom)});
      continue;
    }
    std::vector<bool> key;
    for (uint64_t mask : masks)
      key.push_back(mask & own);
    StateClass &shared = classes[key];
    shared.states |= own;
    shared.sources = own; // the others are alike
  }
  for (const auto &[key, shared] : classes)
    out.push_back(shared);
  return out;
}

class Divider {
public:
  Divider(const FamilyHistory &history, const StateClass &of, Steps &steps,
          const std::function<void(const CopyCell &)> &visit)
      : events(history.events), boxes(history.boxes), of(of), steps(steps),
        visit(visit), low(boxes.rank(), INT64_MAX),
        high(boxes.rank(), INT64_MIN), cuts(boxes.rank()) {}

  void divide() {
    for (uint32_t event = 0; event < events.size(); ++event) {
      if (!(events[event].states & of.sources))
        continue;
      open.push_back(event);
      if (events[event].kind == Kind::Brought && isOwn(event))
        for (size_t dim = 0; dim < low.size(); ++dim) {
          low[dim] = std::min(low[dim], boxes.low(event)[dim]);
          high[dim] = std::max(high[dim], boxes.high(event)[dim]);
          brought = true;
        }
    }
    brought |= low.empty();
    if (brought)
      divideBox(0);
  }

private:
  bool isOwn(uint32_t event) const { return events[event].states & of.states; }

  enum class Meets { Nothing, Part, All };
  Meets meets(uint32_t event) const {
    Meets found = Meets::All;
    const int64_t *lo = boxes.low(event), *hi = boxes.high(event);
    for (size_t dim = 0; dim < low.size(); ++dim) {
      if (lo[dim] >= high[dim] || hi[dim] <= low[dim])
        return Meets::Nothing;
      if (lo[dim] > low[dim] || hi[dim] < high[dim])
        found = Meets::Part;
    }
    return found;
  }

  /// The events that may meet the box are those of `open` from `first` on, and
  /// `whole`. Leaves both as they were.
  void divideBox(size_t first) {
    size_t end = open.size(), wholeBefore = whole.size();
    for (size_t i = first; i < end && steps.take(); ++i) {
      Meets found = meets(open[i]);
      if (found == Meets::All)
        whole.push_back(open[i]);
      else if (found == Meets::Part)
        open.push_back(open[i]);
    }
    if (!steps.spent()) {
      if (open.size() == end)
        leaf();
      else
        cut(end);
    }
    open.resize(end);
    whole.resize(wholeBefore);
  }

  void cut(size_t first) {
    size_t widest = 0;
    for (size_t dim = 0; dim < low.size(); ++dim) {
      cuts[dim].clear();
      for (size_t i = first; i < open.size(); ++i)
        for (int64_t place :
             {boxes.low(open[i])[dim], boxes.high(open[i])[dim]})
          if (place > low[dim] && place < high[dim])
            cuts[dim].push_back(place);
      if (cuts[dim].size() > cuts[widest].size())
        widest = dim;
    }
    auto middle =
        cuts[widest].begin() + std::ptrdiff_t(cuts[widest].size() / 2);
    std::nth_element(cuts[widest].begin(), middle, cuts[widest].end());
    int64_t place = *middle, from = low[widest], to = high[widest];
    high[widest] = place;
    divideBox(first);
    high[widest] = to;
    low[widest] = place;
    divideBox(first);
    low[widest] = from;
  }

  void leaf() {
    bool isBrought = std::any_of(whole.begin(), whole.end(), [&](uint32_t e) {
      return events[e].kind == Kind::Brought && isOwn(e);
    });
    if (!isBrought || !steps.take(whole.size()))
      return;
    presences.clear();
    for (uint32_t event : whole)
      if (events[event].kind == Kind::Staged ||
          events[event].kind == Kind::Brought)
        presences.push_back(
            {events[event].device, events[event].begin, events[event].end});
    for (unsigned state : statesOf(of.sources))
      addHeld(uint64_t(1) << state);
    merge();
    visit({low.data(), high.data(), of.states, presences});
  }

  /// Each source shard has what it holds until the first release.
  void addHeld(uint64_t state) {
    held.clear();
    for (uint32_t event : whole)
      if ((events[event].kind == Kind::Held ||
           events[event].kind == Kind::Released) &&
          (events[event].states & state))
        held.push_back(event);
    auto keyOf = [&](uint32_t e) {
      const CopyEvent &event = events[e];
      return std::tie(event.device, event.shard, event.kind, event.begin);
    };
    std::sort(held.begin(), held.end(),
              [&](uint32_t a, uint32_t b) { return keyOf(a) < keyOf(b); });
    for (size_t i = 0; i < held.size(); ++i) {
      const CopyEvent &event = events[held[i]];
      if (event.kind != Kind::Held)
        continue;
      Moment end = kForever;
      if (i + 1 < held.size()) {
        const CopyEvent &next = events[held[i + 1]];
        if (next.kind == Kind::Released && next.device == event.device &&
            next.shard == event.shard)
          end = next.begin;
      }
      presences.push_back({event.device, kAtStart, end});
    }
  }

  void merge() {
    std::sort(presences.begin(), presences.end(),
              [](const Presence &a, const Presence &b) {
                return std::tie(a.device, a.begin) <
                       std::tie(b.device, b.begin);
              });
    size_t kept = 0;
    for (size_t i = 1; i < presences.size(); ++i) {
      Presence &last = presences[kept], next = presences[i];
      if (next.device == last.device && next.begin <= last.end)
        last.end = std::max(last.end, next.end);
      else
        presences[++kept] = next;
    }
    presences.resize(presences.empty() ? 0 : kept + 1);
  }

  const std::vector<CopyEvent> &events;
  const BoxList &boxes;
  const StateClass of;
  Steps &steps;
  const std::function<void(const CopyCell &)> &visit;
  bool brought = false;
  std::vector<int64_t> low, high; // the box
  /// Events that may have a part of the box, below those that may have a part
  /// of its halves; and events that have all of it.
  std::vector<uint32_t> open, whole;
  std::vector<std::vector<int64_t>> cuts; // by dim
  std::vector<Presence> presences;
  std::vector<uint32_t> held;
};

} // namespace

void forEachCell(const Family &family, const FamilyHistory &history,
                 Steps &steps,
                 const std::function<void(const CopyCell &)> &visit) {
  for (const StateClass &of : classesOf(family, history.events))
    Divider(history, of, steps, visit).divide();
}

int64_t bytesOf(const Family &family, const CopyCell &cell) {
  int64_t bytes = 0;
  for (unsigned state : statesOf(cell.states))
    bytes += int64_t(byteWidth(family.states[state].destinationDType));
  for (size_t dim = 0; dim < family.rank(); ++dim)
    bytes *= cell.high[dim] - cell.low[dim];
  return bytes;
}

Status checkCountable(const PlanCommon &common) {
  int64_t sum = 0;
  for (const Family &family : common.families) {
    std::optional<int64_t> bytes = family.numMembers();
    for (int64_t size : family.shape)
      bytes = bytes ? checkedProduct(*bytes, size) : bytes;
    int64_t width = 0;
    for (const StateInfo &state : family.states)
      width += int64_t(byteWidth(state.destinationDType));
    bytes = bytes ? checkedProduct(*bytes, width) : bytes;
    if (!bytes || __builtin_add_overflow(sum, *bytes, &sum))
      return makeError("tensors of more than 2^63 bytes");
  }
  return {};
}

} // namespace dtrt
