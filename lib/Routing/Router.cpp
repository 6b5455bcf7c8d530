//===- Router.cpp - Who sends what to whom --------------------------------===//
//
// Joins both sides of every flow into *items*: a box, who holds it, who wants
// it. Items that have a choice are cut, and routed one after the other, those
// that few devices hold first, of these the largest:
//
//   1. who wants it and holds it copies it;
//   2. nodes that want it are served in the order of their idlest NIC;
//   3. in a node where nobody has it, the device that has received least takes
//      it from the holder that costs least;
//   4. the others of a node take it from who costs least there, a holder or the
//      one of step 3;
//   5. who has received it is a holder from then on, one hop farther.
//
// A holder costs its hops, then its load. But a port that would carry more than
// the budget, 98 % of the lower bound, costs more than any hops: what comes
// later counts too, as an equal share for each of its holders. So receivers
// pass on what their sender will have no time for. At last, senders that are
// busier than the budget give sends to others that hold the same (Balance.h).
//
// Where many hold something, receivers first get partners, from which they take
// all of it that these have time for (Partners.h); the rest as above, by those
// who have it by then. Partners' ports may be as busy as the bound.
//
// Of an old plan's route what is right still comes before all that
// (OldRoute.h), and its loads count.
//
// test/Problems/route-spread.json: device 0 holds four elements, 0.12 ms of a
// NIC each, that device 1 of its node wants, and 2, 4 and 6, one in each of
// three other nodes. The bound is 0.48 ms: a NIC that receives all, or sends
// all once. Sent by the NICs of each device after each item, in elements:
//
//   item  enters a node at      passed on        0   1   2   4   6
//   [0:1) 1, from 0 by island   1 -> 2, 4, 6     0   3   0   0   0
//   [1:2) 2, from 0             2 -> 4, 6        1   3   2   0   0
//   [2:3) 4, from 0             4 -> 6, 2        2   3   2   2   0
//   [3:4) 6, from 0             6 -> 2, 4        3   3   2   2   2
//
// With all four still to come, 0 is beyond the budget of 3.9 elements, so that
// 1 sends the first; each of the others enters at another device, which has
// time for the rest.
//
//===----------------------------------------------------------------------===//

#include "dt/Routing/Router.h"

#include "Balance.h"
#include "EvenCut.h"
#include "Partners.h"
#include "dt/Routing/BlockGather.h"
#include "dt/Routing/RailGather.h"
#include "dt/Routing/RoundTree.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

using namespace dt;

std::vector<Box> dt::splitBox(const Box &box, int64_t maxElements) {
  int64_t volume = box.volume();
  if (volume <= maxElements || volume <= 1)
    return {box};
  unsigned dim = 0;
  while (box[dim].size() == 1)
    ++dim;
  // Whole slices of the outermost dim that is worth cutting; a slice that is
  // still too large is cut further inside.
  int64_t slice = volume / box[dim].size();
  int64_t perPiece = std::max<int64_t>(1, maxElements / slice);
  int64_t parts = (box[dim].size() + perPiece - 1) / perPiece;
  std::vector<Box> out;
  for (int64_t i = 0; i < parts; ++i) {
    Box piece = box;
    piece[dim] = {box[dim].lo + box[dim].size() * i / parts,
                  box[dim].lo + box[dim].size() * (i + 1) / parts};
    if (piece.volume() <= maxElements) {
      out.push_back(piece);
      continue;
    }
    for (const Box &inner : splitBox(piece, maxElements))
      out.push_back(inner);
  }
  return out;
}

namespace {

/// Share of the bound that a sender is filled up to while others have room.
constexpr double kSenderShare = 0.98;

std::vector<std::vector<int64_t>> numbersOf(const std::vector<Devices> &nodes) {
  std::vector<std::vector<int64_t>> out;
  for (const Devices &devices : nodes) {
    out.emplace_back();
    for (const Device *device : devices)
      out.back().push_back(device->number);
  }
  return out;
}

/// Everything about a pair of device sets that does not depend on the box.
struct Demand {
  const std::vector<int64_t> *holders = nullptr; // the flow's
  Devices holding;                               // the same
  std::vector<int64_t> locals;                   // wanters that hold it
  /// Wanters that do not, grouped by node in ascending order.
  std::vector<Devices> nodes;
  int64_t remote = 0; // wanters in `nodes`
  /// Devices that have to send it at least once between them: over their NICs
  /// all holders, and per node over their island ports.
  bool usesNics = false;
  std::vector<Devices> islandSenders;
  std::vector<bool> isNear;      // by node: whether a holder is in it
  PartnerGroup *group = nullptr; // that has partners

