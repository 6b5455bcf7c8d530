//===- Bounds.cpp - What no schedule can go below -------------------------===//

#include "dt/Cost/Bounds.h"

#include "dt/Cost/SpreadBytes.h"
#include "dt/Cost/SpreadRounds.h"
#include "dtrt/cost/LinkRates.h"
#include "dtrt/cost/Sites.h"

#include <algorithm>
#include <map>
#include <tuple>

using namespace dt;

namespace {

/// The fastest link of every port, over some devices.
class PortRates {
public:
  PortRates(const Cluster &cluster, const std::set<int64_t> &devices);

  /// Of ports, by the device that stands for them (Cluster::port, sendPort).
  double in(int64_t port, bool inter) const {
    return cluster.links.empty() ? cluster.portBytesPerSecond(inter)
                                 : fastestIn[inter].at(port);
  }
  double out(int64_t port, bool inter) const {
    return cluster.links.empty() ? cluster.sendBytesPerSecond(inter)
                                 : fastestOut[inter].at(port);
  }

private:
  const Cluster &cluster;
  std::map<int64_t, double> fastestIn[2], fastestOut[2];
};

PortRates::PortRates(const Cluster &cluster, const std::set<int64_t> &devices)
    : cluster(cluster) {
  if (cluster.links.empty())
    return;
  for (int64_t from : devices)
    for (int64_t to : devices) {
      bool inter = !cluster.sameNode(from, to);
      double &out = fastestOut[inter][cluster.sendPort(from, inter)];
      double &in = fastestIn[inter][cluster.port(to, inter)];
      out = std::max(out, cluster.sendBytesPerSecond(from, to));
      in = std::max(in, cluster.portBytesPerSecond(from, to));
    }
}

using Devices = BoundsBuilder::Devices;

/// By whose NICs bytes leave the nodes that have them: those of holders, and of
/// devices beside them that lack the bytes, which may pass them on. All ascend.
Devices sendersOf(const Cluster &cluster, const Devices &holders,
                  const Devices &lacking) {
  std::set<int64_t> nodes;
  for (int64_t device : holders)
    nodes.insert(cluster.node(device));
  Devices senders = holders;
  for (int64_t device : lacking)
    if (nodes.count(cluster.node(device)))
      senders.push_back(device);
  std::sort(senders.begin(), senders.end());
  return senders;
}

/// The devices that stand for the ports by which others, which are ascending,
/// send on a level, or receive.
Devices portsOf(const Cluster &cluster, const Devices &devices, bool inter,
                bool send) {
  Devices ports;
  for (int64_t device : devices)
    if (int64_t port = send ? cluster.sendPort(device, inter)
                            : cluster.port(device, inter);
        ports.empty() || ports.back() != port)
      ports.push_back(port);
  return ports;
}

/// For how long ports are busy over unequal links, each byte over the fastest
/// link that it can take.
class BusyPorts {
public:
  explicit BusyPorts(const Cluster &cluster)
      : cluster(cluster), rates(cluster) {}

  /// `lacking` is none of `holders`; both are ascending.
  void add(const Devices &holders, const Devices &lacking, int64_t bytes);
  /// What the nodes of a site lack, as far as none of them has it, crosses to
  /// it once.
  void addSite(const dtrt::Site &site, const Devices &holders,
               const Devices &lacking, int64_t bytes);
  std::vector<dtrt::Site> sites(const std::set<int64_t> &devices) const {
    return findSites(cluster, rates, {devices.begin(), devices.end()});
  }
  /// Of the busiest port, or the mean of the busiest set of ports, but those of
  /// sites.
  double seconds() const;
  double siteSeconds() const;

private:
  using ByNode = std::map<int64_t, Devices>;

  ByNode split(const Devices &devices) const;
  void addInside(const Devices &holders, const Devices &lacking, double bytes);
  void addAcross(const Devices &others, const Devices &lacking, double bytes);
  using Rate = double (dtrt::LinkRates::*)(int64_t, int64_t) const;
  double fastest(const Devices &from, const Devices &to,
                 Rate rate = &dtrt::LinkRates::portBytesPerSecond) const;
  Devices kinds(const Devices &devices) const;

