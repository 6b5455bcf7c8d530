//===- Multicasts.cpp - Data that receivers pass on -----------------------===//

#include "dt/Emit/Multicasts.h"

#include "dt/Geometry/Overlaps.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

using namespace dt;

namespace {

/// Pieces of one flow that travel, by index.
using Moves = std::vector<uint32_t>;

class MulticastFinder {
public:
  MulticastFinder(const TransportPlan &plan, const std::vector<Flow> &flows)
      : plan(plan), flows(flows) {}

  std::vector<Multicast> run();

private:
  const PlanPiece &move(uint32_t index) const { return plan.pieces[index]; }
  bool isShared(uint32_t flow) const;
  std::vector<Box> passedOn(const Moves &moves) const;
  void addElement(const std::vector<const PlanPiece *> &moves);
  void addFlow(const Moves &moves);

  const TransportPlan &plan;
  const std::vector<Flow> &flows;
  std::map<std::vector<int64_t>, Multicast> found;
};

/// Whether several devices want the same element of a flow.
bool MulticastFinder::isShared(uint32_t flow) const {
  const auto &sets = flows[flow].destination.ownerSets;
  return std::any_of(sets.begin(), sets.end(),
                     [](const auto &set) { return set.size() > 1; });
}

/// The first elements of boxes that devices send and do not have at the
/// source, each once.
std::vector<Box> MulticastFinder::passedOn(const Moves &moves) const {
  auto isForward = [&](uint32_t index) {
    const PlanPiece &piece = move(index);
    return piece.fromShard == kUnplaced && piece.relay != RelayHop::Out &&
           piece.collective == kNoCollective;
  };
  if (std::none_of(moves.begin(), moves.end(), isForward))
    return {};
  std::unordered_set<int64_t> receivers;
  for (uint32_t index : moves)
    receivers.insert(move(index).to);
  std::set<Box> elements;
  for (uint32_t index : moves) {
    if (!isForward(index) || !receivers.count(move(index).from))
      continue;
    Box box = move(index).box;
    for (unsigned d = 0; d < box.rank(); ++d)
      box[d].hi = box[d].lo + 1;
    elements.insert(box);
  }
  return {elements.begin(), elements.end()};
}

/// Books an element that these moves carry.
void MulticastFinder::addElement(const std::vector<const PlanPiece *> &moves) {
  std::vector<int64_t> senders, receivers;
  for (const PlanPiece *carrier : moves) {
    senders.push_back(carrier->from);
    receivers.push_back(carrier->to);
  }
  for (auto *ends : {&senders, &receivers}) {
    std::sort(ends->begin(), ends->end());
    ends->erase(std::unique(ends->begin(), ends->end()), ends->end());
  }
  std::vector<int64_t> devices, holders;
  std::set_union(senders.begin(), senders.end(), receivers.begin(),
                 receivers.end(), std::back_inserter(devices));
  std::set_difference(senders.begin(), senders.end(), receivers.begin(),
                      receivers.end(), std::back_inserter(holders));
  if (holders.size() == senders.size())
    return; // nobody passes it on
  Multicast &multicast = found[devices];
  multicast.devices = devices;
  std::vector<int64_t> all;
  std::set_union(multicast.holders.begin(), multicast.holders.end(),
                 holders.begin(), holders.end(), std::back_inserter(all));
  multicast.holders = std::move(all);
}

/// One element stands for a box that is passed on: all of it goes to the same
/// devices.
void MulticastFinder::addFlow(const Moves &moves) {
  std::vector<Box> firsts = passedOn(moves), carried;
  if (firsts.empty())
    return;
  Box bounds = firsts.front();
  for (const Box &first : firsts)
    for (unsigned d = 0; d < bounds.rank(); ++d)
      bounds[d] = {std::min(bounds[d].lo, first[d].lo),
                   std::max(bounds[d].hi, first[d].hi)};
  Moves near;
  for (uint32_t index : moves)
    if (overlaps(move(index).box, bounds)) {
      near.push_back(index);
      carried.push_back(move(index).box);
    }
  std::vector<std::vector<const PlanPiece *>> carriers(firsts.size());
  for (auto [first, carrier] : overlappingPairs(firsts, carried))
    carriers[first].push_back(&move(near[carrier]));
  for (const auto &own : carriers)
    addElement(own);
}

std::vector<Multicast> MulticastFinder::run() {
  std::vector<Moves> byFlow(flows.size());
  for (const PlanStep &step : plan.steps)
    if (step.kind == PlanStep::Kind::Wave)
      for (size_t i = step.first; i < step.last; ++i)
        byFlow[plan.pieces[i].flow].push_back(uint32_t(i));
  for (uint32_t flow = 0; flow < byFlow.size(); ++flow)
    if (!byFlow[flow].empty() && isShared(flow))
      addFlow(byFlow[flow]);
  std::vector<Multicast> out;
  for (auto &[devices, multicast] : found)
    out.push_back(std::move(multicast));
  return out;
}

} // namespace

std::vector<Multicast> dt::multicasts(const TransportPlan &plan,
                                      const std::vector<Flow> &flows) {
  return MulticastFinder(plan, flows).run();
}
