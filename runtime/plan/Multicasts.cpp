//===- Multicasts.cpp - How many multicasts do programs make? -------------===//

#include "Multicasts.h"

#include "dtrt/ShardView.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace dtrt {

void MulticastCounter::addSent(const Segment &segment) {
  if (segment.side == Side::Destination)
    wanted[{segment.family, segment.states}].places.push_back(segment.offset);
}

void MulticastCounter::addSent(MulticastCounter &&other) {
  for (auto &[key, elements] : other.wanted) {
    auto &places = wanted[key].places;
    std::move(elements.places.begin(), elements.places.end(),
              std::back_inserter(places));
  }
}

void MulticastCounter::addEnds(const MulticastCounter &copy) {
  for (const auto &[key, elements] : copy.wanted) {
    auto &ends = wanted[key].ends;
    for (size_t i = 0; i < ends.size(); ++i)
      ends[i].insert(ends[i].end(), elements.ends[i].begin(),
                     elements.ends[i].end());
  }
}

void MulticastCounter::sortPassedOn() {
  for (auto &[key, elements] : wanted) {
    auto &places = elements.places;
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    elements.ends.resize(places.size());
  }
}

/// Books a message at those of [first, last) that lie in its segment; they
/// agree in all dims below `dim`.
void MulticastCounter::find(Elements &elements, const Segment &segment,
                            size_t first, size_t last, unsigned dim,
                            uint32_t source, uint32_t destination) {
  if (dim == segment.offset.size()) {
    elements.ends[first].push_back({source, false});
    elements.ends[first].push_back({destination, true});
    return;
  }
  auto seek = [&](int64_t value) {
    return size_t(std::lower_bound(elements.places.begin() + first,
                                   elements.places.begin() + last, value,
                                   [&](const auto &place, int64_t bound) {
                                     return place[dim] < bound;
                                   }) -
                  elements.places.begin());
  };
  first = seek(segment.offset[dim]);
  while (first < last && elements.places[first][dim] <
                             segment.offset[dim] + segment.size[dim]) {
    size_t next = seek(elements.places[first][dim] + 1);
    find(elements, segment, first, next, dim + 1, source, destination);
    first = next;
  }
}

void MulticastCounter::addCarried(const Segment &segment, uint32_t source,
                                  uint32_t destination) {
  for (auto at = wanted.lower_bound({segment.family, 0});
       at != wanted.end() && at->first.family == segment.family; ++at)
    if (at->first.states & segment.states)
      find(at->second, segment, 0, at->second.places.size(), 0, source,
           destination);
}

void MulticastCounter::addProgram(const PlanCommon &common,
                                  const RankProgram &program) {
  std::map<uint64_t, const Segment *> packed; // by place in the arena
  for (const Instruction &instruction : program.instructions) {
    if (instruction.op == Opcode::Pack) {
      uint64_t at = instruction.slot;
      for (const Segment &segment : instruction.segments) {
        uint64_t bytes = segmentBytes(common.families[segment.family], segment);
        if (bytes > 0)
          packed[at] = &segment;
        at += bytes;
      }
    }
    for (const Message &message : instruction.messages) {
      if (message.receive)
        continue;
      if (message.direct) {
        addCarried(message.segment, program.device, message.peer);
        continue;
      }
      for (uint64_t at = message.slot; at < message.slot + message.bytes;) {
        const Segment &segment = *packed.at(at);
        addCarried(segment, program.device, message.peer);
        at += segmentBytes(common.families[segment.family], segment);
      }
    }
  }
}

uint64_t MulticastCounter::count() const {
  std::set<std::vector<uint32_t>> sets;
  for (const auto &[key, elements] : wanted)
    for (auto ends : elements.ends) {
      std::sort(ends.begin(), ends.end());
      bool isPassedOn = false;
      std::vector<uint32_t> devices;
      for (size_t i = 0; i < ends.size(); ++i) {
        bool known = i > 0 && ends[i].first == ends[i - 1].first;
        isPassedOn |= known && ends[i].second != ends[i - 1].second;
        if (!known)
          devices.push_back(ends[i].first);
      }
      if (isPassedOn)
        sets.insert(devices);
    }
  return sets.size();
}

} // namespace dtrt