  const Cluster &cluster;
  const dtrt::LinkRates rates;
  /// By level, whether they send, and ports.
  std::map<std::tuple<bool, bool, Devices>, double> busy;
  /// What a node receives, and by which NICs; and a site.
  using Received = std::pair<double, std::set<int64_t>>;
  std::map<int64_t, Received> nodes;
  std::map<dtrt::Site, Received> intoSites;
};

BusyPorts::ByNode BusyPorts::split(const Devices &devices) const {
  ByNode out;
  for (int64_t device : devices)
    out[cluster.node(device)].push_back(device);
  return out;
}

/// One of all that links name in the same way: of those that none names alone,
/// the first of each node that some name, and the first of all others.
Devices BusyPorts::kinds(const Devices &devices) const {
  Devices out;
  std::set<int64_t> seen; // nodes; -1: not named
  for (int64_t device : devices)
    if (rates.isNamedAlone(device) ||
        seen.insert(rates.isNamed(device, /*asSource=*/true) ||
                            rates.isNamed(device, /*asSource=*/false)
                        ? cluster.node(device)
                        : -1)
            .second)
      out.push_back(device);
  return out;
}

/// In bytes per second. All pairs are on one level.
double BusyPorts::fastest(const Devices &from, const Devices &to,
                          Rate rate) const {
  double best = 0;
  Devices receivers = kinds(to);
  for (int64_t source : kinds(from))
    for (int64_t destination : receivers)
      best = std::max(best, (rates.*rate)(source, destination));
  return best;
}

/// What some of a node hold and others of it lack.
void BusyPorts::addInside(const Devices &holders, const Devices &lacking,
                          double bytes) {
  busy[{false, true, holders}] += bytes / fastest(holders, lacking);
  for (int64_t device : lacking) {
    Devices others = holders;
    for (int64_t other : lacking)
      if (other != device)
        others.push_back(other);
    busy[{false, false, {device}}] += bytes / fastest(others, {device});
  }
}

/// What a node lacks, from devices of other nodes that hold it or lack it too.
void BusyPorts::addAcross(const Devices &others, const Devices &lacking,
                          double bytes) {
  double seconds = bytes / fastest(others, lacking);
  Devices nics = portsOf(cluster, lacking, /*inter=*/true, /*send=*/false);
  auto &[sum, all] = nodes[cluster.node(lacking.front())];
  sum += seconds;
  all.insert(nics.begin(), nics.end());
  if (nics.size() == 1)
    busy[{true, false, nics}] += seconds;
}

void BusyPorts::add(const Devices &holders, const Devices &lacking,
                    int64_t bytes) {
  ByNode holding = split(holders), wanting = split(lacking);
  Devices remote; // no device of their node holds it
  for (const auto &[node, devices] : wanting) {
    if (auto near = holding.find(node); near != holding.end()) {
      addInside(near->second, devices, double(bytes));
      continue;
    }
    remote.insert(remote.end(), devices.begin(), devices.end());
    Devices others = holders;
    for (int64_t device : lacking)
      if (cluster.node(device) != node)
        others.push_back(device);
    addAcross(others, devices, double(bytes));
  }
  if (remote.empty())
    return;
  Devices senders = sendersOf(cluster, holders, lacking);
  Devices nics = portsOf(cluster, senders, /*inter=*/true, /*send=*/true);
  busy[{true, true, nics}] +=
      double(bytes) /
      fastest(senders, remote, &dtrt::LinkRates::sendBytesPerSecond);
}

void BusyPorts::addSite(const dtrt::Site &site, const Devices &holders,
                        const Devices &lacking, int64_t bytes) {
  auto isInside = [&](int64_t device) {
    return std::binary_search(site.begin(), site.end(), cluster.node(device));
  };
  if (std::any_of(holders.begin(), holders.end(), isInside))
    return;
  Devices senders = holders, wanting;
  for (int64_t device : lacking)
    (isInside(device) ? wanting : senders).push_back(device);
  if (wanting.empty())
    return;
  Devices nics = portsOf(cluster, wanting, /*inter=*/true, /*send=*/false);
  auto &[sum, all] = intoSites[site];
  sum += double(bytes) / fastest(senders, wanting);
  all.insert(nics.begin(), nics.end());
}

double BusyPorts::seconds() const {
  double most = 0;
  for (const auto &[ports, seconds] : busy)
    most = std::max(most, seconds / double(std::get<Devices>(ports).size()));
  for (const auto &[node, received] : nodes)
    most = std::max(most, received.first / double(received.second.size()));
  return most;
}

double BusyPorts::siteSeconds() const {
  double most = 0;
  for (const auto &[site, received] : intoSites)
    most = std::max(most, received.first / double(received.second.size()));
  return most;
}

} // namespace

