//===- LowerBounds.cpp - What no schedule can go below --------------------===//

#include "LowerBounds.h"

#include "ByteSums.h"
#include "Steps.h"
#include "dtrt/cost/LinkRates.h"
#include "dtrt/cost/Sites.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

namespace dtrt {

namespace {

/// Pairs of devices that links are looked up for: those of 8,192 devices.
constexpr uint64_t kMostPairs = uint64_t(1) << 26;

/// The fastest link of every port, over some devices.
class PortRates {
public:
  PortRates(const Cluster &cluster, const LinkRates &rates)
      : cluster(cluster), rates(rates) {}

  Status find(const Devices &devices) {
    if (cluster.links.empty())
      return {};
    Steps steps(kMostPairs);
    for (uint32_t device : devices)
      for (bool out : {true, false}) {
        if (!rates.isNamed(device, out)) {
          for (bool inter : {false, true})
            raise(device, inter, out,
                  out ? cluster.sendBytesPerSecond(inter)
                      : cluster.portBytesPerSecond(inter));
          continue;
        }
        if (!steps.take(devices.size()))
          return makeError("too many links to bound the time of ",
                           devices.size(), " devices");
        for (uint32_t other : devices)
          raise(device, !cluster.sameNode(device, other), out,
                out ? rates.sendBytesPerSecond(device, other)
                    : rates.portBytesPerSecond(other, device));
      }
    return {};
  }

  /// In bytes per second, of a port that some device may use.
  double of(uint32_t port, bool interNode, bool out) const {
    if (cluster.links.empty())
      return out ? cluster.sendBytesPerSecond(interNode)
                 : cluster.portBytesPerSecond(interNode);
    return fastest.at({port, interNode, out});
  }

private:
  void raise(uint32_t device, bool inter, bool out, double rate) {
    int64_t port =
        out ? cluster.sendPort(device, inter) : cluster.port(device, inter);
    double &known = fastest[{uint32_t(port), inter, out}];
    known = std::max(known, rate);
  }

  const Cluster &cluster;
  const LinkRates &rates;
  std::map<std::tuple<uint32_t, bool, bool>, double> fastest;
};

class BoundsBuilder {
public:
  explicit BoundsBuilder(const Cluster &cluster)
      : cluster(cluster), rates(cluster) {}

  void add(const LayoutCells::Cell &cell);
  Result<LowerBounds> finish();

private:
  /// Devices of one node, which are neighbours in every set.
  using Run = std::pair<const uint32_t *, const uint32_t *>;
  Run nodeAt(const Devices &devices, size_t first) const;
  Run ofNode(const Devices &devices, int64_t node) const;
  void addNode(Run holders, Run lacking, uint64_t bytes);
  /// Devices of a node that want something, and how many have it.
  struct Crowd {
    uint64_t have = 0, all = 0;
  };
  std::vector<Crowd> crowdsOf(const Devices &holders,
                              const Devices &lacking) const;
  uint64_t roundsFor(std::vector<Crowd> crowds) const;
  void exchange(Run devices, uint64_t copies, uint64_t bytes, uint64_t round);
  double stagesSeconds(const PortRates &ports) const;
  bool isOneAtATime() const;
  double crossingSeconds() const;
  Devices nicsOf(Run devices, bool send) const;
  Devices sendersOf(const Devices &holders, const Devices &lacking) const;
  /// Holders, and who lacks what they hold.
  using Demand = std::pair<Devices, Devices>;
  void occupyNode(const Demand &demand, Run wanters, double bytes);
  void occupy(const Demand &demand, double bytes);
  void occupySite(const Site &site, const Demand &demand, double bytes);
  Devices distinct(const Devices &devices) const;
  double fastest(const Devices &from, const Devices &to, bool send = false);
  double occupiedSeconds() const;
  void addPairs(const Devices &holders, const Devices &lacking, uint64_t bytes);
  double pairsSeconds() const;
  double portsSeconds(const PortRates &ports) const;
  double relayedSeconds() const;

