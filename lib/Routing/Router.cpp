//===- Router.cpp - Who sends what to whom --------------------------------===//

#include "dt/Routing/Router.h"

#include "Balance.h"
#include "dt/Routing/CostModel.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>

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

/// Everything about a pair of device sets that does not depend on the box.
struct Demand {
  std::vector<int64_t> holders;
  std::vector<int64_t> locals; // wanters that hold it
  /// Wanters that do not, grouped by node in ascending order.
  std::vector<std::vector<int64_t>> nodes;
  int64_t remote = 0; // wanters in `nodes`
  /// Devices that have to send it at least once between them: over their NICs,
  /// and per node over their island ports.
  std::vector<int64_t> nicSenders;
  std::vector<std::vector<int64_t>> islandSenders;

  bool hasChoice() const {
    return remote > 1 || (remote == 1 && holders.size() > 1);
  }
};

/// A box that some devices hold and some want.
struct Item {
  uint32_t flow;
  uint32_t demand;
  int64_t bytes;
  Box box;
};

/// Seconds that each port of a device will carry bytes.
struct PortLoads {
  double nicIn = 0, nicOut = 0, islandOut = 0;
  /// What it will have to send of items that are not routed yet, shared with
  /// the other holders.
  double nicDue = 0, islandDue = 0;
};

/// A device that holds the current item's box, with the hop that brought it
/// there (-1: from the start).
struct Holder {
  int64_t device;
  int64_t hop;
  /// Messages until it has the item, and that it has sent of it per level
  /// (island, NIC).
  int64_t ready = 0;
  int64_t sends[2] = {0, 0};
};

class Router {
public:
  Router(const std::vector<Flow> &flows, const Cluster &cluster,
         const RouterOptions &options, Routing &routing)
      : flows(flows), cluster(cluster), options(options), routing(routing) {}

  bool run(Hole &hole);

private:
  bool collectItems(uint32_t flow, Hole &hole);
  uint32_t demandOf(uint32_t flow, uint32_t sourceOwners,
                    uint32_t destinationOwners);
  void cutItems();
  void expect(const Item &item, double sign);
  std::vector<size_t> nodeOrder(const Demand &demand);
  void routeItem(const Item &item);
  void serveNode(const Item &item, const std::vector<int64_t> &wanters);
  using HolderCost = std::tuple<int64_t, int64_t, double>;
  HolderCost costOf(const Holder &holder, bool sameNode, double load) const;
  const Holder *cheapestHolder(int64_t destination, bool sameNode,
                               int64_t bytes);
  std::vector<int64_t> fanOutOrder(const std::vector<int64_t> &wanters,
                                   int64_t entry);
  int64_t cheapestEntry(const std::vector<int64_t> &wanters, int64_t bytes);
  void setBudget();
  void move(const Item &item, Holder from, int64_t destination);

  const std::vector<Flow> &flows;
  const Cluster &cluster;
  const RouterOptions &options;
  Routing &routing;

  std::vector<Demand> demands;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> demandIndex; // one flow's
  std::vector<Item> items;
  std::vector<MovableSend> movable;
  std::unordered_map<int64_t, PortLoads> loads;
  double budget = 0;           // seconds that a port may take
  std::vector<Holder> holders; // of the current item; grows as it spreads
};

uint32_t Router::demandOf(uint32_t flow, uint32_t sourceOwners,
                          uint32_t destinationOwners) {
  auto [it, isNew] = demandIndex.try_emplace({sourceOwners, destinationOwners},
                                             uint32_t(demands.size()));
  if (!isNew)
    return it->second;
  Demand demand;
  demand.holders = flows[flow].source.ownerSets[sourceOwners];
  std::map<int64_t, std::vector<int64_t>> byNode;
  for (int64_t device : flows[flow].destination.ownerSets[destinationOwners]) {
    bool held = std::binary_search(demand.holders.begin(), demand.holders.end(),
                                   device);
    (held ? demand.locals : byNode[cluster.node(device)]).push_back(device);
  }
  for (auto &[node, devices] : byNode) {
    if (devices.empty())
      continue;
    demand.remote += devices.size();
    std::vector<int64_t> inside;
    for (int64_t holder : demand.holders)
      if (cluster.node(holder) == node)
        inside.push_back(holder);
    if (inside.empty())
      demand.nicSenders = demand.holders;
    else
      demand.islandSenders.push_back(std::move(inside));
    demand.nodes.push_back(std::move(devices));
  }
  demands.push_back(std::move(demand));
  return it->second;
}