/// What devices of one node get from others of it, in the last of so many
/// rounds or later.
void BoundsBuilder::addInside(const Devices &devices, int64_t bytes,
                              int64_t rounds) {
  auto &[load, all] = insideNodes[cluster.node(devices.front())];
  load.add(bytes, rounds);
  all.insert(devices.begin(), devices.end());
}

/// One node whose devices `lacking` want what they do not hold; `holders` are
/// those of the same node.
void BoundsBuilder::addNode(const Devices &holders, const Devices &lacking,
                            int64_t bytes) {
  int64_t node = cluster.node(lacking.front());
  if (!holders.empty()) {
    // Crossing the network would be one crossing too many.
    for (int64_t device : lacking)
      islandIn[device] += bytes;
    int64_t rounds = SpreadRounds(cluster).ofNode(
        {int64_t(holders.size()), int64_t(lacking.size())});
    islandSets[holders].add(bytes, rounds);
    addInside(lacking, bytes * int64_t(lacking.size()), /*rounds=*/1);
    return;
  }
  bounds.interNodeBytes += bytes;
  int64_t others = int64_t(lacking.size()) - 1;
  int64_t rounds = 1 + SpreadRounds(cluster).ofNode({1, others});
  nodeIn[node].add(bytes, rounds);
  crossing.add(bytes, rounds);
  if (others > 0)
    addInside(lacking, bytes * others, /*rounds=*/2);
  Devices nics = portsOf(cluster, lacking, /*inter=*/true, /*send=*/false);
  nodeNics[node].insert(nics.begin(), nics.end());
  if (nics.size() == 1)
    nicIn[nics.front()] += bytes;
}

/// Where only one device wants the bytes, or only one has them, they come or
/// go between few pairs.
void BoundsBuilder::addPairs(const Devices &holders, const Devices &lacking,
                             int64_t bytes) {
  if (cluster.channelsPerPeer == 0 || lacking.empty())
    return;
  auto split = [&](int64_t device, const Devices &others) {
    std::pair<Devices, Devices> out; // of the same node, of others
    for (int64_t other : others)
      (cluster.sameNode(other, device) ? out.first : out.second)
          .push_back(other);
    return out;
  };
  if (lacking.size() == 1) {
    auto [near, far] = split(lacking.front(), holders);
    bool inter = near.empty();
    received[{inter, lacking.front(), inter ? far : near}] += bytes;
  }
  if (holders.size() == 1) {
    auto [near, far] = split(holders.front(), lacking);
    if (!near.empty()) // who may pass it on to the others
      sent[{false, holders.front(), near}] += bytes;
    else if (!far.empty())
      sent[{true, holders.front(), far}] += bytes;
  }
}

/// Of nodes that hold something, and the sizes of those that only lack it.
static std::pair<std::vector<NodeCopies>, std::vector<int64_t>>
copiesOf(const BoundsBuilder::ByNode &holding,
         const BoundsBuilder::ByNode &lacking) {
  std::vector<NodeCopies> near;
  std::vector<int64_t> far;
  for (const auto &[node, devices] : holding) {
    auto found = lacking.find(node);
    bool lacks = found != lacking.end();
    near.push_back(
        {int64_t(devices.size()), lacks ? int64_t(found->second.size()) : 0});
  }
  for (const auto &[node, devices] : lacking)
    if (!holding.count(node))
      far.push_back(int64_t(devices.size()));
  return {std::move(near), std::move(far)};
}

