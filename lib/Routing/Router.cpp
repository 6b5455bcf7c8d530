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

/// The seconds that a port will carry bytes; `due` is what it will have to send
/// of items that are not routed yet, shared with the other holders.
struct Port {
  double in = 0, out = 0, due = 0;
};

struct Device {
  int64_t number = 0;
  uint32_t node = 0; // counted without gaps
  Port island;
  Port *nic = nullptr; // of this device, or of several
};
using Devices = std::vector<Device *>;

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
    if (found == inside.end())
      usesNics = true;
    else
      islandSenders.push_back(std::move(found->second));
    nodes.push_back(std::move(wanters));
  }
}

/// A box that some devices hold and some want.
struct Item {
  uint32_t flow;
  uint32_t demand;
  int64_t bytes;
  Box box;
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

private:
  void indexDevices();
  void collectItems(uint32_t flow);
  uint32_t demandOf(uint32_t flow, uint32_t sourceOwners,
                    uint32_t destinationOwners);
  void keepOld(const std::vector<OldMove> &moves, size_t first);
  uint32_t restOf(uint32_t demand, const std::vector<bool> &served);
  void addMove(const Move &move);
  void cutItems();
  void expect(const Item &item, double sign);
  std::vector<size_t> nodeOrder(const Demand &demand);
  void routeItem(const Item &item);
  void serveNode(const Item &item, const Devices &wanters);
  Cost costOf(uint32_t number, const Device &destination, bool sameNode,
              int64_t bytes) const;
  int64_t cheapestInside(const Device &destination, int64_t bytes) const;
  uint32_t cheapestOutside(const Device &destination, int64_t bytes);
  Devices fanOutOrder(const Devices &wanters, const Device *entry) const;
  Device *cheapestEntry(const Devices &wanters, int64_t bytes);
  void setBudget();
  void routeInRounds();
  RoundTree roundTree(const Demand &demand);
  void routeGroup(const Demand &demand, const std::vector<const Item *> &group,
                  int64_t bytes, int64_t mostMoves);
  void addHolder(Device *device, int64_t hop, int64_t ready = 0);
  void move(const Item &item, uint32_t from, Device *destination);
  Device *find(int64_t device) { return &devices[deviceIndex.at(device)]; }

  const RoutingProblem &problem;
  const std::vector<Flow> &flows;
  const Cluster &cluster;
  const RouterOptions &options;
  Routing &routing;

  std::vector<Device> devices;            // ascending
  std::unordered_map<int64_t, Port> nics; // by the device that stands for them
  std::unordered_map<int64_t, uint32_t> deviceIndex;
  std::vector<Demand> demands;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> demandIndex; // one flow's
  /// Demands without some of their nodes.
  std::map<std::pair<uint32_t, std::vector<bool>>, uint32_t> restIndex;
  std::vector<Item> items;
  std::vector<MovableSend> movable;
  double budget = 0; // seconds that a port may take

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
    items.push_back(
        {index, demand, pair.box.volume() * flow.bytesPerElement, pair.box});
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
    if (item.bytes <= limit || !demands[item.demand].hasChoice()) {
      cut.push_back(item);
      continue;
    }
    int64_t width = flows[item.flow].bytesPerElement;
    for (const Box &box : splitBox(item.box, limit / width))
      cut.push_back({item.flow, item.demand, box.volume() * width, box});
  }
  items = std::move(cut);
}