  bool hasChoice() const {
    return remote > 1 || (remote == 1 && holders->size() > 1);
  }
  void setNodes(std::map<uint32_t, Devices> wanting);
};

/// Wanters that do not hold it, by node. `holding` is set.
void Demand::setNodes(std::map<uint32_t, Devices> wanting) {
  std::map<uint32_t, Devices> inside; // by node
  for (Device *holder : holding)
    if (wanting.count(holder->node))
      inside[holder->node].push_back(holder);
  for (auto &[node, wanters] : wanting) {
    remote += int64_t(wanters.size());
    auto found = inside.find(node);
    isNear.push_back(found != inside.end());
    if (found == inside.end())
      usesNics = true;
    else
      islandSenders.push_back(std::move(found->second));
    nodes.push_back(std::move(wanters));
  }
}

/// Demands are alike where the same devices hold and lack something.
std::vector<int64_t> keyOf(const Demand &demand) {
  std::vector<int64_t> key = *demand.holders;
  for (const Devices &wanters : demand.nodes) {
    key.push_back(-1);
    for (const Device *device : wanters)
      key.push_back(device->number);
  }
  return key;
}

PartnerGroup groupFor(const Demand &demand) {
  PartnerGroup group;
  group.holders = &demand.holding;
  group.nodes = &demand.nodes;
  group.isNear = demand.isNear;
  return group;
}

/// A box that some devices hold and some want.
struct Item {
  uint32_t flow;
  uint32_t demand;
  int64_t bytes;
  Box box;
  uint32_t source, destination; // cells of the flow
};

/// A device that holds the current item's box, with the hop that brought it
/// there (-1: from the start).
struct Holder {
  Device *device;
  int64_t hop;
  /// Messages until it has the item, and that it has sent of it per level
  /// (island, NIC).
  int64_t ready = 0;
  int64_t sends[2] = {0, 0};
};

/// The order in which holders are taken: by rank and messages (Forwarding),
/// then by load; then in the order in which they came.
struct Cost {
  int64_t rank = 0, messages = 0;
  double load = 0;
  uint32_t holder = 0;
  friend bool operator<(const Cost &a, const Cost &b) {
    return std::tie(a.rank, a.messages, a.load, a.holder) <
           std::tie(b.rank, b.messages, b.load, b.holder);
  }
  friend bool operator>(const Cost &a, const Cost &b) { return b < a; }
};

class Router {
public:
  Router(const RoutingProblem &problem, const RouterOptions &options,
         Routing &routing)
      : problem(problem), flows(problem.flows()), cluster(problem.cluster()),
        options(options), routing(routing) {}

  void run();
  /// Of the groups of items that go in rounds, those that go on rails.
  size_t numOnRails() const { return onRails; }

private:
  void indexDevices();
  void collectItems(uint32_t flow);
  uint32_t demandOf(uint32_t flow, uint32_t sourceOwners,
                    uint32_t destinationOwners);
  void keepOld(const std::vector<OldMove> &moves, size_t first);
  uint32_t restOf(uint32_t demand, const std::vector<bool> &served);
  void addAround();
  void addMove(const Move &move);
  void pairUp();
  void cutItems();
  size_t countMoves() const;
  /// Of a NIC.
  double secondsOf(const Item &item) const {
    return item.bytes / cluster.portBytesPerSecond(/*interNode=*/true);
  }
  void expect(const Item &item, double sign);
  std::vector<size_t> nodeOrder(const Demand &demand);
  void routeItem(const Item &item);
  bool serveNode(const Item &item, size_t node, bool waits);
  int64_t partnerOf(const Demand &demand, size_t node,
                    const Device *entry) const;
  Cost costOf(uint32_t number, const Device &destination, bool sameNode,
              int64_t bytes) const;
  int64_t cheapestInside(const Device &destination, int64_t bytes) const;
  uint32_t cheapestOutside(const Device &destination, int64_t bytes);
  Devices fanOutOrder(const Devices &wanters, const Device *entry) const;
  Device *cheapestEntry(const Devices &wanters, int64_t bytes);
  void setBudget();
  /// Of one demand.
  using Group = std::vector<Item>;
  /// By who holds them and who gets them.
  using Groups =
      std::map<std::pair<std::vector<int64_t>, std::vector<int64_t>>, Group>;
  Groups takeGroups();
  void routeInRounds();
  RoundTree roundTree(const Demand &demand);
  void routeGroup(const Group &group, int64_t mostMoves);
  Devices differentNics(const Devices &wanted, size_t most) const;
  std::optional<RailTree> railTree(const Demand &demand) const;
  bool routeOnRails(const Group &group, int64_t mostMoves);
  std::optional<RailGather> railGather(const Groups &groups) const;
  /// How an all-gather goes: parts are of so many cells each.
  struct PartSteps {
    int64_t cells = 1;
    std::vector<RailStep> steps;
  };
  PartSteps partSteps(const RailGather &gather, const Groups &groups) const;
  bool gatherOnRails(const Groups &groups);
  void addHolder(Device *device, int64_t hop, int64_t ready = 0);
  void move(const Item &item, uint32_t from, Device *destination,
            bool isMovable = true);
  Device *find(int64_t device) { return &devices[deviceIndex.at(device)]; }

  const RoutingProblem &problem;
  const std::vector<Flow> &flows;
  const Cluster &cluster;
  const RouterOptions &options;
  Routing &routing;

  std::vector<int64_t> widths;            // bytes of an element, by flow
  std::vector<Device> devices;            // ascending
  std::unordered_map<int64_t, Port> nics; // by the device that stands for them
  std::unordered_map<int64_t, uint32_t> deviceIndex;
  std::vector<Demand> demands;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> demandIndex; // one flow's
  /// Demands without some of their nodes.
  std::map<std::pair<uint32_t, std::vector<bool>>, uint32_t> restIndex;
  std::vector<Item> items;
  std::vector<PartnerGroup> partnerGroups;
  std::vector<MovableSend> movable; // but those between partners
  double budget = 0;                // seconds that a port may take
  double partnerLimit = 0;          // likewise, where partners send
  double sendLimit = 0;             // that of the current item
  double position = 0;              // of its middle in its group
  size_t onRails = 0;
  /// Whether trees of rounds go all around from their root: what several of
  /// them send in a round then goes between the same pairs.
  bool goesAround = false;