void BoundsBuilder::add(const Devices &holders, const Devices &wanters,
                        int64_t bytes) {
  ByNode lacking, holding;
  Devices remote;
  for (int64_t device : holders)
    holding[cluster.node(device)].push_back(device);
  for (int64_t device : wanters) {
    if (std::binary_search(holders.begin(), holders.end(), device))
      continue;
    lacking[cluster.node(device)].push_back(device);
    remote.push_back(device);
  }
  if (!cluster.links.empty() && !remote.empty()) {
    devices.insert(holders.begin(), holders.end());
    devices.insert(remote.begin(), remote.end());
    demands[{holders, remote}] += bytes;
  }
  addPairs(holders, remote, bytes);
  if (cluster.relays && !remote.empty()) {
    for (int64_t device : remote)
      comes[device] += bytes;
    goes[holders] += bytes;
  }
  bool crosses = false;
  for (const auto &[node, devices] : lacking) {
    bounds.wireBytes += bytes * int64_t(devices.size());
    auto found = holding.find(node);
    crosses |= found == holding.end();
    addNode(found == holding.end() ? Devices() : found->second, devices, bytes);
  }
  SpreadRounds spread(cluster);
  auto [near, far] = copiesOf(holding, lacking);
  mostRounds = std::max(mostRounds, spread.toAll(near, far));
  if (!crosses)
    return;
  for (int64_t device : holders)
    mostHeld = std::max(mostHeld, held[device] += bytes);
  // What leaves these nodes last may have come to all of their devices before.
  for (NodeCopies &copies : near)
    copies = {copies.having + copies.lacking, 0};
  nicSets[portsOf(cluster, sendersOf(cluster, holders, remote),
                  /*inter=*/true, /*send=*/true)]
      .add(bytes, spread.toAll(near, far));
}

/// A device and the devices that it exchanges bytes with are as many pairs.
double BoundsBuilder::pairsSeconds() const {
  double seconds = 0;
  for (const PairDemand *side : {&received, &sent})
    for (const auto &[key, bytes] : *side) {
      const auto &[inter, device, others] = key;
      double rate = 0;
      for (int64_t other : others)
        rate += side == &received ? cluster.bytesPerSecond(other, device)
                                  : cluster.bytesPerSecond(device, other);
      seconds = std::max(seconds, bytes / rate);
    }
  return seconds;
}

/// Whether all goes in messages, of which a port carries one at a time, each in
/// a wave of its own, at the rate of its level.
static bool carriesOneAtATime(const Cluster &cluster) {
  return cluster.pairsFillPorts() && cluster.devicesPerNic == 1 &&
         cluster.collectives != dtrt::CollectiveChoice::Library &&
         !cluster.hasFastCalls();
}

/// Until all that crosses between nodes has come to one device of each, and the
/// rounds that then follow; but for one.
double BoundsBuilder::crossingSeconds() const {
  double round = cluster.roundSeconds();
  if (held.empty() || round <= 0 || !carriesOneAtATime(cluster))
    return 0;
  double perHolder = double(crossing.bytes) / double(held.size()) /
                     cluster.portBytesPerSecond(/*interNode=*/true);
  return spreadSeconds(perHolder, round) + double(crossing.rounds - 2) * round;
}

/// Whether no device has as much as the NICs that carry the load have at least,
/// one of them: what comes by it is two messages, or has come to its sender
/// before.
bool BoundsBuilder::isShortOf(const Load &load, size_t nics) const {
  return carriesOneAtATime(cluster) &&
         mostHeld <= (load.bytes - 1) / int64_t(nics);
}

namespace {

/// Rate of all that reaches a device on a level, or leaves it, whoever its peer
/// is: of its level, or of a link that names it or who shares its NIC.
double rateWithAnyone(const Cluster &cluster, int64_t device, bool inter,
                      bool send) {
  int64_t port = cluster.port(device, inter);
  auto names = [&](LinkEnd end) {
    return end.isNode ? cluster.node(device) == end.index
                      : cluster.port(end.index, inter) == port;
  };
  double fastest = 0;
  for (const Link &link : cluster.links)
    if (names(send ? link.from : link.to))
      fastest = std::max(fastest, link.GBps * 1e9);
  if (send && cluster.sendsByRails(inter))
    fastest *= double(cluster.messagesPerPort(inter));
  return std::max(fastest, send ? cluster.sendBytesPerSecond(inter)
                                : cluster.portBytesPerSecond(inter));
}

} // namespace

