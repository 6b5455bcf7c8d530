//===- KnownMulticasts.cpp - Multicasts of known programs -----------------===//

#include "KnownMulticasts.h"

#include <algorithm>
#include <numeric>

namespace dtrt {

/// Sets of devices that share something: those that known programs make, as
/// long as an element is left that they share, and others.
class KnownMulticasts::Sets {
public:
  explicit Sets(const KnownMulticasts &known)
      : known(known), uses(known.uses) {}

  void remove(uint32_t set) {
    if (set != kNoSet)
      --uses[set];
  }
  void add(const Devices &devices) {
    auto found = known.numbers.find(devices);
    if (found != known.numbers.end())
      ++uses[found->second];
    else
      others.insert(devices);
  }
  uint64_t count() const {
    auto isUsed = [](uint32_t number) { return number > 0; };
    return others.size() +
           uint64_t(std::count_if(uses.begin(), uses.end(), isUsed));
  }

private:
  const KnownMulticasts &known;
  std::vector<uint32_t> uses;
  std::set<Devices> others;
};

//===----------------------------------------------------------------------===//
// Where segments lie
//===----------------------------------------------------------------------===//

void KnownMulticasts::Reach::add(const Segment &segment) {
  if (count++ == 0) {
    first = end = segment.offset;
    for (size_t dim = 0; dim < end.size(); ++dim)
      end[dim] += segment.size[dim];
    return;
  }
  for (size_t dim = 0; dim < first.size(); ++dim) {
    first[dim] = std::min(first[dim], segment.offset[dim]);
    end[dim] = std::max(end[dim], segment.offset[dim] + segment.size[dim]);
  }
}

bool KnownMulticasts::Reach::meets(const Reach &other) const {
  if (family != other.family || !(states & other.states))
    return false;
  for (size_t dim = 0; dim < first.size(); ++dim)
    if (first[dim] >= other.end[dim] || other.first[dim] >= end[dim])
      return false;
  return true;
}

std::vector<KnownMulticasts::Reach>
KnownMulticasts::reachOf(const Carried &carried) {
  std::vector<Reach> out;
  carried.forEach([&](const Segment &segment, uint32_t) {
    auto own = std::find_if(out.begin(), out.end(), [&](const Reach &reach) {
      return reach.family == segment.family && reach.states == segment.states;
    });
    if (own == out.end()) {
      own = out.emplace(own);
      own->family = segment.family;
      own->states = segment.states;
    }
    own->add(segment);
    return true;
  });
  return out;
}

/// There is one.
KnownMulticasts::Reach
KnownMulticasts::reachOf(const PassedOn::Elements &elements) {
  Reach out;
  out.family = elements.family;
  out.states = elements.states;
  out.first = out.end = elements.places.front();
  for (const PassedOn::Place &place : elements.places)
    for (size_t dim = 0; dim < place.size(); ++dim) {
      out.first[dim] = std::min(out.first[dim], place[dim]);
      out.end[dim] = std::max(out.end[dim], place[dim] + 1);
    }
  return out;
}

//===----------------------------------------------------------------------===//
// What is known
//===----------------------------------------------------------------------===//

/// False: there are too many.
bool KnownMulticasts::addEnds() {
  constexpr size_t kMost = (size_t(64) << 20) / sizeof(KnownEnd);
  MulticastCounter counter(elements);
  size_t count = 0;
  for (uint32_t program = 0; program < carried.size(); ++program) {
    auto taken = counter.addCarried(*carried[program], kMost);
    if (!taken.ok())
      return false;
    steps.push_back(*taken);
    reach.push_back(reachOf(*carried[program]));
    std::vector<std::vector<End>> ends = counter.takeEnds();
    for (size_t i = 0; i < ends.size(); ++i)
      for (End end : ends[i])
        groups[i].ends.push_back({end, program});
    for (const auto &own : ends)
      count += own.size();
    if (count > kMost)
      return false;
  }
  for (Group &group : groups) {
    std::stable_sort(group.ends.begin(), group.ends.end(),
                     [](const KnownEnd &a, const KnownEnd &b) {
                       return MulticastCounter::placeOf(a.end) <
                              MulticastCounter::placeOf(b.end);
                     });
    for (const KnownEnd &end : group.ends)
      ++group.firstEnd[MulticastCounter::placeOf(end.end) + 1];
    std::partial_sum(group.firstEnd.begin(), group.firstEnd.end(),
                     group.firstEnd.begin());
  }
  return true;
}

void KnownMulticasts::addMakers(const std::vector<Program> &programs) {
  std::vector<std::vector<std::pair<size_t, uint32_t>>> makers(groups.size());
  for (uint32_t program = 0; program < programs.size(); ++program)
    for (const PassedOn::Elements &own :
         PassedOn(*programs[program].passedOn).take()) {
      size_t number = *numberOf(own.family, own.states);
      const auto &places = elements[number].places;
      for (const PassedOn::Place &place : own.places)
        makers[number].push_back(
            {size_t(std::lower_bound(places.begin(), places.end(), place) -
                    places.begin()),
             program});
    }
  for (size_t i = 0; i < groups.size(); ++i) {
    Group &group = groups[i];
    std::sort(makers[i].begin(), makers[i].end());
    for (auto [place, program] : makers[i]) {
      ++group.firstMaker[place + 1];
      group.makers.push_back(program);
    }
    std::partial_sum(group.firstMaker.begin(), group.firstMaker.end(),
                     group.firstMaker.begin());
  }
}

void KnownMulticasts::findSets() {
  std::vector<End> own;
  for (size_t i = 0; i < groups.size(); ++i) {
    Group &group = groups[i];
    for (size_t place = 0; place < elements[i].places.size(); ++place) {
      own.clear();
      for (size_t e = group.firstEnd[place]; e < group.firstEnd[place + 1]; ++e)
        own.push_back(group.ends[e].end);
      Devices devices =
          MulticastCounter::sharersOf(own.data(), own.data() + own.size());
      group.set.push_back(kNoSet);
      if (devices.empty())
        continue;
      group.set.back() =
          numbers.try_emplace(std::move(devices), uint32_t(numbers.size()))
              .first->second;
      uses.resize(numbers.size());
      ++uses[group.set.back()];
    }
  }
}

/// There are no more than there are ends, whose number is limited: who passes
/// an element on sends it.
void KnownMulticasts::numberPlaces() {
  places.resize(carried.size());
  size_t next = 0;
  for (const Group &group : groups) {
    firstPlace.push_back(next);
    for (const KnownEnd &end : group.ends) {
      std::vector<uint32_t> &own = places[end.program];
      auto place = uint32_t(next + MulticastCounter::placeOf(end.end));
      if (own.empty() || own.back() != place)
        own.push_back(place);
    }
    next += group.set.size();
  }
  firstPlace.push_back(next);
}

std::optional<KnownMulticasts>
KnownMulticasts::of(const std::vector<Program> &programs) {
  KnownMulticasts out;
  PassedOn all;
  for (const Program &program : programs) {
    all.add(*program.passedOn);
    out.carried.push_back(program.carried);
  }
  out.elements = all.take();
  for (const PassedOn::Elements &own : out.elements) {
    Group group;
    group.firstMaker.resize(own.places.size() + 1);
    group.firstEnd.resize(own.places.size() + 1);
    out.groups.push_back(std::move(group));
  }
  if (!out.addEnds())
    return std::nullopt;
  out.addMakers(programs);
  out.findSets();
  out.numberPlaces();
  return out;
}

//===----------------------------------------------------------------------===//
// A plan that has some of it
//===----------------------------------------------------------------------===//

std::optional<size_t> KnownMulticasts::numberOf(uint32_t family,
                                                uint64_t states) const {
  auto at = std::partition_point(
      elements.begin(), elements.end(), [&](const PassedOn::Elements &own) {
        return std::make_pair(own.family, own.states) <
               std::make_pair(family, states);
      });
  if (at == elements.end() || at->family != family || at->states != states)
    return std::nullopt;
  return size_t(at - elements.begin());
}

KnownMulticasts::Added KnownMulticasts::sorted(PassedOn passedOn) const {
  Added out;
  for (const PassedOn::Elements &own : elements)
    out.isMade.emplace_back(own.places.size());
  for (PassedOn::Elements &own : passedOn.take()) {
    if (auto number = numberOf(own.family, own.states)) {
      const auto &places = elements[*number].places;
      auto isKnown = [&](const PassedOn::Place &place) {
        auto at = std::lower_bound(places.begin(), places.end(), place);
        if (at == places.end() || *at != place)
          return false;
        out.isMade[*number][size_t(at - places.begin())] = true;
        return true;
      };
      own.places.erase(
          std::remove_if(own.places.begin(), own.places.end(), isKnown),
          own.places.end());
    }
    if (!own.places.empty())
      out.elements.push_back(std::move(own));
  }
  return out;
}

/// Elements that are known and passed on no more are steps, too: so there are
/// as many as it would take without anything known, or more.
bool KnownMulticasts::addOthers(const std::vector<const Carried *> &others,
                                const MostSteps &mostSteps,
                                MulticastCounter &known,
                                MulticastCounter &added) const {
  return std::all_of(others.begin(), others.end(), [&](const Carried *own) {
    uint64_t most = mostSteps(own->items);
    auto first = known.addCarried(*own, most);
    return first.ok() && added.addCarried(*own, most - *first).ok();
  });
}

bool KnownMulticasts::addTaken(const std::vector<bool> &isTaken,
                               const std::vector<PassedOn::Elements> &elements,
                               const MostSteps &mostSteps,
                               MulticastCounter &added) const {
  std::vector<Reach> looked;
  for (const PassedOn::Elements &own : elements)
    looked.push_back(reachOf(own));
  for (size_t program = 0; program < carried.size(); ++program) {
    if (!isTaken[program])
      continue;
    uint64_t most = mostSteps(carried[program]->items);
    if (most <= steps[program])
      return false;
    uint64_t left = most - steps[program];
    uint64_t needed = 0; // to see that no segment has any of the elements
    bool mayMeet = false;
    for (const Reach &own : reach[program])
      for (const Reach &other : looked) {
        needed += own.family == other.family ? own.count : 0;
        mayMeet |= own.meets(other);
      }
    bool isSeen = mayMeet ? added.addCarried(*carried[program], left).ok()
                          : needed < left;
    if (!isSeen)
      return false;
  }
  return true;
}

/// Where something is carried that was not, or is no more.
std::vector<bool> KnownMulticasts::touchedPlaces(
    const std::vector<bool> &isTaken,
    const std::vector<std::vector<End>> &others) const {
  std::vector<bool> out(firstPlace.back());
  for (size_t program = 0; program < places.size(); ++program)
    if (!isTaken[program])
      for (uint32_t place : places[program])
        out[place] = true;
  for (size_t i = 0; i < others.size(); ++i)
    for (End end : others[i])
      out[firstPlace[i] + MulticastCounter::placeOf(end)] = true;
  return out;
}

/// Of each element that is not carried as it was: who shares it now, if one
/// that the plan has passes it on.
void KnownMulticasts::recount(size_t number, const std::vector<bool> &isTaken,
                              const std::vector<bool> &isMade,
                              const std::vector<bool> &isTouched,
                              std::vector<End> others, Sets &sets) const {
  const Group &group = groups[number];
  std::sort(others.begin(), others.end());
  std::vector<End> own;
  auto next = others.begin();
  for (size_t place = 0; place < group.set.size(); ++place) {
    if (!isTouched[firstPlace[number] + place])
      continue;
    own.clear();
    size_t first = group.firstEnd[place], last = group.firstEnd[place + 1];
    for (size_t e = first; e < last; ++e)
      if (isTaken[group.ends[e].program])
        own.push_back(group.ends[e].end);
    for (; next != others.end() && MulticastCounter::placeOf(*next) == place;
         ++next)
      own.push_back(*next);
    sets.remove(group.set[place]);
    auto makers = group.makers.begin();
    bool isPassedOn =
        isMade[place] ||
        std::any_of(makers + std::ptrdiff_t(group.firstMaker[place]),
                    makers + std::ptrdiff_t(group.firstMaker[place + 1]),
                    [&](uint32_t program) { return isTaken[program]; });
    if (!isPassedOn)
      continue;
    Devices devices =
        MulticastCounter::sharersOf(own.data(), own.data() + own.size());
    if (!devices.empty())
      sets.add(devices);
  }
}

std::optional<uint64_t>
KnownMulticasts::count(const std::vector<bool> &isTaken, PassedOn passedOn,
                       const std::vector<const Carried *> &others,
                       const MostSteps &mostSteps) const {
  Added added = sorted(std::move(passedOn));
  MulticastCounter ofKnown(elements);
  std::vector<MulticastCounter> ofAdded(1, MulticastCounter(added.elements));
  if (!addOthers(others, mostSteps, ofKnown, ofAdded.front()) ||
      !addTaken(isTaken, added.elements, mostSteps, ofAdded.front()))
    return std::nullopt;
  Sets sets(*this);
  std::vector<std::vector<End>> ends = ofKnown.takeEnds();
  const std::vector<bool> isTouched = touchedPlaces(isTaken, ends);
  for (size_t i = 0; i < groups.size(); ++i)
    recount(i, isTaken, added.isMade[i], isTouched, std::move(ends[i]), sets);
  for (const Devices &devices : MulticastCounter::sets(ofAdded))
    sets.add(devices);
  return sets.count();
}

} // namespace dtrt
