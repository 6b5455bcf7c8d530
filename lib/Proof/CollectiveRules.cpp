//===- CollectiveRules.cpp - What library collectives must be -------------===//

#include "dt/Proof/CollectiveRules.h"

#include "dt/Scheduling/WaveProblem.h"

#include <algorithm>
#include <set>

namespace dt {

namespace {

using dtrt::CollectiveKind;

/// Pieces [first, last) of `all`, which go from one member to another.
struct GivenPieces {
  const PlanPiece *first = nullptr, *last = nullptr;

  int64_t bytes() const {
    int64_t sum = 0;
    for (const PlanPiece *piece = first; piece != last; ++piece)
      sum += piece->bytes;
    return sum;
  }
};

/// By sender and receiver.
using Pairs = std::map<std::pair<int64_t, int64_t>, GivenPieces>;

/// What each collective of a wave carries.
std::map<uint32_t, Pairs> givenIn(const TransportPlan &plan,
                                  const PlanStep &step) {
  std::map<uint32_t, Pairs> out;
  const PlanPiece *end = plan.pieces.data() + step.last;
  for (const PlanPiece *piece = plan.pieces.data() + step.first; piece != end;
       ++piece) {
    if (piece->collective == kNoCollective)
      continue;
    auto [at, isNew] = out[piece->collective].try_emplace(
        {piece->from, piece->to}, GivenPieces{piece, piece});
    at->second.last = piece + 1;
  }
  return out;
}

bool isSame(const GivenPieces &a, const GivenPieces &b) {
  return std::equal(a.first, a.last, b.first, b.last,
                    [](const PlanPiece &one, const PlanPiece &two) {
                      return one.flow == two.flow && one.box == two.box;
                    });
}

std::string nameOf(const PlanCollective &collective) {
  return std::string("a ") + dtrt::collectiveName(collective.kind) +
         " of wave " + std::to_string(collective.wave);
}

/// Checks the collectives of one wave.
class WaveChecker {
public:
  WaveChecker(const TransportPlan &plan, const PlanStep &step)
      : plan(plan), step(step), given(givenIn(plan, step)) {}

  MaybeFault run() {
    for (uint32_t i = 0; i < plan.collectives.size(); ++i) {
      if (plan.collectives[i].wave != step.wave)
        continue;
      if (auto fault = enter(i))
        return fault;
      if (auto fault = checkPairs(plan.collectives[i], given[i]))
        return fault;
      if (auto fault = checkBlocks(plan.collectives[i]))
        return fault;
    }
    return checkBeside();
  }

private:
  /// Its members have no other collective.
  MaybeFault enter(uint32_t number) {
    const PlanCollective &own = plan.collectives[number];
    for (int64_t member : own.members) {
      auto [at, isNew] = memberOf.try_emplace(member, number);
      if (!isNew)
        return Fault{own.op,
                     "has device " + std::to_string(member) + " in " +
                         nameOf(own) + ", which is in another one there",
                     plan.collectives[at->second].op, "the other one is here"};
    }
    return std::nullopt;
  }

  /// Its members have no message.
  MaybeFault checkBeside() const {
    for (size_t i = step.first; i < step.last; ++i) {
      const PlanPiece &piece = plan.pieces[i];
      if (piece.collective != kNoCollective)
        continue;
      for (int64_t device : {piece.from, piece.to})
        if (auto at = memberOf.find(device); at != memberOf.end())
          return Fault{piece.op,
                       "is a message of device " + std::to_string(device) +
                           " beside " + nameOf(plan.collectives[at->second]) +
                           " that it is a member of",
                       plan.collectives[at->second].op, "that one is here"};
    }
    return std::nullopt;
  }

  static bool isMember(const PlanCollective &own, int64_t device) {
    return std::binary_search(own.members.begin(), own.members.end(), device);
  }