/// Messages may take any way, so only ports count.
double BoundsBuilder::relayedSeconds() const {
  double seconds = 0;
  auto rate = [&](int64_t device, bool send) {
    return rateWithAnyone(cluster, device, /*inter=*/false, send) +
           rateWithAnyone(cluster, device, /*inter=*/true, send);
  };
  for (auto [device, bytes] : comes)
    seconds = std::max(seconds, double(bytes) / rate(device, /*send=*/false));
  for (const auto &[node, load] : nodeIn) {
    double nics = 0;
    for (int64_t i = 0; i < cluster.devicesPerNode; i += cluster.devicesPerNic)
      nics += rateWithAnyone(cluster, node * cluster.devicesPerNode + i,
                             /*inter=*/true, /*send=*/false);
    seconds = std::max(seconds, double(load.bytes) / nics);
  }
  for (const auto &[holders, bytes] : goes) {
    double all = 0;
    for (int64_t device : holders)
      all += rate(device, /*send=*/true);
    seconds = std::max(seconds, double(bytes) / all);
  }
  return seconds;
}

Bounds BoundsBuilder::finish() const {
  Bounds out = bounds;
  if (cluster.relays) {
    out.seconds = relayedSeconds();
    out.portSeconds = out.seconds;
    if (out.seconds > 0)
      out.seconds += cluster.leastWaveSeconds();
    out.oneRoundSeconds = out.seconds;
    return out;
  }
  BusyPorts busy(cluster);
  std::vector<dtrt::Site> sites = busy.sites(devices);
  for (const auto &[demand, bytes] : demands) {
    busy.add(demand.first, demand.second, bytes);
    for (const dtrt::Site &site : sites)
      busy.addSite(site, demand.first, demand.second, bytes);
  }
  out.seconds = std::max(busy.seconds(), pairsSeconds());
  PortRates rates(cluster, devices);
  auto atLeast = [&](double bytes, double rate) {
    out.seconds = std::max(out.seconds, bytes / rate);
  };
  for (auto [nic, bytes] : nicIn)
    atLeast(bytes, rates.in(nic, /*inter=*/true));
  for (auto [device, bytes] : islandIn)
    atLeast(bytes, rates.in(device, /*inter=*/false));
  // Of bytes that come in several rounds.
  double inRounds = 0;
  auto thenRounds = [&](const Load &load, double rate) {
    inRounds = std::max(inRounds,
                        double(load.bytes) / rate +
                            double(load.rounds - 1) * cluster.roundSeconds());
  };
  for (const auto &[node, load] : nodeIn) {
    const std::set<int64_t> &nics = nodeNics.at(node);
    double rate = 0;
    for (int64_t nic : nics)
      rate += rates.in(nic, /*inter=*/true);
    atLeast(double(load.bytes), rate);
    thenRounds({load.bytes, load.rounds + isShortOf(load, nics.size())}, rate);
  }
  for (bool inter : {false, true})
    for (const auto &[ports, load] : inter ? nicSets : islandSets) {
      double rate = 0;
      for (int64_t port : ports)
        rate += rates.out(port, inter);
      atLeast(double(load.bytes), rate);
      thenRounds(load, rate);
    }
  for (const auto &[node, inside] : insideNodes) {
    double rate = 0;
    for (int64_t device : inside.second)
      rate += rates.in(device, /*inter=*/false);
    thenRounds(inside.first, rate);
  }
  inRounds = std::max({inRounds, crossingSeconds(),
                       double(mostRounds - 1) * cluster.roundSeconds()});
  out.portSeconds = out.seconds;
  out.seconds = std::max(out.seconds, busy.siteSeconds());
  if (out.seconds == 0)
    return out;
  out.oneRoundSeconds = out.seconds + cluster.leastWaveSeconds();
  out.seconds = std::max(out.seconds, inRounds) + cluster.leastWaveSeconds();
  return out;
}