  const Cluster &cluster;
  const LinkRates rates;
  LowerBounds bounds;
  std::map<uint32_t, uint64_t> nicIn, islandIn; // per port, bytes
  struct Node {
    uint64_t bytes = 0;
    std::set<uint32_t> nics; // of those who want some
  };
  std::map<int64_t, Node> nodeIn;
  /// What some ports carry together, and in which round the last of it may
  /// come to the last device, counted from when it is under way.
  struct Stage {
    uint64_t bytes = 0, rounds = UINT64_MAX;
    void add(uint64_t more, uint64_t then) {
      addBytes(bytes, more);
      rounds = std::min(rounds, then);
    }
  };
  /// Of the ports of a set that must send; of the NICs of a node, and of the
  /// island ports of its devices, that must receive.
  std::map<Devices, Stage> nicSets, islandSets;
  std::map<int64_t, Stage> arriving;
  std::map<int64_t, std::pair<Stage, std::set<uint32_t>>> exchanged;
  uint64_t longest = 0; // rounds of any cell
  /// All that crosses between nodes, and what each device has of it.
  Stage crossing;
  std::unordered_map<uint32_t, uint64_t> has;
  // With unequal links: what is asked for; seconds by level, whether they are
  // of sending, and ports; seconds of all NICs of a node.
  std::map<Demand, uint64_t> demands;
  std::map<std::tuple<bool, bool, Devices>, double> occupied;
  std::map<int64_t, double> nodeSeconds;
  std::map<Site, std::pair<double, std::set<uint32_t>>> siteSeconds; // and NICs
  Steps pairs{kMostPairs};
  /// Where channels of pairs do not fill ports: by level, device and those
  /// that it may exchange with.
  using PairDemand = std::map<std::tuple<bool, uint32_t, Devices>, uint64_t>;
  PairDemand received, sent;
  std::set<uint32_t> busy; // hold what others lack, or lack it
  // Where messages may be relayed: what devices lack, what sets of them have
  // that others lack.
  std::map<uint32_t, uint64_t> arrives;
  std::map<Devices, uint64_t> leaves;
};

BoundsBuilder::Run BoundsBuilder::nodeAt(const Devices &devices,
                                         size_t first) const {
  size_t last = first + 1;
  while (last < devices.size() &&
         cluster.sameNode(devices[first], devices[last]))
    ++last;
  return {devices.data() + first, devices.data() + last};
}

BoundsBuilder::Run BoundsBuilder::ofNode(const Devices &devices,
                                         int64_t node) const {
  auto at = std::partition_point(
      devices.begin(), devices.end(),
      [&](uint32_t device) { return cluster.node(device) < node; });
  if (at == devices.end() || cluster.node(*at) != node)
    return {};
  return nodeAt(devices, size_t(at - devices.begin()));
}

/// By which the devices receive from other nodes, or send to them.
Devices BoundsBuilder::nicsOf(Run devices, bool send) const {
  Devices nics;
  for (const uint32_t *device = devices.first; device != devices.second;
       ++device)
    if (auto nic = uint32_t(send ? cluster.sendPort(*device, true)
                                 : cluster.port(*device, true));
        nics.empty() || nics.back() != nic)
      nics.push_back(nic);
  return nics;
}

/// One node whose devices `lacking` want what they do not hold; `holders` are
/// those of the same node.
void BoundsBuilder::addNode(Run holders, Run lacking, uint64_t bytes) {
  if (holders.first != holders.second) {
    // Crossing the network would be one crossing too many.
    for (const uint32_t *device = lacking.first; device != lacking.second;
         ++device)
      addBytes(islandIn[*device], bytes);
    auto held = uint64_t(holders.second - holders.first);
    auto lacked = uint64_t(lacking.second - lacking.first);
    islandSets[Devices(holders.first, holders.second)].add(
        bytes, roundsFor({{held, held + lacked}}));
    exchange(lacking, lacked, bytes, 1);
    return;
  }
  auto all = uint64_t(lacking.second - lacking.first);
  addBytes(bounds.interNodeBytes, bytes);
  uint64_t rounds = 1 + roundsFor({{1, all}});
  arriving[cluster.node(*lacking.first)].add(bytes, rounds);
  crossing.add(bytes, rounds);
  exchange(lacking, all - 1, bytes, 2);
  Node &node = nodeIn[cluster.node(*lacking.first)];
  addBytes(node.bytes, bytes);
  Devices nics = nicsOf(lacking, /*send=*/false);
  node.nics.insert(nics.begin(), nics.end());
  if (nics.size() == 1)
    addBytes(nicIn[nics.front()], bytes);
}

/// So many of a node's devices get the bytes from others of it, in that round
/// at the earliest.
void BoundsBuilder::exchange(Run devices, uint64_t copies, uint64_t bytes,
                             uint64_t round) {
  if (copies == 0)
    return;
  auto &[stage, ports] = exchanged[cluster.node(*devices.first)];
  uint64_t all = 0;
  if (__builtin_mul_overflow(bytes, copies, &all))
    all = UINT64_MAX;
  stage.add(all, round);
  ports.insert(devices.first, devices.second);
}

/// Nodes of holders first, the others with nobody who has it.
std::vector<BoundsBuilder::Crowd>
BoundsBuilder::crowdsOf(const Devices &holders, const Devices &lacking) const {
  std::vector<Crowd> out;
  for (size_t first = 0; first < holders.size();) {
    Run own = nodeAt(holders, first);
    Run others = ofNode(lacking, cluster.node(holders[first]));
    auto have = uint64_t(own.second - own.first);
    out.push_back({have, have + uint64_t(others.second - others.first)});
    first += size_t(own.second - own.first);
  }
  for (size_t first = 0; first < lacking.size();) {
    Run own = nodeAt(lacking, first);
    Run near = ofNode(holders, cluster.node(lacking[first]));
    if (near.first == near.second)
      out.push_back({0, uint64_t(own.second - own.first)});
    first += size_t(own.second - own.first);
  }
  return out;
}

/// All who have something send it in every round, to as many as their ports
/// allow: inside their node, and to the largest nodes where nobody has it.
uint64_t BoundsBuilder::roundsFor(std::vector<Crowd> crowds) const {
  auto near = uint64_t(cluster.messagesPerPort(/*interNode=*/false));
  auto far = uint64_t(cluster.messagesPerPort(/*interNode=*/true));
  std::sort(crowds.begin(), crowds.end(), [](const Crowd &a, const Crowd &b) {
    return (a.have > 0) != (b.have > 0) ? a.have > 0 : a.all > b.all;
  });
  auto lacks = [](const Crowd &crowd) { return crowd.have < crowd.all; };
  uint64_t rounds = 0;
  for (; std::any_of(crowds.begin(), crowds.end(), lacks); ++rounds) {
    uint64_t entries = 0;
    for (Crowd &crowd : crowds) {
      if (crowd.have == 0 && entries == 0)
        break;
      entries += crowd.have * far;
      if (crowd.have > 0)
        crowd.have = std::min(crowd.all, crowd.have * (1 + near));
      else
        crowd.have = 1, --entries;
    }
  }
  return rounds;
}

/// Where only one device wants the bytes, or only one has them, they come or
/// go between few pairs.
void BoundsBuilder::addPairs(const Devices &holders, const Devices &lacking,
                             uint64_t bytes) {
  if (cluster.channelsPerPeer == 0)
    return;
  auto split = [&](uint32_t device, const Devices &others) {
    std::pair<Devices, Devices> out; // of the same node, of others
    for (uint32_t other : others)
      (cluster.sameNode(other, device) ? out.first : out.second)
          .push_back(other);
    return out;
  };
  if (lacking.size() == 1 && !holders.empty()) {
    auto [near, far] = split(lacking.front(), holders);
    bool inter = near.empty();
    addBytes(received[{inter, lacking.front(), inter ? far : near}], bytes);
  }
  if (holders.size() == 1) {
    auto [near, far] = split(holders.front(), lacking);
    if (!near.empty()) // who may pass it on to the others
      addBytes(sent[{false, holders.front(), near}], bytes);
    else if (!far.empty())
      addBytes(sent[{true, holders.front(), far}], bytes);
  }
}

void BoundsBuilder::add(const LayoutCells::Cell &cell) {
  const Devices &holders = cell.holders;
  Devices lacking;
  std::set_difference(cell.wanters.begin(), cell.wanters.end(), holders.begin(),
                      holders.end(), std::back_inserter(lacking));
  if (lacking.empty())
    return;
  if (!cluster.links.empty()) {
    busy.insert(holders.begin(), holders.end());
    busy.insert(lacking.begin(), lacking.end());
    if (!holders.empty())
      addBytes(demands[{holders, lacking}], cell.bytes);
  }
  addPairs(holders, lacking, cell.bytes);
  if (cluster.relays) {
    for (uint32_t device : lacking)
      addBytes(arrives[device], cell.bytes);
    if (!holders.empty())
      addBytes(leaves[holders], cell.bytes);
  }
  uint64_t all = 0;
  if (__builtin_mul_overflow(cell.bytes, lacking.size(), &all))
    all = UINT64_MAX;
  addBytes(bounds.wireBytes, all);
  bool crosses = false;
  Stage crossedBefore = crossing;
  for (size_t first = 0; first < lacking.size();) {
    Run wanters = nodeAt(lacking, first);
    Run near = ofNode(holders, cluster.node(lacking[first]));
    crosses |= near.first == near.second;
    addNode(near, wanters, cell.bytes);
    first = size_t(wanters.second - lacking.data());
  }
  if (holders.empty()) {
    crossing = crossedBefore;
    return;
  }
  std::vector<Crowd> crowds = crowdsOf(holders, lacking);
  longest = std::max(longest, roundsFor(crowds));
  if (!crosses)
    return;
  for (uint32_t device : holders)
    addBytes(has[device], cell.bytes);
  // All devices of the nodes that have it may have it when the last byte
  // leaves.
  for (Crowd &crowd : crowds)
    if (crowd.have > 0)
      crowd.have = crowd.all;
  Devices senders = sendersOf(holders, lacking);
  nicSets[nicsOf({senders.data(), senders.data() + senders.size()},
                 /*send=*/true)]
      .add(cell.bytes, roundsFor(std::move(crowds)));
}

/// Whose NICs bytes leave the holders' nodes by: a neighbour of a holder that
/// lacks them gets them inside, and may send them on.
Devices BoundsBuilder::sendersOf(const Devices &holders,
                                 const Devices &lacking) const {
  Devices senders = holders;
  for (uint32_t device : lacking) {
    Run near = ofNode(holders, cluster.node(device));
    if (near.first != near.second)
      senders.push_back(device);
  }
  std::sort(senders.begin(), senders.end());
  return senders;
}

/// What the devices `wanters` of one node lack, over the fastest links.
void BoundsBuilder::occupyNode(const Demand &demand, Run wanters,
                               double bytes) {
  Run near = ofNode(demand.first, cluster.node(*wanters.first));
  Devices own(wanters.first, wanters.second), inside(near.first, near.second);
  if (!inside.empty()) {
    occupied[{false, true, inside}] += bytes / fastest(inside, own);
    for (uint32_t device : own) {
      Devices senders = inside;
      std::copy_if(own.begin(), own.end(), std::back_inserter(senders),
                   [&](uint32_t other) { return other != device; });
      occupied[{false, false, {device}}] += bytes / fastest(senders, {device});
    }
    return;
  }
  Devices senders = demand.first;
  std::copy_if(
      demand.second.begin(), demand.second.end(), std::back_inserter(senders),
      [&](uint32_t other) { return !cluster.sameNode(other, own.front()); });
  double seconds = bytes / fastest(senders, own);
  Devices nics = nicsOf(wanters, /*send=*/false);
  nodeSeconds[cluster.node(own.front())] += seconds;
  if (nics.size() == 1)
    occupied[{true, false, nics}] += seconds;
}

/// With unequal links: the seconds for which some ports are busy.
void BoundsBuilder::occupy(const Demand &demand, double bytes) {
  Devices far; // want it, and nobody in their node has it
  const Devices &lacking = demand.second;
  for (size_t first = 0; first < lacking.size();) {
    Run wanters = nodeAt(lacking, first);
    occupyNode(demand, wanters, bytes);
    Run near = ofNode(demand.first, cluster.node(lacking[first]));
    if (near.first == near.second)
      far.insert(far.end(), wanters.first, wanters.second);
    first = size_t(wanters.second - lacking.data());
  }
  if (far.empty())
    return;
  Devices senders = sendersOf(demand.first, lacking);
  Devices nics = nicsOf({senders.data(), senders.data() + senders.size()},
                        /*send=*/true);
  occupied[{true, true, nics}] += bytes / fastest(senders, far, /*send=*/true);
}

/// What a site lacks comes from without once, wherever in it.
void BoundsBuilder::occupySite(const Site &site, const Demand &demand,
                               double bytes) {
  Devices inside, outside;
  for (const Devices *devices : {&demand.first, &demand.second})
    for (uint32_t device : *devices) {
      bool isInside =
          std::binary_search(site.begin(), site.end(), cluster.node(device));
      if (isInside && devices == &demand.first)
        return;
      (isInside ? inside : outside).push_back(device);
    }
  if (inside.empty())
    return;
  auto &[seconds, nics] = siteSeconds[site];
  seconds += bytes / fastest(outside, inside);
  for (uint32_t device : inside)
    nics.insert(uint32_t(cluster.port(device, /*interNode=*/true)));
}

/// Devices that no link tells from one another are looked at once.
Devices BoundsBuilder::distinct(const Devices &devices) const {
  Devices out;
  std::set<std::pair<bool, int64_t>> seen; // by a node that is named, or not
  for (uint32_t device : devices) {
    bool isNamed = rates.isNamed(device, true) || rates.isNamed(device, false);
    if (rates.isNamedAlone(device) ||
        seen.emplace(isNamed, isNamed ? cluster.node(device) : 0).second)
      out.push_back(device);
  }
  return out;
}

/// In bytes per second, of a pair of both; the pairs are of one level.
double BoundsBuilder::fastest(const Devices &from, const Devices &to,
                              bool send) {
  Devices senders = distinct(from), receivers = distinct(to);
  if (!pairs.take(senders.size() * receivers.size()))
    return cluster.bytesPerSecond(true);
  double rate = 0;
  for (uint32_t sender : senders)
    for (uint32_t receiver : receivers)
      rate = std::max(rate, send ? rates.sendBytesPerSecond(sender, receiver)
                                 : rates.portBytesPerSecond(sender, receiver));
  return rate;
}

double BoundsBuilder::occupiedSeconds() const {
  double most = 0;
  for (const auto &[ports, seconds] : occupied)
    most = std::max(most, seconds / double(std::get<Devices>(ports).size()));
  for (const auto &[node, seconds] : nodeSeconds)
    most = std::max(most, seconds / double(nodeIn.at(node).nics.size()));
  for (const auto &[site, received] : siteSeconds)
    most = std::max(most, received.first / double(received.second.size()));
  return most;
}

/// A device and the devices that it exchanges bytes with are as many pairs.
double BoundsBuilder::pairsSeconds() const {
  double seconds = 0;
  for (const PairDemand *side : {&received, &sent})
    for (const auto &[key, bytes] : *side) {
      const auto &[inter, device, others] = key;
      double rate = 0;
      for (uint32_t other : others)
        rate += side == &received ? rates.bytesPerSecond(other, device)
                                  : rates.bytesPerSecond(device, other);
      seconds = std::max(seconds, double(bytes) / rate);
    }
  return seconds;
}

double BoundsBuilder::portsSeconds(const PortRates &ports) const {
  double seconds = 0;
  auto atLeast = [&](uint64_t bytes, double rate) {
    seconds = std::max(seconds, double(bytes) / rate);
  };
  for (const auto &[nic, bytes] : nicIn)
    atLeast(bytes, ports.of(nic, /*interNode=*/true, /*out=*/false));
  for (const auto &[device, bytes] : islandIn)
    atLeast(bytes, ports.of(device, /*interNode=*/false, /*out=*/false));
  for (const auto &[number, node] : nodeIn) {
    double rate = 0;
    for (uint32_t nic : node.nics)
      rate += ports.of(nic, /*interNode=*/true, /*out=*/false);
    atLeast(node.bytes, rate);
  }
  for (bool inter : {false, true})
    for (const auto &[set, stage] : inter ? nicSets : islandSets) {
      double rate = 0;
      for (uint32_t port : set)
        rate += ports.of(port, inter, /*out=*/true);
      atLeast(stage.bytes, rate);
    }
  return seconds;
}

/// Whether there are messages only, and each one of a port is in a wave of its
/// own, and as fast as any. Where a library may be called, but nothing is known
/// to make its calls faster, there are none.
bool BoundsBuilder::isOneAtATime() const {
  return cluster.pairsFillPorts() && cluster.devicesPerNic == 1 &&
         cluster.collectives != CollectiveChoice::Library &&
         !cluster.hasFastCalls();
}

/// Until all that crosses has done so, and the rounds that follow; but for one.
/// Who has something brings other nodes so many seconds of a NIC in so many
/// rounds and a part of one: what it sends by its NIC, and what those do who
/// get something from it by its NIC, or by its island port. Its first message
/// is short, so that its receiver begins soon, or all that it sends.
double BoundsBuilder::crossingSeconds() const {
  double round = cluster.roundSeconds();
  if (has.empty() || !isOneAtATime() || round <= 0)
    return 0;
  double each = double(crossing.bytes) / double(has.size()) /
                cluster.portBytesPerSecond(/*interNode=*/true) / round;
  // At the whole round, and for each part of one more.
  struct Brought {
    double whole = 0, part = 0;
  } nic, island;
  uint64_t rounds = 0;
  for (; nic.whole + nic.part + island.whole + island.part < each; ++rounds) {
    Brought all = {nic.whole + island.whole, nic.part + island.part};
    Brought later = {all.whole + nic.whole, all.part + nic.part};
    bool isLong = double(rounds) >= later.whole &&
                  double(rounds) + 1 >= later.whole + later.part;
    island = {all.whole + island.whole, all.part + island.part};
    nic = isLong ? Brought{double(rounds), 1} : later;
  }
  double left = each - nic.whole - island.whole;
  double part = left > 0 ? left / (nic.part + island.part) : 0;
  return (double(rounds) + part + double(crossing.rounds) - 2) * round;
}

/// What ports carry, and the rounds that then follow or have gone before; but
/// for one.
double BoundsBuilder::stagesSeconds(const PortRates &ports) const {
  double round = cluster.roundSeconds();
  double most = crossingSeconds();
  if (longest > 0)
    most = std::max(most, double(longest - 1) * round);
  auto add = [&](const Stage &stage, const auto &set, bool inter, bool out) {
    double rate = 0;
    for (uint32_t port : set)
      rate += ports.of(port, inter, out);
    most = std::max(most, double(stage.bytes) / rate +
                              double(stage.rounds - 1) * round);
  };
  for (const auto &[set, stage] : nicSets)
    add(stage, set, /*inter=*/true, /*out=*/true);
  for (const auto &[set, stage] : islandSets)
    add(stage, set, /*inter=*/false, /*out=*/true);
  uint64_t fullest = 0; // of devices, by what they have
  for (const auto &[device, bytes] : has)
    fullest = std::max(fullest, bytes);
  for (const auto &[node, stage] : arriving) {
    const auto &nics = nodeIn.at(node).nics;
    // One NIC gets the mean or more: where nobody has that, not in one message
    // that is under way from the beginning.
    bool waits = isOneAtATime() && fullest <= (stage.bytes - 1) / nics.size();
    add({stage.bytes, stage.rounds + waits}, nics, /*inter=*/true,
        /*out=*/false);
  }
  for (const auto &[node, inside] : exchanged)
    add(inside.first, inside.second, /*inter=*/false, /*out=*/false);
  return most;
}

/// Bytes per second of a device's port on one level, or of the NIC that it
/// shares, over the fastest link that it may have.
double anyLinkRate(const Cluster &cluster, int64_t device, bool inter,
                   bool out) {
  double rate = out ? cluster.sendBytesPerSecond(inter)
                    : cluster.portBytesPerSecond(inter);
  // Of a device that sends by several NICs at once each may be the fastest.
  double atOnce =
      out && cluster.sendsByRails(inter) ? cluster.messagesPerPort(inter) : 1;
  int64_t first = cluster.port(device, inter);
  int64_t last = inter ? first + cluster.devicesPerNic : first + 1;
  for (const Link &link : cluster.links) {
    LinkEnd end = out ? link.from : link.to;
    bool isNamed = end.isNode ? end.index == cluster.node(device)
                              : end.index >= first && end.index < last;
    if (isNamed)
      rate = std::max(rate, atOnce * link.GBps * 1e9);
  }
  return rate;
}

/// Whatever is relayed over whom: what a device or a node lacks comes by its
/// ports, what a set of devices alone has leaves by theirs.
double BoundsBuilder::relayedSeconds() const {
  auto bothRates = [&](uint32_t device, bool out) {
    return anyLinkRate(cluster, device, false, out) +
           anyLinkRate(cluster, device, true, out);
  };
  double most = 0;
  for (const auto &[device, bytes] : arrives)
    most = std::max(most, double(bytes) / bothRates(device, /*out=*/false));
  for (const auto &[number, node] : nodeIn) {
    double rate = 0;
    int64_t first = number * cluster.devicesPerNode;
    for (int64_t nic = first; nic < first + cluster.devicesPerNode;
         nic += cluster.devicesPerNic)
      rate += anyLinkRate(cluster, nic, true, /*out=*/false);
    most = std::max(most, double(node.bytes) / rate);
  }
  for (const auto &[devices, bytes] : leaves) {
    double rate = 0;
    for (uint32_t device : devices)
      rate += bothRates(device, /*out=*/true);
    most = std::max(most, double(bytes) / rate);
  }
  return most;
}

Result<LowerBounds> BoundsBuilder::finish() {
  if (cluster.relays) {
    bounds.seconds = relayedSeconds();
    if (bounds.seconds > 0)
      bounds.seconds += cluster.leastWaveSeconds();
    return bounds;
  }
  PortRates ports(cluster, rates);
  DTRT_RETURN_IF_ERROR(ports.find({busy.begin(), busy.end()}));
  auto sites = findSites(cluster, rates, {busy.begin(), busy.end()});
  for (const auto &[demand, bytes] : demands) {
    occupy(demand, double(bytes));
    for (const Site &site : sites)
      occupySite(site, demand, double(bytes));
  }
  if (pairs.spent())
    return makeError("too many links to bound the time of ", busy.size(),
                     " devices");
  bounds.seconds = std::max({occupiedSeconds(), pairsSeconds(),
                             portsSeconds(ports), stagesSeconds(ports)});
  if (bounds.seconds > 0)
    bounds.seconds += cluster.leastWaveSeconds();
  return bounds;
}

} // namespace

Result<LowerBounds> lowerBounds(const LayoutCells &cells,
                                const Cluster &cluster) {
  BoundsBuilder builder(cluster);
  cells.visit([&](const LayoutCells::Cell &cell) { builder.add(cell); });
  return builder.finish();
}

} // namespace dtrt