/// Joins both sides of a flow. What the destination wants and no pair covers
/// is a hole.
bool Router::collectItems(uint32_t index, Hole &hole) {
  const Flow &flow = flows[index];
  demandIndex.clear();
  std::vector<int64_t> covered(flow.destination.cells.size(), 0);
  for (const CellPair &pair : join(flow.source.cells, flow.destination.cells)) {
    covered[pair.right] += pair.box.volume();
    uint32_t demand = demandOf(index, flow.source.cells[pair.left].owners,
                               flow.destination.cells[pair.right].owners);
    items.push_back(
        {index, demand, pair.box.volume() * flow.bytesPerElement, pair.box});
  }
  for (size_t i = 0; i < covered.size(); ++i) {
    const Cell &cell = flow.destination.cells[i];
    if (covered[i] == cell.box.volume())
      continue;
    hole.flow = index;
    hole.device = flow.destination.ownerSets[cell.owners].front();
    hole.box = uncovered(cell.box, flow.source.cells).front();
    return false;
  }
  return true;
}

/// Cuts items that have a choice of route to a fraction of the busiest
/// device's traffic.
void Router::cutItems() {
  std::unordered_map<int64_t, int64_t> inbound;
  int64_t busiest = 0;
  for (const Item &item : items)
    for (const auto &wanters : demands[item.demand].nodes)
      for (int64_t device : wanters)
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
  double bound = computeBounds(flows, cluster).seconds;
  budget = std::max(0.0, bound - cluster.latencySeconds) * kSenderShare;
}

/// What it costs to take an item from a holder; the least is taken.
Router::HolderCost Router::costOf(const Holder &holder, bool sameNode,
                                  double load) const {
  bool hasRoom = load <= budget;
  int64_t sends = holder.sends[!sameNode];
  switch (options.forwarding) {
  case Forwarding::Spread:
    // Nearest to the source with room in its port's budget.
    return {hasRoom ? holder.hop : int64_t(UINT32_MAX), 0, load};
  case Forwarding::Chain:
    return {hasRoom ? int64_t(holder.hop >= 0) : 2, sends, load};
  case Forwarding::Tree:
    break;
  }
  return {holder.ready + sends, holder.hop, 0};
}

/// The cheapest holder, the least loaded of these. A forward has to wait for
/// its own data, so one is taken only where it relieves a port that would be
/// too busy. Null: no holder there.
const Holder *Router::cheapestHolder(int64_t destination, bool sameNode,
                                     int64_t bytes) {
  const Holder *best = nullptr;
  HolderCost bestCost;
  for (const Holder &holder : holders) {
    if (cluster.sameNode(holder.device, destination) != sameNode)
      continue;
    const PortLoads &ports = loads[holder.device];
    double load = (sameNode ? ports.islandOut + ports.islandDue
                            : ports.nicOut + ports.nicDue) +
                  cluster.wireSeconds(holder.device, destination, bytes);
    HolderCost cost = costOf(holder, sameNode, load);
    if (best && cost >= bestCost)
      continue;
    best = &holder;
    bestCost = cost;
  }
  return best;
}

void Router::move(const Item &item, Holder from, int64_t destination) {
  PortLoads &sender = loads[from.device];
  bool interNode = !cluster.sameNode(from.device, destination);
  double seconds = cluster.wireSeconds(from.device, destination, item.bytes);
  (interNode ? sender.nicOut : sender.islandOut) += seconds;
  if (interNode)
    loads[destination].nicIn += seconds;
  const std::vector<int64_t> &choice = demands[item.demand].holders;
  if (from.hop < 0 && choice.size() > 1)
    movable.push_back({uint32_t(routing.moves.size()), &choice});
  routing.moves.push_back(
      {item.flow, uint32_t(from.hop + 1), from.device, destination, item.box});
  int64_t ready = from.ready + from.sends[interNode] + 1;
  for (Holder &holder : holders)
    if (holder.device == from.device)
      ++holder.sends[interNode];
  holders.push_back({destination, from.hop + 1, ready});
}

