//===- Mutations.cpp - Plans with one fault each --------------------------===//

#include "Mutations.h"

#include <algorithm>

namespace dtrt::test {

namespace {

size_t pick(Rng &rng, size_t count) { return rng() % count; }
int64_t sign(Rng &rng) { return rng() % 2 ? 1 : -1; }

/// A wave may be the last that there is.
void addTo(int32_t &wave, int64_t number) {
  wave = int32_t(uint32_t(wave) + uint32_t(number));
}

/// An instruction that fulfils a condition, with its place.
struct Place {
  RankProgram *program = nullptr;
  size_t index = 0;
  Instruction &instruction() const { return program->instructions[index]; }
  std::vector<Instruction> &list() const { return program->instructions; }
};

using Condition = std::function<bool(const Instruction &)>;

std::vector<Place> places(TestPlan &plan, const Condition &holds) {
  std::vector<Place> out;
  for (RankProgram &program : plan.programs)
    for (size_t i = 0; i < program.instructions.size(); ++i)
      if (holds(program.instructions[i]))
        out.push_back({&program, i});
  return out;
}

/// A kind that changes one instruction of those that fulfil a condition.
Mutation at(const char *name, Condition holds,
            std::function<bool(const Place &, Rng &)> change) {
  return {name, [holds, change](TestPlan &plan, Rng &rng) {
            std::vector<Place> found = places(plan, holds);
            return !found.empty() &&
                   change(found[pick(rng, found.size())], rng);
          }};
}

Condition isOp(Opcode op) {
  return [op](const Instruction &i) { return i.op == op; };
}
bool isStaged(const Instruction &i) { return namesStaging(i.op); }
bool always(const Instruction &) { return true; }
bool hasSegments(const Instruction &i) { return !i.segments.empty(); }
bool copiesAny(const Instruction &i) {
  return i.op == Opcode::Copy && i.segments.size() >= 2;
}
Condition namesStorage(Opcode op) {
  return [op](const Instruction &i) { return i.op == op && hasSegments(i); };
}

/// A kind that changes one segment: of an instruction, or of a direct message.
Mutation atSegment(const char *name,
                   std::function<bool(Segment &, Rng &)> change) {
  return {name, [change](TestPlan &plan, Rng &rng) {
            std::vector<Segment *> all;
            for (RankProgram &program : plan.programs)
              for (Instruction &i : program.instructions) {
                for (Segment &segment : i.segments)
                  all.push_back(&segment);
                for (Message &message : i.messages)
                  if (message.direct)
                    all.push_back(&message.segment);
              }
            return !all.empty() && change(*all[pick(rng, all.size())], rng);
          }};
}

/// A kind that changes one message.
Mutation atMessage(const char *name,
                   std::function<bool(Message &, TestPlan &, Rng &)> change) {
  return {name, [change](TestPlan &plan, Rng &rng) {
            std::vector<Message *> all;
            for (RankProgram &program : plan.programs)
              for (Instruction &i : program.instructions)
                for (Message &message : i.messages)
                  all.push_back(&message);
            return !all.empty() &&
                   change(*all[pick(rng, all.size())], plan, rng);
          }};
}

/// A kind that adds something to one number of the summary.
Mutation atNumber(const char *name, uint64_t PlanSummary::*number) {
  return {name, [number](TestPlan &plan, Rng &rng) {
            plan.common.summary.*number += 1 + pick(rng, 9);
            return true;
          }};
}

/// A kind that makes one time of the summary a little longer, or much shorter.
Mutation atTime(const char *name, double PlanSummary::*seconds) {
  return {name, [seconds](TestPlan &plan, Rng &rng) {
            double &time = plan.common.summary.*seconds;
            time *= rng() % 2 ? 1.0001 : 1.0 / 3;
            return time > 0;
          }};
}

template <typename T> bool eraseOne(std::vector<T> &list, Rng &rng) {
  if (list.empty())
    return false;
  list.erase(list.begin() + pick(rng, list.size()));
  return true;
}
template <typename T> bool repeatOne(std::vector<T> &list, Rng &rng) {
  if (list.empty())
    return false;
  T copy = list[pick(rng, list.size())];
  list.insert(list.begin() + pick(rng, list.size() + 1), copy);
  return true;
}
template <typename T> bool swapTwo(std::vector<T> &list, Rng &rng) {
  if (list.size() < 2)
    return false;
  size_t a = pick(rng, list.size()), b = pick(rng, list.size() - 1);
  std::swap(list[a], list[b + (b >= a)]);
  return true;
}

bool copyPair(std::vector<Segment> &segments, Rng &rng, bool erase) {
  auto pair = segments.begin() + 2 * pick(rng, segments.size() / 2);
  if (erase)
    segments.erase(pair, pair + 2);
  else
    segments.insert(segments.end(), {pair[0], pair[1]});
  return true;
}

bool moveAway(const Place &place, Rng &rng) {
  Instruction moved = place.instruction();
  place.list().erase(place.list().begin() + place.index);
  place.list().insert(place.list().begin() + pick(rng, place.list().size() + 1),
                      moved);
  return true;
}

bool shift(Segment &segment, Rng &rng) {
  if (segment.offset.empty())
    return false;
  segment.offset[pick(rng, segment.offset.size())] += sign(rng);
  return true;
}

bool resize(Segment &segment, Rng &rng) {
  if (segment.size.empty())
    return false;
  segment.size[pick(rng, segment.size.size())] += sign(rng);
  return true;
}

bool changesStorage(const Instruction &i) {
  return (i.op == Opcode::Create || i.op == Opcode::Release) && hasSegments(i);
}

/// Cuts a range of storage in two; the first part is left where it is, the
/// other is returned.
std::optional<Instruction> cutStorage(Instruction &whole, Rng &rng) {
  Segment &first = whole.segments[pick(rng, whole.segments.size())];
  for (size_t dim = 0; dim < first.size.size(); ++dim) {
    if (first.size[dim] < 2)
      continue;
    Instruction rest;
    rest.op = whole.op;
    rest.segments = {first};
    int64_t kept = 1 + int64_t(pick(rng, size_t(first.size[dim]) - 1));
    rest.segments[0].offset[dim] += kept;
    rest.segments[0].size[dim] -= kept;
    first.size[dim] = kept;
    return rest;
  }
  return std::nullopt;
}

bool releasePartEarly(const Place &place, Rng &rng) {
  auto rest = cutStorage(place.instruction(), rng);
  if (rest)
    place.list().insert(place.list().begin() + pick(rng, place.index + 1),
                        *rest);
  return rest.has_value();
}

bool createPartLate(const Place &place, Rng &rng) {
  auto rest = cutStorage(place.instruction(), rng);
  size_t later = place.list().size() - place.index;
  if (rest)
    place.list().insert(
        place.list().begin() + place.index + 1 + pick(rng, later), *rest);
  return rest.has_value();
}

/// The next group of the program takes the messages of this one as well.
bool mergeGroups(const Place &place, Rng &) {
  for (size_t i = place.index + 1; i < place.list().size(); ++i) {
    Instruction &later = place.list()[i];
    if (later.op != Opcode::Group)
      continue;
    auto &from = place.instruction().messages;
    later.messages.insert(later.messages.end(), from.begin(), from.end());
    place.list().erase(place.list().begin() + place.index);
    return true;
  }
  return false;
}

bool swapWaves(const Place &place, Rng &rng) {
  std::vector<Instruction *> groups;
  for (Instruction &i : place.list())
    if (i.op == Opcode::Group)
      groups.push_back(&i);
  if (groups.size() < 2)
    return false;
  size_t a = pick(rng, groups.size() - 1);
  std::swap(groups[a]->messages, groups[a + 1]->messages);
  return true;
}

/// A segment's bytes come from, or go to, another member of the family.
bool otherMember(Segment &segment, Rng &rng) {
  if (segment.offset.size() < 3)
    return false;
  segment.offset[0] += sign(rng) * segment.size[0];
  return true;
}

} // namespace

std::vector<Mutation> instructionMutations() {
  return {
      at("drop an instruction", always,
         [](const Place &place, Rng &) {
           place.list().erase(place.list().begin() + place.index);
           return true;
         }),
      at("repeat an instruction", always,
         [](const Place &place, Rng &) {
           Instruction copy = place.instruction();
           place.list().insert(place.list().begin() + place.index, copy);
           return true;
         }),
      at("move an instruction", always, moveAway),
      at("swap neighbours", always,
         [](const Place &place, Rng &) {
           if (place.index + 1 == place.list().size())
             return false;
           std::swap(place.list()[place.index], place.list()[place.index + 1]);
           return true;
         }),
      at("another instruction in its place", always,
         [](const Place &place, Rng &rng) {
           place.list()[place.index] =
               place.list()[pick(rng, place.list().size())];
           return true;
         }),
      at("move a pack behind its group", isOp(Opcode::Pack), moveAway),
      at("move an unpack", isOp(Opcode::Unpack), moveAway),
      at("merge two groups", isOp(Opcode::Group), mergeGroups),
      at("swap what two groups carry", isOp(Opcode::Group), swapWaves),
      at("another wave", isOp(Opcode::Group),
         [](const Place &place, Rng &rng) {
           addTo(place.instruction().wave, sign(rng));
           return true;
         }),
      at("copy beside another wave", isOp(Opcode::Copy),
         [](const Place &place, Rng &rng) {
           addTo(place.instruction().wave, sign(rng));
           return true;
         }),
      at("release early", isOp(Opcode::Release), moveAway),
      at("release twice", isOp(Opcode::Release),
         [](const Place &place, Rng &rng) {
           return repeatOne(place.instruction().segments, rng);
         }),
      at("create late", isOp(Opcode::Create), moveAway),
      at("create twice", isOp(Opcode::Create),
         [](const Place &place, Rng &rng) {
           return repeatOne(place.instruction().segments, rng);
         }),
      at("release and create other storage", changesStorage,
         [](const Place &place, Rng &rng) {
           auto &list = place.instruction().segments;
           Segment &segment = list[pick(rng, list.size())];
           return pick(rng, 2) ? shift(segment, rng) : resize(segment, rng);
         }),
      at("release a part early", namesStorage(Opcode::Release),
         releasePartEarly),
      at("create a part late", namesStorage(Opcode::Create), createPartLate),
      at("slot of a pack or unpack shifted", isStaged,
         [](const Place &place, Rng &rng) {
           place.instruction().slot += uint64_t(2 * sign(rng));
           return true;
         }),
      at("bytes of a pack or unpack", isStaged,
         [](const Place &place, Rng &rng) {
           place.instruction().bytes += uint64_t(2 * sign(rng));
           return true;
         }),
      at("slot of a pack is that of another instruction", isStaged,
         [](const Place &place, Rng &rng) {
           uint64_t slot = place.list()[pick(rng, place.list().size())].slot;
           bool changed = slot != place.instruction().slot;
           place.instruction().slot = slot;
           return changed;
         }),
  };
}

std::vector<Mutation> segmentMutations() {
  return {
      at("drop a local copy", copiesAny,
         [](const Place &place, Rng &rng) {
           return copyPair(place.instruction().segments, rng, true);
         }),
      at("repeat a local copy", copiesAny,
         [](const Place &place, Rng &rng) {
           return copyPair(place.instruction().segments, rng, false);
         }),
      at("drop a segment", hasSegments,
         [](const Place &place, Rng &rng) {
           return eraseOne(place.instruction().segments, rng);
         }),
      at("repeat a segment", hasSegments,
         [](const Place &place, Rng &rng) {
           return repeatOne(place.instruction().segments, rng);
         }),
      at("swap two segments", hasSegments,
         [](const Place &place, Rng &rng) {
           return swapTwo(place.instruction().segments, rng);
         }),
      at("shift both sides of a copy by one element", copiesAny,
         [](const Place &place, Rng &rng) {
           auto &list = place.instruction().segments;
           size_t pair = 2 * pick(rng, list.size() / 2);
           if (!shift(list[pair], rng))
             return false;
           list[pair + 1].offset = list[pair].offset;
           return true;
         }),
      at("zero data", copiesAny,
         [](const Place &place, Rng &rng) {
           auto &list = place.instruction().segments;
           Instruction zero;
           zero.op = Opcode::Zero;
           zero.segments = {list[2 * pick(rng, list.size() / 2) + 1]};
           place.list().push_back(zero);
           return true;
         }),
      atSegment("shift by one element", shift),
      atSegment("resize by one element", resize),
      atSegment("another layer", otherMember),
      atSegment("another state",
                [](Segment &segment, Rng &rng) {
                  uint64_t mask = 1 + pick(rng, 3);
                  bool changed = mask != segment.states;
                  segment.states = mask;
                  return changed;
                }),
      atSegment("the other side",
                [](Segment &segment, Rng &) {
                  segment.side = segment.side == Side::Source
                                     ? Side::Destination
                                     : Side::Source;
                  return true;
                }),
      atSegment("another shard",
                [](Segment &segment, Rng &rng) {
                  segment.shard += uint32_t(1 + pick(rng, 2));
                  return true;
                }),
  };
}

std::vector<Mutation> messageMutations() {
  return {
      at("drop a message", isOp(Opcode::Group),
         [](const Place &place, Rng &rng) {
           return eraseOne(place.instruction().messages, rng);
         }),
      at("repeat a message", isOp(Opcode::Group),
         [](const Place &place, Rng &rng) {
           return repeatOne(place.instruction().messages, rng);
         }),
      at("move a message to a group of its own", isOp(Opcode::Group),
         [](const Place &place, Rng &) {
           auto &list = place.instruction().messages;
           if (list.size() < 2)
             return false;
           Instruction own;
           own.op = Opcode::Group;
           own.wave = place.instruction().wave;
           addTo(own.wave, 100);
           own.messages = {list.back()};
           list.pop_back();
           place.list().push_back(own);
           return true;
         }),
      atMessage("the other direction",
                [](Message &message, TestPlan &, Rng &) {
                  message.receive = !message.receive;
                  return true;
                }),
      atMessage("another peer",
                [](Message &message, TestPlan &plan, Rng &rng) {
                  uint32_t peer = uint32_t(pick(rng, plan.programs.size()));
                  bool changed = peer != message.peer;
                  message.peer = peer;
                  return changed;
                }),
      atMessage("bytes of a message",
                [](Message &message, TestPlan &, Rng &rng) {
                  message.bytes += uint64_t(2 * sign(rng));
                  return true;
                }),
      atMessage("slot of a message shifted",
                [](Message &message, TestPlan &, Rng &rng) {
                  message.slot += uint64_t(2 * sign(rng));
                  return !message.direct;
                }),
      atMessage("message direct or staged",
                [](Message &message, TestPlan &, Rng &) {
                  message.direct = !message.direct;
                  return true;
                }),
      atMessage("slot of another message",
                [](Message &message, TestPlan &plan, Rng &rng) {
                  const RankProgram &other =
                      plan.programs[pick(rng, plan.programs.size())];
                  for (const Instruction &i : other.instructions)
                    for (const Message &m : i.messages)
                      if (!m.direct && m.slot != message.slot) {
                        message.slot = m.slot;
                        return !message.direct;
                      }
                  return false;
                }),
  };
}

namespace {

std::vector<Mutation> numberMutations() {
  return {
      atNumber("wire bytes", &PlanSummary::bytesWire),
      atNumber("destination bytes", &PlanSummary::bytesDestination),
      atNumber("local bytes", &PlanSummary::bytesLocal),
      atNumber("inter-node bytes", &PlanSummary::bytesInterNode),
      atNumber("messages", &PlanSummary::messages),
      atNumber("waves", &PlanSummary::waves),
      atNumber("staging peak", &PlanSummary::stagingPeak),
      atNumber("most source bytes", &PlanSummary::sourceMax),
      atNumber("most destination bytes", &PlanSummary::destinationMax),
      atNumber("lower bound of wire bytes", &PlanSummary::bytesWireLowerBound),
      atNumber("lower bound of inter-node bytes",
               &PlanSummary::bytesInterNodeLowerBound),
      atTime("predicted time", &PlanSummary::timePredicted),
      atTime("lower bound of the time", &PlanSummary::timeLowerBound),
      {"staging limit below the peak",
       [](TestPlan &plan, Rng &) {
         PlanSummary &summary = plan.common.summary;
         if (summary.stagingPeak == 0)
           return false;
         summary.stagingLimit = summary.stagingPeak - 1;
         return true;
       }},
      {"device limit below the peak",
       [](TestPlan &plan, Rng &) {
         plan.common.summary.deviceLimit = plan.common.summary.devicePeak - 1;
         return true;
       }},
      {"device peak too small",
       [](TestPlan &plan, Rng &) {
         --plan.common.summary.devicePeak;
         return true;
       }},
      {"flat limit below what is held",
       [](TestPlan &plan, Rng &) {
         PlanSummary &summary = plan.common.summary;
         if (summary.mode != MemoryMode::Flat)
           return false;
         uint64_t most = mostAbove(plan);
         if (most <= summary.stagingPeak)
           return false;
         summary.stagingLimit = most - 1;
         return true;
       }},
  };
}

std::vector<Mutation> shapeMutations() {
  return {
      {"enlarge an arena",
       [](TestPlan &plan, Rng &rng) {
         if (plan.programs.empty())
           return false;
         plan.programs[pick(rng, plan.programs.size())].stagingBytes += 8192;
         return true;
       }},
      {"an arena too small",
       [](TestPlan &plan, Rng &rng) {
         if (plan.programs.empty())
           return false;
         uint64_t &bytes =
             plan.programs[pick(rng, plan.programs.size())].stagingBytes;
         return bytes > 0 && bytes-- > 0;
       }},
      {"a destination shard of other elements",
       [](TestPlan &plan, Rng &rng) {
         if (plan.programs.empty())
           return false;
         auto &shards =
             plan.programs[pick(rng, plan.programs.size())].destination;
         if (shards.empty())
           return false;
         auto &dims = shards[pick(rng, shards.size())].dims;
         if (dims.empty() || dims.back().empty())
           return false;
         ++dims.back().back().hi;
         return true;
       }},
      {"a destination shard twice",
       [](TestPlan &plan, Rng &rng) {
         if (plan.programs.empty())
           return false;
         return repeatOne(
             plan.programs[pick(rng, plan.programs.size())].destination, rng);
       }},
      {"a device without a program",
       [](TestPlan &plan, Rng &rng) { return eraseOne(plan.programs, rng); }},
  };
}

} // namespace

std::vector<Mutation> statementMutations() {
  std::vector<Mutation> all = numberMutations();
  for (Mutation &mutation : shapeMutations())
    all.push_back(std::move(mutation));
  return all;
}

} // namespace dtrt::test
