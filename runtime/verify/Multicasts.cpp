//===- Multicasts.cpp - How many multicasts do programs make? -------------===//

#include "Multicasts.h"

#include "dtrt/format/ShardView.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace dtrt {

void PassedOn::addSent(const Segment &segment) {
  if (segment.side == Side::Destination)
    wanted[{segment.family, segment.states}].push_back(segment.offset);
}

void PassedOn::add(PassedOn &&other) {
  for (auto &[key, places] : other.wanted) {
    auto &own = wanted[key];
    std::move(places.begin(), places.end(), std::back_inserter(own));
  }
}

void PassedOn::add(const PassedOn &other) {
  for (const auto &[key, places] : other.wanted) {
    auto &own = wanted[key];
    own.insert(own.end(), places.begin(), places.end());
  }
}

std::vector<PassedOn::Elements> PassedOn::take() {
  std::vector<Elements> out;
  for (auto &[key, places] : wanted) {
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    places.shrink_to_fit();
    out.push_back({key.first, key.second, std::move(places)});
  }
  wanted.clear();
  return out;
}

/// Calls fn(number) for those of places [first, last) that lie in the segment;
/// they agree in all dims below `dim`.
template <typename Fn>
static void forEachInside(const std::vector<PassedOn::Place> &places,
                          const Segment &segment, size_t first, size_t last,
                          unsigned dim, const Fn &fn) {
  if (dim == segment.offset.size())
    return fn(uint32_t(first));
  auto seek = [&](int64_t value) {
    return size_t(std::lower_bound(places.begin() + first,
                                   places.begin() + last, value,
                                   [&](const auto &place, int64_t bound) {
                                     return place[dim] < bound;
                                   }) -
                  places.begin());
  };
  first = seek(segment.offset[dim]);
  while (first < last &&
         places[first][dim] < segment.offset[dim] + segment.size[dim]) {
    size_t next = seek(places[first][dim] + 1);
    forEachInside(places, segment, first, next, dim + 1, fn);
    first = next;
  }
}

/// There is one, and all have as many dims.
MulticastCounter::Bounds::Bounds(const std::vector<PassedOn::Place> &places)
    : first(places.front()), last(first) {
  for (const PassedOn::Place &place : places)
    for (size_t dim = 0; dim < place.size(); ++dim) {
      first[dim] = std::min(first[dim], place[dim]);
      last[dim] = std::max(last[dim], place[dim]);
    }
}

bool MulticastCounter::Bounds::meet(const Segment &segment) const {
  for (size_t dim = 0; dim < first.size(); ++dim)
    if (segment.offset[dim] > last[dim] ||
        segment.offset[dim] + segment.size[dim] <= first[dim])
      return false;
  return true;
}

MulticastCounter::MulticastCounter(
    const std::vector<PassedOn::Elements> &passedOn)
    : passedOn(passedOn), ends(passedOn.size()) {
  for (const PassedOn::Elements &elements : passedOn) {
    bounds.emplace_back(elements.places);
    isSent.emplace_back(elements.places.size());
  }
}

void MulticastCounter::addOne(const Segment &segment, uint32_t source,
                              uint32_t destination, Steps &steps) {
  auto at = std::partition_point(
      passedOn.begin(), passedOn.end(),
      [&](const auto &elements) { return elements.family < segment.family; });
  for (; at != passedOn.end() && at->family == segment.family; ++at) {
    if (!steps.take())
      return;
    auto number = size_t(at - passedOn.begin());
    if (!(at->states & segment.states) || !bounds[number].meet(segment))
      continue;
    std::vector<End> &own = ends[number];
    std::vector<bool> &sent = isSent[number];
    forEachInside(at->places, segment, 0, at->places.size(), 0,
                  [&](uint32_t place) {
                    if (!steps.take())
                      return;
                    if (!sent[place])
                      own.push_back(makeEnd(place, source, false));
                    sent[place] = true;
                    own.push_back(makeEnd(place, destination, true));
                  });
  }
}