/// The wanter whose NIC will have received least when it has the item too.
int64_t Router::cheapestEntry(const std::vector<int64_t> &wanters,
                              int64_t bytes) {
  int64_t best = -1;
  double bestLoad = 0;
  for (int64_t device : wanters) {
    double load = loads[device].nicIn;
    if (!cluster.links.empty())
      load += cluster.wireSeconds(
          cheapestHolder(device, /*sameNode=*/false, bytes)->device, device,
          bytes);
    if (best >= 0 && load >= bestLoad)
      continue;
    best = device;
    bestLoad = load;
  }
  return best;
}

/// Serves all wanters of one node: from inside it if any device there has the
/// box, else once over the network, to the wanter whose NIC receives least.
void Router::serveNode(const Item &item, const std::vector<int64_t> &wanters) {
  int64_t entry = -1;
  if (!cheapestHolder(wanters.front(), /*sameNode=*/true, item.bytes)) {
    entry = cheapestEntry(wanters, item.bytes);
    move(item, *cheapestHolder(entry, /*sameNode=*/false, item.bytes), entry);
  }
  for (int64_t device : fanOutOrder(wanters, entry))
    move(item, *cheapestHolder(device, /*sameNode=*/true, item.bytes), device);
}

/// Wanters but the entry, in the order in which they are served: who has least
/// to send first, since the first may have to pass it on. Chains and trees keep
/// their order here too.
std::vector<int64_t> Router::fanOutOrder(const std::vector<int64_t> &wanters,
                                         int64_t entry) {
  std::vector<int64_t> order = wanters;
  auto isBefore = [&](int64_t a, int64_t b) {
    return loads[a].islandOut < loads[b].islandOut;
  };
  if (options.forwarding == Forwarding::Spread)
    std::stable_sort(order.begin(), order.end(), isBefore);
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
  double nic = item.bytes / cluster.bytesPerSecond(/*interNode=*/true);
  for (int64_t device : demand.nicSenders)
    loads[device].nicDue += sign * nic / demand.nicSenders.size();
  double island = item.bytes / cluster.bytesPerSecond(/*interNode=*/false);
  for (const auto &senders : demand.islandSenders)
    for (int64_t device : senders)
      loads[device].islandDue += sign * island / senders.size();
}

/// Nodes with the idlest NICs first: they can pass the item on to the others.
/// Chains and trees keep their order, so that the same pairs meet.
std::vector<size_t> Router::nodeOrder(const Demand &demand) {
  std::vector<std::pair<double, size_t>> rated;
  for (size_t i = 0; i < demand.nodes.size(); ++i) {
    double least = std::numeric_limits<double>::max();
    for (int64_t device : demand.nodes[i])
      least = std::min(least, loads[device].nicOut + loads[device].nicDue);
    rated.push_back({least, i});
  }
  if (!demand.nicSenders.empty() && options.forwarding == Forwarding::Spread)
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
  holders.clear();
  for (int64_t device : demand.holders)
    holders.push_back({device, -1});
  for (size_t node : nodeOrder(demand))
    serveNode(item, demand.nodes[node]);
}

bool Router::run(Hole &hole) {
  for (uint32_t i = 0; i < flows.size(); ++i)
    if (!collectItems(i, hole))
      return false;
  setBudget();
  cutItems();
  // Those that few devices hold first: what many hold fills the gaps.
  auto order = [&](const Item &item) {
    return std::make_pair(demands[item.demand].holders.size(), -item.bytes);
  };
  std::stable_sort(
      items.begin(), items.end(),
      [&](const Item &a, const Item &b) { return order(a) < order(b); });
  for (const Item &item : items)
    expect(item, 1);
  for (const Item &item : items)
    routeItem(item);
  balanceSenders(flows, cluster, movable, budget, routing.moves);
  return true;
}

} // namespace

bool dt::route(const std::vector<Flow> &flows, const Cluster &cluster,
               const RouterOptions &options, Routing &routing, Hole &hole) {
  return Router(flows, cluster, options, routing).run(hole);
}