/// What a port may carry before it becomes the bottleneck: a little less than
/// the busiest receiver takes in anyway, since items do not fill it exactly and
/// a port that is full from start to end leaves the schedule no choice.
void Router::setBudget() {
  budget = problem.bounds().portSeconds * kSenderShare;
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
  bool hasRoom = load <= budget;
  int64_t sends = holder.sends[!sameNode];
  switch (options.forwarding) {
  case Forwarding::Spread:
    // Nearest to the source with room in its port's budget.
    return {hasRoom ? holder.hop : int64_t(UINT32_MAX), 0, load, number};
  case Forwarding::Chain:
    return {hasRoom ? int64_t(holder.hop >= 0) : 2, sends, load, number};
  case Forwarding::Tree:
  case Forwarding::Rounds: // of what goes to one device
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

void Router::move(const Item &item, uint32_t from, Device *destination) {
  Device &sender = *holders[from].device;
  int64_t hop = holders[from].hop;
  bool interNode = sender.node != destination->node;
  double seconds =
      cluster.portSeconds(sender.number, destination->number, item.bytes);
  (interNode ? *sender.nic : sender.island).out += seconds;
  if (interNode)
    destination->nic->in += seconds;
  const std::vector<int64_t> &choice = *demands[item.demand].holders;
  if (hop < 0 && choice.size() > 1)
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

/// Serves all wanters of one node: from inside it if any device there has the
/// box, else once over the network, to the wanter whose NIC receives least.
void Router::serveNode(const Item &item, const Devices &wanters) {
  Device *entry = nullptr;
  if (holdersOf[wanters.front()->node].empty()) {
    entry = cheapestEntry(wanters, item.bytes);
    move(item, cheapestOutside(*entry, item.bytes), entry);
  }
  for (Device *device : fanOutOrder(wanters, entry))
    move(item, uint32_t(cheapestInside(*device, item.bytes)), device);
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
  double nic = item.bytes / cluster.portBytesPerSecond(/*interNode=*/true);
  if (demand.usesNics)
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
  for (int64_t device : demand.locals)
    routing.locals.push_back({item.flow, device, item.box});
  for (const Holder &holder : holders)
    holdersOf[holder.device->node].clear();
  holders.clear();
  queue.clear();
  for (Device *device : demand.holding)
    addHolder(device, -1);
  for (size_t node : nodeOrder(demand))
    serveNode(item, demand.nodes[node]);
}

/// From the idlest holder to the idlest NIC of each node.
RoundTree Router::roundTree(const Demand &demand) {
  RoundTree tree;
  auto numbers = [](const Devices &wanters, Device *first) {
    RoundTree::Devices out = {first->number};
    for (const Device *device : wanters)
      if (device != first)
        out.push_back(device->number);
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
  return tree;
}

/// Cuts items of one demand into blocks of about the same size, and sends them
/// in rounds: the hop of a forward is its round.
void Router::routeGroup(const Demand &demand,
                        const std::vector<const Item *> &group, int64_t bytes,
                        int64_t mostMoves) {
  RoundTree tree = roundTree(demand);
  int64_t most = std::max<int64_t>(1, mostMoves / demand.remote);
  int64_t blocks = tree.bestBlocks(bytes, most, cluster);
  // Pieces of several items fill blocks less evenly.
  int64_t perBlock = (bytes + blocks - 1) / blocks;
  int64_t perPiece = group.size() > 1 ? (perBlock + 3) / 4 : perBlock;
  std::vector<std::vector<std::pair<uint32_t, Box>>> contents;
  int64_t room = 0;
  for (const Item *item : group) {
    int64_t width = flows[item->flow].bytesPerElement;
    for (const Box &box :
         splitBox(item->box, std::max<int64_t>(1, perPiece / width))) {
      if (contents.empty() || room <= 0) {
        contents.emplace_back();
        room = group.size() > 1 ? perBlock - perPiece / 2 : 0;
      }
      contents.back().push_back({item->flow, box});
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

/// Routes all items that go to several devices, and leaves the others.
void Router::routeInRounds() {
  using Key = std::pair<std::vector<int64_t>, std::vector<int64_t>>;
  std::map<Key, std::vector<const Item *>> groups; // by holders and receivers
  std::vector<Item> others;
  int64_t total = 0; // bytes
  for (const Item &item : items) {
    const Demand &demand = demands[item.demand];
    if (demand.remote < 2) {
      others.push_back(item);
      continue;
    }
    Key key = {*demand.holders, {}};
    for (const Devices &wanters : demand.nodes)
      for (const Device *device : wanters)
        key.second.push_back(device->number);
    groups[key].push_back(&item);
    total += item.bytes;
    for (int64_t device : demand.locals)
      routing.locals.push_back({item.flow, device, item.box});
  }
  for (const auto &[key, group] : groups) {
    int64_t bytes = 0;
    for (const Item *item : group)
      bytes += item->bytes;
    auto share = int64_t(double(options.mostRoundMoves) * bytes / total);
    routeGroup(demands[group.front()->demand], group, bytes, share);
  }
  items = std::move(others);
}

void Router::run() {
  indexDevices();
  for (uint32_t i = 0; i < flows.size(); ++i)
    collectItems(i);
  setBudget();
  if (options.forwarding == Forwarding::Rounds)
    routeInRounds();
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
  // Invariant: items before this one have come to all who want them; a port's
  // `out` and `in` are what that took, its `due` is its share of the others.
  for (const Item &item : items)
    routeItem(item);
  balanceSenders(flows, cluster, movable, budget, routing.moves);
}

} // namespace

std::optional<std::string> dt::routeGreedily(const RoutingProblem &problem,
                                             const RouterOptions &options,
                                             Routing &routing) {
  routing = {};
  Router(problem, options, routing).run();
  return std::nullopt;
}
