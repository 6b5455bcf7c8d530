//===- RelayRules.cpp - Messages that go over a third device --------------===//

#include "dt/Proof/RelayRules.h"

#include <algorithm>

namespace dt {

namespace {

/// Pieces [first, last) of a message, by number.
struct Carried {
  size_t first = 0, last = 0;
};

/// Those of the message that has an end in the slot.
Carried carriedBy(const TransportPlan &plan, const PlanStep &step,
                  const PlanSlot &slot) {
  auto ends = std::make_pair(slot.receive ? slot.peer : slot.device,
                             slot.receive ? slot.device : slot.peer);
  auto endsOf = [](const PlanPiece &piece) {
    return std::make_pair(piece.from, piece.to);
  };
  auto begin = plan.pieces.begin();
  auto first = std::partition_point(
      begin + step.first, begin + step.last,
      [&](const PlanPiece &piece) { return endsOf(piece) < ends; });
  auto last = std::partition_point(
      first, begin + step.last,
      [&](const PlanPiece &piece) { return endsOf(piece) == ends; });
  return {size_t(first - begin), size_t(last - begin)};
}

std::string describe(const PlanSlot &slot) {
  int64_t from = slot.receive ? slot.peer : slot.device;
  int64_t to = slot.receive ? slot.device : slot.peer;
  return "the message " + std::to_string(from) + " -> " + std::to_string(to) +
         " of wave " + std::to_string(slot.wave);
}

/// Goes through the waves. Invariant: `waiting` is what has come to relays and
/// has not been sent on.
class RelayChecker {
public:
  explicit RelayChecker(const TransportPlan &plan) : plan(plan) {}

  MaybeFault run() {
    for (const PlanStep &step : plan.steps) {
      if (step.kind != PlanStep::Kind::Wave)
        continue;
      if (MaybeFault fault = checkMarks(step))
        return fault;
      for (bool receive : {false, true})
        for (size_t s = step.firstSlot; s < step.lastSlot; ++s)
          if (const PlanSlot &slot = plan.slots[s];
              slot.isRelays() && slot.receive == receive)
            if (MaybeFault fault = receive ? come(step, slot) : go(step, slot))
              return fault;
    }
    if (waiting.empty())
      return std::nullopt;
    const PlanSlot &slot = *waiting.begin()->second.slot;
    return Fault{slot.op, "brings " + describe(slot) +
                              " to a relay, which never sends it on"};
  }

private:
  struct Waiting {
    const PlanSlot *slot = nullptr;
    Carried pieces;
  };

  MaybeFault checkMarks(const PlanStep &step) const {
    for (size_t i = step.first + 1; i < step.last; ++i) {
      const PlanPiece &before = plan.pieces[i - 1], &piece = plan.pieces[i];
      if (before.from == piece.from && before.to == piece.to &&
          before.relay != piece.relay)
        return Fault{piece.op,
                     "relays a part of the message " +
                         std::to_string(piece.from) + " -> " +
                         std::to_string(piece.to) + " of wave " +
                         std::to_string(step.wave) + ", expected all or none",
                     before.op, "another part is here"};
    }
    return std::nullopt;
  }

  Fault withoutSlot(const PlanSlot &slot) const {
    return Fault{slot.op, "has no slot on device " +
                              std::to_string(slot.device) + " for " +
                              describe(slot) + ", which is relayed"};
  }

  MaybeFault come(const PlanStep &step, const PlanSlot &slot) {
    if (slot.offset < 0)
      return withoutSlot(slot);
    auto [at, isNew] = waiting.try_emplace({slot.device, slot.offset});
    if (!isNew)
      return Fault{slot.op,
                   "brings " + describe(slot) + " to the slot of " +
                       describe(*at->second.slot) +
                       ", which has not been sent on",
                   at->second.slot->op, "that one is here"};
    at->second = {&slot, carriedBy(plan, step, slot)};
    return std::nullopt;
  }

  MaybeFault go(const PlanStep &step, const PlanSlot &slot) {
    if (slot.offset < 0)
      return withoutSlot(slot);
    auto at = waiting.find({slot.device, slot.offset});
    if (at == waiting.end())
      return Fault{slot.op, "sends on " + describe(slot) +
                                ", which no earlier wave brought to its slot"};
    Waiting came = at->second;
    waiting.erase(at);
    if (isSame(came.pieces, carriedBy(plan, step, slot)))
      return std::nullopt;
    return Fault{slot.op,
                 "sends on other pieces as " + describe(slot) + " than " +
                     describe(*came.slot) + " brought to its slot",
                 came.slot->op, "they came here"};
  }

  bool isSame(Carried a, Carried b) const {
    const PlanPiece *pieces = plan.pieces.data();
    return std::equal(pieces + a.first, pieces + a.last, pieces + b.first,
                      pieces + b.last,
                      [](const PlanPiece &came, const PlanPiece &goes) {
                        return came.flow == goes.flow && came.box == goes.box;
                      });
  }

  const TransportPlan &plan;
  std::map<std::pair<int64_t, int64_t>, Waiting> waiting; // device, offset
};

bool hasRelays(const TransportPlan &plan) {
  return std::any_of(
      plan.pieces.begin(), plan.pieces.end(),
      [](const PlanPiece &piece) { return piece.relay != RelayHop::None; });
}

} // namespace

void markRelays(TransportPlan &plan) {
  if (!hasRelays(plan))
    return;
  for (const PlanStep &step : plan.steps)
    for (size_t s = step.firstSlot; s < step.lastSlot; ++s) {
      Carried pieces = carriedBy(plan, step, plan.slots[s]);
      if (pieces.first < pieces.last)
        plan.slots[s].relay = plan.pieces[pieces.first].relay;
    }
}

MaybeFault checkRelays(const TransportPlan &plan) {
  if (!hasRelays(plan))
    return std::nullopt;
  return RelayChecker(plan).run();
}

} // namespace dt