  // Of the current item; they grow as it spreads.
  std::vector<Holder> holders;
  std::vector<std::vector<uint32_t>> holdersOf; // per node
  /// Costs of sending it to another node, the least on top, of the holders that
  /// there were when it was asked for; some may have grown since.
  std::vector<Cost> queue;
};

/// All devices of both sides, in ascending order.
void Router::indexDevices() {
  std::unordered_set<int64_t> known;
  for (const Flow &flow : flows)
    for (const CellSet *side : {&flow.source, &flow.destination})
      for (const auto &owners : side->ownerSets)
        known.insert(owners.begin(), owners.end());
  std::vector<int64_t> numbers(known.begin(), known.end());
  std::sort(numbers.begin(), numbers.end());
  int64_t node = -1;
  for (int64_t number : numbers) {
    if (devices.empty() || cluster.node(number) != node)
      holdersOf.emplace_back();
    node = cluster.node(number);
    deviceIndex.emplace(number, uint32_t(devices.size()));
    devices.emplace_back();
    devices.back().number = number;
    devices.back().node = uint32_t(holdersOf.size() - 1);
    devices.back().nic = &nics[cluster.port(number, /*interNode=*/true)];
  }
}

uint32_t Router::demandOf(uint32_t flow, uint32_t sourceOwners,
                          uint32_t destinationOwners) {
  auto [it, isNew] = demandIndex.try_emplace({sourceOwners, destinationOwners},
                                             uint32_t(demands.size()));
  if (!isNew)
    return it->second;
  Demand demand;
  demand.holders = &flows[flow].source.ownerSets[sourceOwners];
  for (int64_t device : *demand.holders)
    demand.holding.push_back(find(device));
  std::map<uint32_t, Devices> wanting; // by node
  for (int64_t number : flows[flow].destination.ownerSets[destinationOwners]) {
    Device *device = find(number);
    if (std::binary_search(demand.holders->begin(), demand.holders->end(),
                           number))
      demand.locals.push_back(number);
    else
      wanting[device->node].push_back(device);
  }
  demand.setNodes(std::move(wanting));
  demands.push_back(std::move(demand));
  return it->second;
}

/// Joins both sides of a flow.
void Router::collectItems(uint32_t index) {
  const Flow &flow = flows[index];
  demandIndex.clear();
  size_t first = items.size();
  for (const CellPair &pair : join(flow.source.cells, flow.destination.cells)) {
    uint32_t demand = demandOf(index, flow.source.cells[pair.left].owners,
                               flow.destination.cells[pair.right].owners);
    items.push_back({index, demand, pair.box.volume() * flow.bytesPerElement,
                     pair.box, pair.left, pair.right});
  }
  if (options.old)
    keepOld((*options.old)[index], first);
}

/// Takes from the items of a flow, those from `first` on, what an old plan
/// has routed and what stays where it is.
void Router::keepOld(const std::vector<OldMove> &moves, size_t first) {
  std::vector<Box> boxes;
  for (size_t i = first; i < items.size(); ++i)
    boxes.push_back(items[i].box);
  OldRoute old(moves, boxes);
  std::map<uint32_t, std::vector<std::vector<int64_t>>> wanters; // by demand
  std::vector<Item> rest;
  for (size_t i = first; i < items.size(); ++i) {
    Item item = items[i];
    auto [known, isNew] = wanters.try_emplace(item.demand);
    if (isNew)
      known->second = numbersOf(demands[item.demand].nodes);
    auto kept = old.keep(
        i - first, {*demands[item.demand].holders, known->second}, cluster);
    for (const Move &move : kept.moves)
      addMove(move);
    for (int64_t device : demands[item.demand].locals)
      routing.locals.push_back({item.flow, device, item.box});
    item.demand = restOf(item.demand, kept.served);
    if (demands[item.demand].remote > 0)
      rest.push_back(item);
  }
  items.resize(first);
  items.insert(items.end(), rest.begin(), rest.end());
}

/// What is left of a demand when some of its nodes, and what stays where it is,
/// have been seen to.
uint32_t Router::restOf(uint32_t demand, const std::vector<bool> &served) {
  auto [it, isNew] =
      restIndex.try_emplace({demand, served}, uint32_t(demands.size()));
  if (!isNew)
    return it->second;
  Demand rest;
  rest.holders = demands[demand].holders;
  rest.holding = demands[demand].holding;
  std::map<uint32_t, Devices> wanting; // by node
  for (size_t i = 0; i < served.size(); ++i)
    if (!served[i]) {
      const Devices &wanters = demands[demand].nodes[i];
      wanting[wanters.front()->node] = wanters;
    }
  rest.setNodes(std::move(wanting));
  demands.push_back(std::move(rest));
  return it->second;
}

/// Loads ports with what goes beside.
void Router::addAround() {
  if (!options.around)
    return;
  for (const TimedMessage &message : *options.around) {
    auto [from, to] = std::make_pair(message.source, message.destination);
    bool interNode = !cluster.sameNode(from, to);
    double seconds = cluster.portSeconds(from, to, message.bytes);
    if (auto sender = deviceIndex.find(from); sender != deviceIndex.end()) {
      Device &device = devices[sender->second];
      (interNode ? *device.nic : device.island).out += seconds;
    }
    auto receiver = deviceIndex.find(to);
    if (interNode && receiver != deviceIndex.end())
      devices[receiver->second].nic->in += seconds;
  }
}

/// Adds a move that has been decided.
void Router::addMove(const Move &move) {
  Device &sender = *find(move.source), &receiver = *find(move.destination);
  bool interNode = !cluster.sameNode(move.source, move.destination);
  double seconds =
      cluster.portSeconds(move.source, move.destination,
                          move.box.volume() * flows[move.flow].bytesPerElement);
  (interNode ? *sender.nic : sender.island).out += seconds;
  if (interNode)
    receiver.nic->in += seconds;
  routing.moves.push_back(move);
}

/// Finds partners for items that come over NICs (Partners.h). Over unequal
/// links it is another question who is best, and who forwards by trees has its
/// own pairs.
void Router::pairUp() {
  if (options.forwarding != Forwarding::Spread || !cluster.links.empty())
    return;
  std::map<std::vector<int64_t>, uint32_t> known; // holders, receivers by node
  std::vector<int64_t> groupOf(demands.size(), -1);
  for (const Item &item : items) {
    const Demand &demand = demands[item.demand];
    if (!demand.usesNics)
      continue;
    int64_t &group = groupOf[item.demand];
    if (group < 0) {
      auto [it, isNew] = known.try_emplace(keyOf(demand), partnerGroups.size());
      group = it->second;
      if (isNew)
        partnerGroups.push_back(groupFor(demand));
    }
    partnerGroups[group].seconds += secondsOf(item);
  }
  findPartners(partnerGroups, partnerLimit);
  for (size_t i = 0; i < demands.size(); ++i)
    if (groupOf[i] >= 0 && !partnerGroups[groupOf[i]].partners.empty())
      demands[i].group = &partnerGroups[groupOf[i]];
}

/// Cuts items that have a choice of route to a fraction of the busiest
/// device's traffic.
void Router::cutItems() {
  std::unordered_map<const Device *, int64_t> inbound;
  int64_t busiest = 0;
  for (const Item &item : items)
    for (const Devices &wanters : demands[item.demand].nodes)
      for (const Device *device : wanters)
        busiest = std::max(busiest, inbound[device] += item.bytes);
  int64_t limit =
      std::max(options.minPieceBytes, busiest / options.balanceParts);
  std::vector<Item> cut;
  cut.reserve(items.size());
  for (const Item &item : items) {
    const Demand &demand = demands[item.demand];
    bool isSettled = demand.group && demand.group->isSettled;
    if (item.bytes <= limit || !demand.hasChoice() || isSettled) {
      cut.push_back(item);
      continue;
    }
    int64_t width = flows[item.flow].bytesPerElement;
    for (const Box &box : splitBox(item.box, limit / width)) {
      Item part = item;
      part.box = box;
      part.bytes = box.volume() * width;
      cut.push_back(std::move(part));
    }
  }
  items = std::move(cut);
}

/// To move moves to a larger memory takes longer than to count them.
size_t Router::countMoves() const {
  size_t count = 0;
  for (const Item &item : items)
    for (const Devices &wanters : demands[item.demand].nodes)
      count += wanters.size();
  return count;
}

/// What a port may carry before it becomes the bottleneck: a little less than
/// the busiest receiver takes in anyway, since items do not fill it exactly and
/// a port that is full from start to end leaves the schedule no choice.
void Router::setBudget() {
  double least = problem.bounds().portSeconds;
  if (options.around) {
    PortSeconds others = busiestPorts(*options.around, cluster);
    least = std::max({least, others.nic, others.island});
  }
  budget = least * kSenderShare;
  partnerLimit = least * (1 + 1e-9);
}

/// What it costs to take the item from a holder; the least is taken, the least
/// loaded of these. A forward has to wait for its own data, so one is taken
/// only where it relieves a port that would be too busy.
Cost Router::costOf(uint32_t number, const Device &destination, bool sameNode,
                    int64_t bytes) const {
  const Holder &holder = holders[number];
  const Device &device = *holder.device;
  const Port &port = sameNode ? device.island : *device.nic;
  double load = port.out + port.due +
                cluster.portSeconds(device.number, destination.number, bytes);
  bool hasRoom = load <= sendLimit;
  int64_t sends = holder.sends[!sameNode];
  switch (options.forwarding) {
  case Forwarding::Spread:
    // Nearest to the source with room in its port's budget.
    return {hasRoom ? holder.hop : int64_t(UINT32_MAX), 0, load, number};
  case Forwarding::Chain:
    return {hasRoom ? int64_t(holder.hop >= 0) : 2, sends, load, number};
  case Forwarding::Tree:
  case Forwarding::Rounds: // of what goes to one device
  case Forwarding::Rails:
  case Forwarding::RailBlocks:
    break;
  }
  return {holder.ready + sends, holder.hop, 0, number};
}

/// -1: no holder in the node of `destination`.
int64_t Router::cheapestInside(const Device &destination, int64_t bytes) const {
  const std::vector<uint32_t> &inside = holdersOf[destination.node];
  if (inside.empty())
    return -1;
  Cost best = costOf(inside.front(), destination, /*sameNode=*/true, bytes);
  for (uint32_t holder : inside)
    best =
        std::min(best, costOf(holder, destination, /*sameNode=*/true, bytes));
  return best.holder;
}

/// Asked for only where no holder is in the node of `destination`. What a
/// holder costs does not depend on the receiver, unless links are unequal, and
/// only grows: what is on top of the queue is right when it costs the same
/// still.
uint32_t Router::cheapestOutside(const Device &destination, int64_t bytes) {
  std::greater<Cost> later;
  auto now = [&](uint32_t holder) {
    return costOf(holder, destination, /*sameNode=*/false, bytes);
  };
  if (!cluster.links.empty())
    queue.clear();
  bool isNew = queue.empty();
  while (queue.size() < holders.size()) {
    queue.push_back(now(uint32_t(queue.size())));
    if (!isNew)
      std::push_heap(queue.begin(), queue.end(), later);
  }
  if (isNew)
    std::make_heap(queue.begin(), queue.end(), later);
  for (Cost top = queue.front();; top = queue.front()) {
    Cost current = now(top.holder);
    if (!(top < current))
      return top.holder;
    std::pop_heap(queue.begin(), queue.end(), later);
    queue.back() = current;
    std::push_heap(queue.begin(), queue.end(), later);
  }
}

void Router::addHolder(Device *device, int64_t hop, int64_t ready) {
  holdersOf[device->node].push_back(uint32_t(holders.size()));
  holders.push_back({device, hop, ready});
}

void Router::move(const Item &item, uint32_t from, Device *destination,
                  bool isMovable) {
  Device &sender = *holders[from].device;
  int64_t hop = holders[from].hop;
  bool interNode = sender.node != destination->node;
  double seconds =
      cluster.portSeconds(sender.number, destination->number, item.bytes);
  (interNode ? *sender.nic : sender.island).out += seconds;
  if (interNode)
    destination->nic->in += seconds;
  const std::vector<int64_t> &choice = *demands[item.demand].holders;
  if (isMovable && hop < 0 && choice.size() > 1)
    movable.push_back({uint32_t(routing.moves.size()), &choice});
  routing.moves.push_back({item.flow, uint32_t(hop + 1), sender.number,
                           destination->number, item.box});
  int64_t ready = holders[from].ready + ++holders[from].sends[interNode];
  addHolder(destination, hop + 1, ready);
}

/// The wanter whose NIC will have received least when it has the item too.
Device *Router::cheapestEntry(const Devices &wanters, int64_t bytes) {
  Device *best = nullptr;
  double bestLoad = 0;
  for (Device *device : wanters) {
    // Over unequal links trees have one entry, so that the same pairs meet.
    bool isTree =
        options.forwarding == Forwarding::Tree && !cluster.links.empty();
    double load = isTree ? 0 : device->nic->in;
    if (!cluster.links.empty())
      load += cluster.portSeconds(
          holders[cheapestOutside(*device, bytes)].device->number,
          device->number, bytes);
    if (best && load >= bestLoad)
      continue;
    best = device;
    bestLoad = load;
  }
  return best;
}

/// Who sends the current item to the device by which it enters a node; -1: any
/// holder.
int64_t Router::partnerOf(const Demand &demand, size_t node,
                          const Device *entry) const {
  if (!demand.group)
    return -1;
  const Devices &wanters = demand.nodes[node];
  size_t place =
      std::find(wanters.begin(), wanters.end(), entry) - wanters.begin();
  const Partner &partner = demand.group->partners[node][place];
  return partner.sends(position) ? partner.holder : -1;
}

/// Serves all wanters of one node: from inside it if any device there has the
/// box, else once over the network, to the wanter whose NIC receives least.
/// False: no partner sends it there, and `waits` for others.
bool Router::serveNode(const Item &item, size_t node, bool waits) {
  const Demand &demand = demands[item.demand];
  const Devices &wanters = demand.nodes[node];
  Device *entry = nullptr;
  if (holdersOf[wanters.front()->node].empty()) {
    entry = cheapestEntry(wanters, item.bytes);
    int64_t partner = partnerOf(demand, node, entry);
    if (partner < 0 && waits)
      return false;
    if (partner < 0)
      move(item, cheapestOutside(*entry, item.bytes), entry);
    else
      move(item, uint32_t(partner), entry, /*isMovable=*/false);
  }
  for (Device *device : fanOutOrder(wanters, entry))
    move(item, uint32_t(cheapestInside(*device, item.bytes)), device);
  return true;
}

/// Wanters but the entry, in the order in which they are served: who has least
/// to send first, since the first may have to pass it on. Chains and trees keep
/// their order here too; but in a tree over unequal links who receives most
/// comes last, and has nothing to pass on.
Devices Router::fanOutOrder(const Devices &wanters, const Device *entry) const {
  Devices order = wanters;
  auto isBefore = [](const Device *a, const Device *b) {
    return a->island.out < b->island.out;
  };
  auto receivesLess = [](const Device *a, const Device *b) {
    return a->nic->in < b->nic->in;
  };
  if (options.forwarding == Forwarding::Spread)
    std::stable_sort(order.begin(), order.end(), isBefore);
  else if (options.forwarding == Forwarding::Tree && !cluster.links.empty())
    std::stable_sort(order.begin(), order.end(), receivesLess);
  auto first = std::find(order.begin(), order.end(), entry);
  if (options.forwarding == Forwarding::Chain && first != order.end())
    std::rotate(order.begin(), first, order.end());
  order.erase(std::remove(order.begin(), order.end(), entry), order.end());
  return order;
}

/// Adds an item to what its holders will have to send (`sign` 1), or takes it
/// off again (-1).
void Router::expect(const Item &item, double sign) {
  const Demand &demand = demands[item.demand];
  double nic = secondsOf(item);
  if (demand.group)
    for (auto [holder, part] : demand.group->shares)
      holder->nic->due += sign * nic * part;
  else if (demand.usesNics)
    for (Device *device : demand.holding)
      device->nic->due += sign * nic / demand.holding.size();
  double island = item.bytes / cluster.portBytesPerSecond(/*interNode=*/false);
  for (const Devices &senders : demand.islandSenders)
    for (Device *device : senders)
      device->island.due += sign * island / senders.size();
}

/// Nodes with the idlest NICs first: they can pass the item on to the others.
/// Chains and trees keep their order, so that the same pairs meet.
std::vector<size_t> Router::nodeOrder(const Demand &demand) {
  std::vector<std::pair<double, size_t>> rated;
  for (size_t i = 0; i < demand.nodes.size(); ++i) {
    double least = std::numeric_limits<double>::max();
    for (const Device *device : demand.nodes[i])
      least = std::min(least, device->nic->out + device->nic->due);
    rated.push_back({least, i});
  }
  if (demand.usesNics && options.forwarding == Forwarding::Spread)
    std::sort(rated.begin(), rated.end());
  std::vector<size_t> order;
  for (auto [load, i] : rated)
    order.push_back(i);
  return order;
}

void Router::routeItem(const Item &item) {
  const Demand &demand = demands[item.demand];
  expect(item, -1);
  sendLimit = demand.group ? partnerLimit : budget;
  if (demand.group) {
    double part = secondsOf(item) / demand.group->seconds;
    position = demand.group->routed + part / 2;
    demand.group->routed += part;
  }
  for (int64_t device : demand.locals)
    routing.locals.push_back({item.flow, device, item.box});
  for (const Holder &holder : holders)
    holdersOf[holder.device->node].clear();
  holders.clear();
  queue.clear();
  for (Device *device : demand.holding)
    addHolder(device, -1);
  // Who gets it from its partner may pass it on to those whose partners have no
  // time for it.
  std::vector<size_t> waiting;
  for (size_t node : nodeOrder(demand))
    if (!serveNode(item, node, /*waits=*/demand.group))
      waiting.push_back(node);
  for (size_t node : waiting)
    serveNode(item, node, /*waits=*/false);
}

/// From the idlest holder to the idlest NIC of each node.
RoundTree Router::roundTree(const Demand &demand) {
  RoundTree tree;
  auto numbers = [&](const Devices &wanters, Device *first) {
    RoundTree::Devices out = {first->number};
    for (const Device *device : wanters)
      if (device != first)
        out.push_back(device->number);
    if (goesAround)
      std::stable_partition(out.begin() + 1, out.end(), [&](int64_t device) {
        return device > first->number;
      });
    return out;
  };
  auto sendsLess = [](const Device *a, const Device *b) {
    return a->nic->out < b->nic->out;
  };
  auto receivesLess = [](const Device *a, const Device *b) {
    return a->nic->in < b->nic->in;
  };
  const Devices &holding = demand.holding;
  tree.root =
      (*std::min_element(holding.begin(), holding.end(), sendsLess))->number;
  for (const Devices &wanters : demand.nodes) {
    uint32_t node = wanters.front()->node;
    auto near = std::find_if(holding.begin(), holding.end(),
                             [&](Device *own) { return own->node == node; });
    if (near != holding.end())
      tree.holding.push_back(numbers(wanters, *near));
    else
      tree.nodes.push_back(
          numbers(wanters, *std::min_element(wanters.begin(), wanters.end(),
                                             receivesLess)));
  }
  if (goesAround)
    std::stable_partition(tree.nodes.begin(), tree.nodes.end(),
                          [&](const RoundTree::Devices &node) {
                            return node.front() > tree.root;
                          });
  return tree;
}

int64_t bytesOf(const std::vector<Item> &group) {
  int64_t bytes = 0;
  for (const Item &item : group)
    bytes += item.bytes;
  return bytes;
}

FlowBoxes boxesOf(const std::vector<Item> &group) {
  FlowBoxes out;
  for (const Item &item : group)
    out.push_back({item.flow, item.source, item.destination, item.box});
  return out;
}

/// Cuts items of one demand into blocks of about the same size, and sends them
/// in rounds: the hop of a forward is its round.
void Router::routeGroup(const Group &group, int64_t mostMoves) {
  const Demand &demand = demands[group.front().demand];
  int64_t bytes = bytesOf(group);
  RoundTree tree = roundTree(demand);
  int64_t most = std::max<int64_t>(1, mostMoves / demand.remote);
  int64_t blocks = tree.bestBlocks(bytes, most, cluster);
  // Pieces of several items fill blocks less evenly.
  int64_t perBlock = (bytes + blocks - 1) / blocks;
  int64_t perPiece = group.size() > 1 ? (perBlock + 3) / 4 : perBlock;
  std::vector<std::vector<std::pair<uint32_t, Box>>> contents;
  int64_t room = 0;
  for (const Item &item : group) {
    int64_t width = flows[item.flow].bytesPerElement;
    for (const Box &box :
         splitBox(item.box, std::max<int64_t>(1, perPiece / width))) {
      if (contents.empty() || room <= 0) {
        contents.emplace_back();
        room = group.size() > 1 ? perBlock - perPiece / 2 : 0;
      }
      contents.back().push_back({item.flow, box});
      room -= box.volume() * width;
    }
  }
  auto isHolder = [&](int64_t device) {
    return std::binary_search(demand.holders->begin(), demand.holders->end(),
                              device);
  };
  for (const BlockStep &step : tree.steps(int64_t(contents.size()))) {
    auto hop = isHolder(step.source) ? 0 : uint32_t(step.round);
    for (const auto &[flow, box] : contents[step.block])
      addMove({flow, hop, step.source, step.destination, box});
  }
}

/// Devices whose NICs differ, as many as may be; the others behind them.
Devices Router::differentNics(const Devices &wanted, size_t most) const {
  Devices out, others;
  for (Device *device : wanted) {
    bool isNew = std::none_of(out.begin(), out.end(), [&](Device *known) {
      return known->nic == device->nic;
    });
    (isNew && out.size() < most ? out : others).push_back(device);
  }
  out.insert(out.end(), others.begin(), others.end());
  return out;
}

size_t numNics(const std::vector<Device *> &devices) {
  std::unordered_set<const Port *> nics;
  for (const Device *device : devices)
    nics.insert(device->nic);
  return nics.size();
}

/// As many rails as each node has NICs for; of holders, where these have more
/// than the node of one of them. Nothing where there are fewer than two.
std::optional<RailTree> Router::railTree(const Demand &demand) const {
  std::map<uint32_t, Devices> near; // holders and then others, by node
  for (Device *holder : demand.holding)
    near[holder->node].push_back(holder);
  std::vector<Devices> far;
  RailTree tree;
  for (const Devices &wanters : demand.nodes) {
    auto inside = near.find(wanters.front()->node);
    if (inside == near.end()) {
      far.push_back(wanters);
      continue;
    }
    Devices node = wanters;
    node.insert(node.begin(), inside->second.front());
    tree.holding.push_back(numbersOf({node}).front());
    inside->second.insert(inside->second.end(), wanters.begin(), wanters.end());
  }
  Devices senders = demand.holding;
  for (const auto &[node, devices] : near)
    if (numNics(devices) > numNics(senders))
      senders = devices;
  size_t rails = numNics(senders);
  for (const Devices &wanters : far)
    rails = std::min(rails, numNics(wanters));
  if (far.empty() || rails < 2)
    return std::nullopt;
  tree.senders = numbersOf({differentNics(senders, rails)}).front();
  tree.senders.resize(rails);
  for (const Devices &wanters : far)
    tree.nodes.push_back(numbersOf({differentNics(wanters, rails)}).front());
  return tree;
}

/// Sends items of one demand on rails: the hop of a forward is its round.
/// False: there are none.
bool Router::routeOnRails(const Group &group, int64_t mostMoves) {
  const Demand &demand = demands[group.front().demand];
  std::optional<RailTree> tree = railTree(demand);
  if (!tree)
    return false;
  RailCut shape = tree->bestCut(bytesOf(group), mostMoves, cluster);
  EvenCut cut(boxesOf(group), widths, tree->cells(shape));
  for (const RailStep &step : tree->steps(shape)) {
    bool holds = std::binary_search(demand.holders->begin(),
                                    demand.holders->end(), step.source);
    for (const FlowBox &part : cut.run(step.first, step.last))
      addMove({part.flow, holds ? 0 : uint32_t(step.round), step.source,
               step.destination, part.box});
  }
  ++onRails;
  return true;
}

/// The nodes of an all-gather, where groups are one: each of several devices on
/// each of several nodes has a part, about as large as the others', that all
/// others want.
std::optional<RailGather> Router::railGather(const Groups &groups) const {
  std::vector<int64_t> members;
  int64_t least = std::numeric_limits<int64_t>::max(), most = 0; // bytes
  for (const auto &[key, group] : groups) {
    members.push_back(key.first.front());
    least = std::min(least, bytesOf(group));
    most = std::max(most, bytesOf(group));
  }
  if (members.size() < 4 || most > 2 * least)
    return std::nullopt;
  for (const auto &[key, group] : groups) {
    const auto &[holders, receivers] = key;
    if (holders.size() != 1 || receivers.size() + 1 != members.size() ||
        !std::includes(members.begin(), members.end(), receivers.begin(),
                       receivers.end()))
      return std::nullopt;
  }
  RailGather gather;
  std::unordered_set<const Port *> nics;
  for (int64_t member : members) {
    if (gather.nodes.empty() ||
        !cluster.sameNode(gather.nodes.back().front(), member))
      gather.nodes.emplace_back();
    gather.nodes.back().push_back(member);
    nics.insert(devices[deviceIndex.at(member)].nic);
  }
  for (const RailGather::Devices &node : gather.nodes)
    if (node.size() < 2 || node.size() != gather.nodes.front().size())
      return std::nullopt;
  if (gather.nodes.size() < 2 || nics.size() != members.size())
    return std::nullopt;
  return gather;
}

/// Into how many cells a part is cut so that none begins inside a slice of its
/// outermost dim: `usual`, or as many as it has slices, where these are few.
static int64_t cellsBetweenSlices(const FlowBoxes &boxes, int64_t usual) {
  constexpr int64_t kSlicesPerCell = 8; // EvenCut's: then it cuts between them
  if (boxes.size() != 1)
    return usual;
  const Box &box = boxes.front().box;
  unsigned dim = 0;
  while (dim + 1 < box.rank() && box[dim].size() == 1)
    ++dim;
  int64_t slices = box[dim].size();
  bool areElements = box.volume() == slices;
  return areElements || slices >= usual * kSlicesPerCell ? usual : slices;
}

/// In rounds whose messages differ, or in equal blocks.
Router::PartSteps Router::partSteps(const RailGather &gather,
                                    const Groups &groups) const {
  int64_t largest = 0;
  for (const auto &[key, group] : groups)
    largest = std::max(largest, bytesOf(group));
  if (options.forwarding == Forwarding::RailBlocks) {
    BlockGather blocks = {gather.nodes};
    BlockCut cut = blocks.bestCut(largest, options.mostRoundMoves, cluster);
    return {cut.blocks, blocks.steps(cut)};
  }
  // Messages are runs only where parts are cut between their slices.
  std::set<int64_t> counts;
  for (const auto &[key, group] : groups)
    counts.insert(cellsBetweenSlices(boxesOf(group), gather.usualCells()));
  int64_t cells = counts.size() == 1 ? *counts.begin() : 1;
  GatherCut cut =
      gather.bestCut(largest, options.mostRoundMoves, cells, cluster);
  return {cut.cells, gather.steps(cut)};
}

/// False where the groups are no all-gather.
bool Router::gatherOnRails(const Groups &groups) {
  std::optional<RailGather> gather = railGather(groups);
  if (!gather)
    return false;
  auto [cells, steps] = partSteps(*gather, groups);
  std::vector<EvenCut> parts;
  std::vector<int64_t> holder; // by part
  for (const auto &[key, group] : groups) {
    parts.emplace_back(boxesOf(group), widths, cells);
    holder.push_back(key.first.front());
  }
  auto run = [&, cells = cells](int64_t first, int64_t last) {
    FlowBoxes out;
    for (int64_t end; first < last; first = end) {
      int64_t part = first / cells, begin = part * cells;
      end = std::min(last, begin + cells);
      const FlowBoxes &own = parts[part].run(first - begin, end - begin);
      out.insert(out.end(), own.begin(), own.end());
    }
    return out;
  };
  for (const RailStep &step : steps) {
    bool holds = holder[step.first / cells] == step.source;
    FlowBoxes boxes = run(step.first, step.last);
    if (!holds)
      boxes = joinedArrived(std::move(boxes));
    for (const FlowBox &part : boxes)
      addMove({part.flow, holds ? 0 : uint32_t(step.round), step.source,
               step.destination, part.box});
  }
  ++onRails;
  return true;
}

/// Items that go to several devices, by who holds and who gets them. The others
/// stay in `items`.
Router::Groups Router::takeGroups() {
  Groups groups;
  std::vector<Item> others;
  for (const Item &item : items) {
    const Demand &demand = demands[item.demand];
    if (demand.remote < 2) {
      others.push_back(item);
      continue;
    }
    auto key = std::make_pair(*demand.holders, std::vector<int64_t>());
    for (const Devices &wanters : demand.nodes)
      for (const Device *device : wanters)
        key.second.push_back(device->number);
    groups[key].push_back(item);
    for (int64_t device : demand.locals)
      routing.locals.push_back({item.flow, device, item.box});
  }
  items = std::move(others);
  return groups;
}

/// Routes all items that go to several devices, and leaves the others.
void Router::routeInRounds() {
  Groups groups = takeGroups();
  if (isOnRails(options.forwarding) && gatherOnRails(groups))
    return;
  if (options.forwarding == Forwarding::RailBlocks)
    return; // nothing but all-gathers goes so
  bool rails = options.forwarding == Forwarding::Rails;
  goesAround = railGather(groups).has_value();
  int64_t total = 0;
  for (const auto &[key, group] : groups)
    total += bytesOf(group);
  for (const auto &[key, group] : groups) {
    auto share =
        int64_t(double(options.mostRoundMoves) * bytesOf(group) / total);
    if (!rails || !routeOnRails(group, share))
      routeGroup(group, share);
  }
}

void Router::run() {
  indexDevices();
  addAround();
  for (const Flow &flow : flows)
    widths.push_back(flow.bytesPerElement);
  for (uint32_t i = 0; i < flows.size(); ++i)
    collectItems(i);
  setBudget();
  if (options.forwarding == Forwarding::Rounds || isOnRails(options.forwarding))
    routeInRounds();
  pairUp();
  cutItems();
  // Those that few devices hold first: what many hold fills the gaps.
  auto order = [&](const Item &item) {
    return std::make_pair(demands[item.demand].holding.size(), -item.bytes);
  };
  std::stable_sort(
      items.begin(), items.end(),
      [&](const Item &a, const Item &b) { return order(a) < order(b); });
  for (const Item &item : items)
    expect(item, 1);
  routing.moves.reserve(routing.moves.size() + countMoves());
  // Invariant: items before this one have come to all who want them; a port's
  // `out` and `in` are what that took, its `due` is its share of the others.
  for (const Item &item : items)
    routeItem(item);
  balanceSenders(flows, cluster, {movable, options.around}, budget,
                 routing.moves);
}

} // namespace

std::optional<std::string> dt::routeGreedily(const RoutingProblem &problem,
                                             const RouterOptions &options,
                                             Routing &routing) {
  routing = {};
  Router router(problem, options, routing);
  router.run();
  if (options.forwarding == Forwarding::Rails && router.numOnRails() == 0)
    return "has nothing for several devices on each of several nodes";
  if (options.forwarding == Forwarding::RailBlocks && router.numOnRails() == 0)
    return "has no all-gather of several devices on each of several nodes";
  return std::nullopt;
}
