//===- LossOracle.cpp - What a failure would lose, the slow way -----------===//

#include "LossOracle.h"

#include "dtrt/format/ShardView.h"

#include <algorithm>

namespace dtrt::test {

namespace {

/// All places that take one number of each dim, row-major.
std::vector<std::vector<int64_t>>
placesOf(const std::vector<std::vector<int64_t>> &numbers) {
  std::vector<std::vector<int64_t>> places = {{}};
  for (const std::vector<int64_t> &choices : numbers) {
    std::vector<std::vector<int64_t>> next;
    for (const auto &place : places)
      for (int64_t choice : choices) {
        next.push_back(place);
        next.back().push_back(choice);
      }
    places = std::move(next);
  }
  return places;
}

std::vector<std::vector<int64_t>> placesIn(const Segment &segment) {
  std::vector<std::vector<int64_t>> numbers;
  for (size_t dim = 0; dim < segment.size.size(); ++dim) {
    numbers.emplace_back();
    for (int64_t i = 0; i < segment.size[dim]; ++i)
      numbers.back().push_back(segment.offset[dim] + i);
  }
  return placesOf(numbers);
}

std::vector<std::vector<int64_t>>
numbersOf(const std::vector<std::vector<Interval>> &dims, size_t from,
          size_t to) {
  std::vector<std::vector<int64_t>> numbers;
  for (size_t dim = from; dim < to; ++dim) {
    numbers.emplace_back();
    for (const Interval &interval : dims[dim])
      for (int64_t i = interval.lo; i < interval.hi; ++i)
        numbers.back().push_back(i);
  }
  return numbers;
}

bool touches(const Instruction &instruction, uint64_t byte) {
  auto within = [&](uint64_t slot, uint64_t bytes) {
    return slot <= byte && byte < slot + bytes;
  };
  if (instruction.op == Opcode::Pack)
    return within(instruction.slot, instruction.bytes);
  return std::any_of(instruction.messages.begin(), instruction.messages.end(),
                     [&](const Message &message) {
                       return message.receive && !message.direct &&
                              within(message.slot, message.bytes);
                     });
}

bool sends(const Instruction &instruction, uint64_t byte) {
  return std::any_of(instruction.messages.begin(), instruction.messages.end(),
                     [&](const Message &message) {
                       return !message.receive && !message.direct &&
                              message.slot <= byte &&
                              byte < message.slot + message.bytes;
                     });
}

bool isLifetime(const Instruction &instruction) {
  return instruction.op == Opcode::Create || instruction.op == Opcode::Release;
}

int64_t numberIn(std::mt19937_64 &rng, int64_t lo, int64_t hi) {
  return std::uniform_int_distribution<int64_t>(lo, hi)(rng);
}

/// Some storage of a source shard; nothing where it has none.
std::optional<Segment> someStorage(const PlanCommon &common,
                                   const RankProgram &program,
                                   std::mt19937_64 &rng) {
  uint32_t index = uint32_t(rng() % program.source.size());
  const ShardRecord &shard = program.source[index];
  const Family &family = common.families[shard.family];
  std::vector<Segment> whole = wholeStorage(family, shard, Side::Source, index);
  if (whole.empty())
    return std::nullopt;
  Segment segment = whole[rng() % whole.size()];
  uint64_t states = shard.states & rng();
  segment.states = states ? states : shard.states;
  for (unsigned dim = 0; dim < family.rank(); ++dim) {
    int64_t lo = numberIn(rng, 0, segment.size[dim] - 1);
    segment.size[dim] = numberIn(rng, 1, segment.size[dim] - lo);
    segment.offset[dim] += lo;
  }
  return segment;
}

} // namespace

LossOracle::LossOracle(const TestPlan &plan) : common(plan.common) {
  std::set<int32_t> waves;
  for (const RankProgram &program : plan.programs) {
    Device &device = devices[program.device];
    device.program = &program;
    fill(device);
    for (const Instruction &instruction : program.instructions)
      if (instruction.op == Opcode::Group)
        waves.insert(instruction.wave);
  }
  // Once to the end, for what comes to a destination; then once more to look.
  auto initial = devices;
  for (bool looks : {false, true}) {
    devices = initial;
    found = {};
    if (looks)
      observe(kAtStart);
    for (auto &[number, device] : devices)
      runLocal(device, kBeforeWaves);
    if (looks)
      observe(kBeforeWaves);
    for (int32_t wave : waves) {
      exchange(wave);
      if (looks)
        observe(wave);
    }
    for (const auto &[number, device] : devices)
      wanted.insert(device.destination.begin(), device.destination.end());
  }
}

void LossOracle::fill(Device &device) const {
  const auto &shards = device.program->source;
  for (uint32_t index = 0; index < shards.size(); ++index) {
    const ShardRecord &shard = shards[index];
    const Family &family = common.families[shard.family];
    Stored elements;
    for (const auto &member :
         placesOf(numbersOf(shard.dims, 0, family.numLeading()))) {
      int64_t position = 0;
      for (const auto &inner : placesOf(
               numbersOf(shard.dims, family.numLeading(), family.rank()))) {
        int64_t at = position++;
        if (shard.flat && (at < shard.range.lo || at >= shard.range.hi))
          continue;
        std::vector<int64_t> place = member;
        place.insert(place.end(), inner.begin(), inner.end());
        elements[place] = at - (shard.flat ? shard.range.lo : 0);
      }
    }
    for (unsigned state = 0; state < family.states.size(); ++state)
      if (shard.states >> state & 1 && family.states[state].inSource)
        device.source[{index, state}] = elements;
  }
}

std::vector<LossOracle::StagedElement>
LossOracle::elementsOf(const Segment &segment) const {
  std::vector<StagedElement> out;
  const Family &family = common.families[segment.family];
  for (unsigned state = 0; state < family.states.size(); ++state)
    if (segment.states >> state & 1)
      for (const auto &place : placesIn(segment))
        out.push_back({{segment.family, state, place},
                       uint64_t(byteWidth(wireDType(family.states[state])))});
  return out;
}

void LossOracle::clear(Device &device, uint64_t begin, uint64_t end) {
  auto &staging = device.staging;
  for (auto at = staging.begin(); at != staging.end();)
    at = at->first < end && begin < at->first + at->second.width
             ? staging.erase(at)
             : std::next(at);
}

bool LossOracle::release(Device &device, const Segment &segment) const {
  const Family &family = common.families[segment.family];
  bool isScalar = family.shape.empty();
  int64_t first = isScalar ? 0 : segment.offset[family.numLeading()];
  int64_t count = isScalar ? 1 : segment.size[family.numLeading()];
  auto isNamed = [&](const std::vector<int64_t> &place, int64_t position) {
    for (unsigned dim = 0; dim < family.numLeading(); ++dim)
      if (place[dim] < segment.offset[dim] ||
          place[dim] >= segment.offset[dim] + segment.size[dim])
        return false;
    return position >= first && position < first + count;
  };
  bool isStored = false;
  for (auto &[key, elements] : device.source)
    if (key.first == segment.shard && (segment.states >> key.second & 1)) {
      isStored = true;
      for (auto at = elements.begin(); at != elements.end();)
        at =
            isNamed(at->first, at->second) ? elements.erase(at) : std::next(at);
    }
  return isStored;
}

/// Up to the next group.
void LossOracle::runLocal(Device &device, Moment moment) {
  const auto &all = device.program->instructions;
  for (; device.next < all.size() && all[device.next].op != Opcode::Group;
       ++device.next) {
    const Instruction &instruction = all[device.next];
    uint64_t at = instruction.slot;
    if (instruction.op == Opcode::Relay) // what came is nothing of this one's
      continue;
    if (instruction.op == Opcode::Pack)
      clear(device, at, at + instruction.bytes);
    for (size_t i = 0; i < instruction.segments.size(); ++i) {
      const Segment &segment = instruction.segments[i];
      if (instruction.op == Opcode::Release) {
        if (release(device, segment) &&
            (!found.firstRelease || moment < *found.firstRelease)) {
          found.firstRelease = moment;
          found.releasingDevice = device.program->device;
        }
      } else if (instruction.op == Opcode::Pack) {
        for (const StagedElement &staged : elementsOf(segment)) {
          device.staging[at] = staged;
          at += staged.width;
        }
      } else if (instruction.op == Opcode::Unpack) {
        for (const StagedElement &staged : elementsOf(segment)) {
          device.destination.insert(staged.element);
          device.staging.erase(at);
          at += staged.width;
        }
      } else if (instruction.op == Opcode::Copy && i % 2 == 1) {
        for (const StagedElement &copied : elementsOf(segment))
          device.destination.insert(copied.element);
      }
    }
  }
}

/// What is not sent again, before it is overwritten, has served its purpose.
void LossOracle::dropSent(Device &device, const Message &message) {
  const auto &all = device.program->instructions;
  auto isNeeded = [&](uint64_t byte) {
    for (size_t i = device.next + 1; i < all.size(); ++i) {
      if (sends(all[i], byte))
        return true;
      if (touches(all[i], byte))
        return false;
    }
    return false;
  };
  auto &staging = device.staging;
  auto at = staging.lower_bound(message.slot);
  while (at != staging.end() && at->first < message.slot + message.bytes)
    at = isNeeded(at->first) ? std::next(at) : staging.erase(at);
}

void LossOracle::exchange(int32_t wave) {
  auto groupOf = [&](const Device &device) -> const Instruction * {
    const auto &all = device.program->instructions;
    return device.next < all.size() && all[device.next].wave == wave
               ? &all[device.next]
               : nullptr;
  };
  // What each message carries, as it is before any of them is done.
  std::map<std::pair<uint32_t, uint32_t>, std::map<uint64_t, StagedElement>>
      carried; // by sender and receiver; by byte of the message
  for (auto &[number, device] : devices)
    if (const Instruction *group = groupOf(device))
      for (const Message &message : group->messages) {
        if (message.receive)
          continue;
        auto &parts = carried[{number, message.peer}];
        if (message.direct) {
          uint64_t at = 0;
          for (const StagedElement &part : elementsOf(message.segment)) {
            parts[at] = part;
            at += part.width;
          }
        } else {
          for (const auto &[at, part] : device.staging)
            if (at >= message.slot && at < message.slot + message.bytes)
              parts[at - message.slot] = part;
          dropSent(device, message);
        }
      }
  for (auto &[number, device] : devices) {
    const Instruction *group = groupOf(device);
    if (!group)
      continue;
    for (const Message &message : group->messages) {
      if (!message.receive)
        continue;
      if (!message.direct)
        clear(device, message.slot, message.slot + message.bytes);
      for (const auto &[at, part] : carried[{message.peer, number}])
        if (message.direct)
          device.destination.insert(part.element);
        else
          device.staging[message.slot + at] = part;
    }
    ++device.next;
    runLocal(device, wave);
  }
}

std::set<Element> LossOracle::elementsOn(const Device &device) const {
  std::set<Element> out = device.destination;
  for (const auto &[at, staged] : device.staging)
    out.insert(staged.element);
  for (const auto &[key, elements] : device.source)
    for (const auto &[place, position] : elements)
      out.insert({device.program->source[key.first].family, key.second, place});
  return out;
}

void LossOracle::observe(Moment moment) {
  Loss loss;
  loss.moment = moment;
  loss.device = devices.begin()->first;
  std::map<uint32_t, uint64_t> alone;
  std::map<uint32_t, std::set<Element>> there;
  for (const auto &[number, device] : devices)
    there[number] = elementsOn(device);
  for (const Element &element : wanted) {
    const auto &[family, number, place] = element;
    const StateInfo &state = common.families[family].states[number];
    std::set<uint32_t> holders;
    for (const auto &[device, elements] : there)
      if (elements.count(element) ||
          (state.derivedFrom >= 0 &&
           elements.count({family, unsigned(state.derivedFrom), place})))
        holders.insert(device);
    holding[element].push_back(holders);
    if (holders.size() == 1) {
      alone[*holders.begin()] += byteWidth(state.destinationDType);
      loss.allBytes += byteWidth(state.destinationDType);
    }
  }
  for (const auto &[device, bytes] : alone)
    if (bytes > loss.bytes) {
      loss.bytes = bytes;
      loss.device = device;
    }
  found.moments.push_back(loss);
}

void releaseAnything(TestPlan &plan, std::mt19937_64 &rng) {
  if (plan.common.cluster.relays)
    return; // no part of flat memory
  plan.common.summary.mode = MemoryMode::Flat;
  for (RankProgram &program : plan.programs) {
    auto &all = program.instructions;
    all.erase(std::remove_if(all.begin(), all.end(), isLifetime), all.end());
    if (program.source.empty())
      continue;
    for (int64_t left = numberIn(rng, 0, 6); left > 0; --left) {
      Instruction release;
      release.op = Opcode::Release;
      for (int64_t more = numberIn(rng, 1, 3); more > 0; --more)
        if (auto segment = someStorage(plan.common, program, rng))
          release.segments.push_back(*segment);
      all.insert(all.begin() + numberIn(rng, 0, int64_t(all.size())), release);
    }
  }
}

TestPlan twoHalves() {
  Family family = makeFamily("w", {}, {8});
  TestPlan plan = makePlan({family}, {{box(0, {{0, 8}})}, {}},
                           {{}, {box(0, {{0, 8}})}}, MemoryMode::Flat);
  auto half = [](Side side, int64_t at) {
    return Segment{0, 1, side, 0, {at}, {4}};
  };
  for (uint32_t device : {0u, 1u}) {
    RankProgram &program = plan.programs[device];
    program.instructions.clear();
    program.stagingBytes = 16;
    for (int32_t wave : {3, 5}) {
      uint64_t slot = wave == 3 ? 0 : 8;
      int64_t at = wave == 3 ? 0 : 4;
      Instruction group = inWave(wave, groupOf({}));
      group.messages = {{device == 1, 1 - device, 8, false, slot, {}}};
      Instruction local = device ? unpackOf(slot, 8) : packOf(slot, 8);
      local.segments = {half(device ? Side::Destination : Side::Source, at)};
      Instruction release;
      release.op = Opcode::Release;
      release.segments = {half(Side::Source, at)};
      auto &all = program.instructions;
      if (device)
        all.insert(all.end(), {group, local});
      else
        all.insert(all.end(), {local, release, group});
    }
  }
  return plan;
}

} // namespace dtrt::test