  static MaybeFault checkPairs(const PlanCollective &own, const Pairs &pairs) {
    for (const auto &[pair, pieces] : pairs) {
      auto [from, to] = pair;
      std::string what = "gives something from device " + std::to_string(from) +
                         " to " + std::to_string(to);
      if (!isMember(own, from) || !isMember(own, to))
        return Fault{pieces.first->op,
                     what + ", which are not both members of " + nameOf(own)};
      if (own.kind == CollectiveKind::Broadcast && from != own.root)
        return Fault{pieces.first->op, what + " in " + nameOf(own) + " from " +
                                           std::to_string(own.root)};
      if (own.kind == CollectiveKind::AllToAll)
        continue;
      for (int64_t other : own.members)
        if (other != from)
          if (auto fault = checkAlike(own, pair, pieces, other, pairs))
            return fault;
    }
    return std::nullopt;
  }

  static MaybeFault checkAlike(const PlanCollective &own,
                               std::pair<int64_t, int64_t> pair,
                               const GivenPieces &pieces, int64_t other,
                               const Pairs &pairs) {
    auto at = pairs.find({pair.first, other});
    if (at != pairs.end() && isSame(pieces, at->second))
      return std::nullopt;
    return Fault{pieces.first->op,
                 "gives to device " + std::to_string(pair.second) + " in " +
                     nameOf(own) + " what it does not give to member " +
                     std::to_string(other)};
  }

  /// One slot for all blocks of a member, each way.
  MaybeFault checkBlocks(const PlanCollective &own) const {
    if (step.firstSlot == step.lastSlot)
      return std::nullopt;
    for (int64_t member : own.members)
      for (bool receive : {false, true}) {
        int64_t wanted =
            receive ? own.gotBytes(member) : own.givenBytes(member);
        int64_t found = 0;
        for (size_t s = step.firstSlot; s < step.lastSlot; ++s) {
          const PlanSlot &slot = plan.slots[s];
          if (slot.isBlocks() && slot.device == member &&
              slot.receive == receive && slot.offset >= 0)
            found += slot.bytes;
        }
        if (found != wanted)
          return Fault{
              own.op, "has blocks of " + std::to_string(found) +
                          " bytes for what device " + std::to_string(member) +
                          (receive ? " gets" : " gives") + " in " +
                          nameOf(own) + ", expected " + std::to_string(wanted)};
      }
    return std::nullopt;
  }

  const TransportPlan &plan;
  const PlanStep &step;
  std::map<uint32_t, Pairs> given;
  std::map<int64_t, uint32_t> memberOf; // device, collective
};

/// Slots for blocks are of members of collectives.
MaybeFault checkStraySlots(const TransportPlan &plan) {
  std::set<std::pair<int64_t, int64_t>> members; // wave, device
  for (const PlanCollective &own : plan.collectives)
    for (int64_t member : own.members)
      members.insert({own.wave, member});
  for (const PlanSlot &slot : plan.slots)
    if (slot.isBlocks() && !members.count({slot.wave, slot.device}))
      return Fault{slot.op,
                   "has a slot of device " + std::to_string(slot.device) +
                       " for itself in wave " + std::to_string(slot.wave) +
                       ", where it is in no collective"};
  return std::nullopt;
}

} // namespace

void sizeBlocks(TransportPlan &plan) {
  if (plan.collectives.empty())
    return;
  for (const PlanStep &step : plan.steps)
    if (step.kind == PlanStep::Kind::Wave)
      for (const auto &[number, pairs] : givenIn(plan, step))
        for (const auto &[pair, pieces] : pairs) {
          int64_t &block = plan.collectives[number].blockBytes;
          block = std::max(block, alignSlot(pieces.bytes()));
        }
}

MaybeFault checkCollectives(const TransportPlan &plan) {
  if (auto fault = checkStraySlots(plan))
    return fault;
  if (plan.collectives.empty())
    return std::nullopt;
  for (const PlanStep &step : plan.steps)
    if (step.kind == PlanStep::Kind::Wave)
      if (auto fault = WaveChecker(plan, step).run())
        return fault;
  return std::nullopt;
}

} // namespace dt