/// forEach(fn) calls fn(segment, peer) for all that is sent, and ends where it
/// returns false.
template <typename ForEach>
Result<uint64_t> MulticastCounter::addAll(uint32_t device, uint64_t mostSteps,
                                          const ForEach &forEach) {
  if (passedOn.empty())
    return uint64_t(0);
  Steps steps(mostSteps);
  std::vector<size_t> before;
  for (const std::vector<End> &own : ends)
    before.push_back(own.size());
  forEach([&](const Segment &segment, uint32_t peer) {
    addOne(segment, device, peer, steps);
    return !steps.spent();
  });
  for (size_t i = 0; i < ends.size(); ++i)
    for (size_t e = before[i]; e < ends[i].size(); ++e)
      isSent[i][placeOf(ends[i][e])] = false;
  Status status = steps.status();
  if (!status.ok())
    return makeError("device ", device, ": counting multicasts ",
                     status.message());
  return steps.taken();
}

/// Calls fn(segment, peer) for all that the messages of a program carry, until
/// it returns false.
template <typename Fn>
static void forEachSent(const PlanCommon &common, const RankProgram &program,
                        const Fn &fn) {
  auto bytesOf = [&](const Segment &segment) {
    return segmentBytes(common.families[segment.family], segment);
  };
  std::map<uint64_t, const Segment *> packed; // by place in the arena
  for (const Instruction &instruction : program.instructions) {
    if (instruction.op == Opcode::Pack || instruction.op == Opcode::Relay) {
      uint64_t at = instruction.slot;
      for (const Segment &segment : instruction.segments) {
        uint64_t bytes = bytesOf(segment);
        if (bytes > 0)
          packed[at] = &segment;
        at += bytes;
      }
    }
    for (const Message &message : instruction.messages) {
      if (message.receive)
        continue;
      if (message.direct) {
        if (!fn(message.segment, message.peer))
          return;
        continue;
      }
      uint64_t end = message.slot + message.bytes;
      for (uint64_t at = message.slot; at < end;) {
        const Segment &segment = *packed.at(at);
        if (!fn(segment, message.peer))
          return;
        at += bytesOf(segment);
      }
    }
  }
}

Result<uint64_t> MulticastCounter::addProgram(const PlanCommon &common,
                                              const RankProgram &program,
                                              uint64_t mostSteps) {
  return addAll(program.device, mostSteps,
                [&](const auto &add) { forEachSent(common, program, add); });
}

Result<uint64_t> MulticastCounter::addCarried(const Carried &carried,
                                              uint64_t mostSteps) {
  return addAll(carried.device, mostSteps,
                [&](const auto &add) { carried.forEach(add); });
}

std::vector<std::vector<MulticastCounter::End>> MulticastCounter::takeEnds() {
  return std::exchange(ends, std::vector<std::vector<End>>(passedOn.size()));
}

std::vector<MulticastCounter::End>
MulticastCounter::takeByPlace(std::vector<MulticastCounter> &counters,
                              size_t number) {
  std::vector<size_t> next(counters[0].passedOn[number].places.size() + 1);
  for (const MulticastCounter &counter : counters)
    for (End end : counter.ends[number])
      ++next[placeOf(end) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<End> out(next.back());
  for (MulticastCounter &counter : counters)
    for (End end : std::exchange(counter.ends[number], {}))
      out[next[placeOf(end)]++] = end;
  return out;
}

MulticastCounter::Devices MulticastCounter::sharersOf(End *first, End *last) {
  std::sort(first, last);
  bool isPassedOn = false;
  Devices devices;
  for (End *end = first; end != last; ++end) {
    auto device = uint32_t(*end >> 1);
    bool known = !devices.empty() && devices.back() == device;
    isPassedOn |= known && *end != end[-1];
    if (!known)
      devices.push_back(device);
  }
  return isPassedOn ? devices : Devices();
}

std::set<MulticastCounter::Devices>
MulticastCounter::sets(std::vector<MulticastCounter> &counters) {
  std::set<Devices> out;
  for (size_t i = 0; !counters.empty() && i < counters[0].ends.size(); ++i) {
    std::vector<End> all = takeByPlace(counters, i);
    for (auto first = all.begin(), last = first; first != all.end();
         first = last) {
      last = std::find_if(first, all.end(), [&](End end) {
        return placeOf(end) != placeOf(*first);
      });
      Devices devices = sharersOf(&*first, &*first + (last - first));
      if (!devices.empty())
        out.insert(std::move(devices));
    }
  }
  return out;
}

} // namespace dtrt
