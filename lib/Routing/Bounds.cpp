//===- Bounds.cpp - What no schedule can go below -------------------------===//

#include "dt/Routing/CostModel.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

using namespace dt;

namespace {

using Devices = std::vector<int64_t>; // ascending

/// The fastest link of every port, over the devices of a transition.
class PortRates {
public:
  PortRates(const Cluster &cluster, const std::vector<Flow> &flows);

  /// Of ports, by the device that stands for them (Cluster::port).
  double in(int64_t port, bool inter) const {
    return cluster.links.empty() ? cluster.bytesPerSecond(inter)
                                 : fastestIn[inter].at(port);
  }
  double out(int64_t port, bool inter) const {
    return cluster.links.empty() ? cluster.bytesPerSecond(inter)
                                 : fastestOut[inter].at(port);
  }

private:
  const Cluster &cluster;
  std::map<int64_t, double> fastestIn[2], fastestOut[2];
};

PortRates::PortRates(const Cluster &cluster, const std::vector<Flow> &flows)
    : cluster(cluster) {
  if (cluster.links.empty())
    return;
  std::set<int64_t> devices;
  for (const Flow &flow : flows)
    for (const CellSet *side : {&flow.source, &flow.destination})
      for (const Devices &owners : side->ownerSets)
        devices.insert(owners.begin(), owners.end());
  for (int64_t from : devices)
    for (int64_t to : devices) {
      bool inter = !cluster.sameNode(from, to);
      double rate = cluster.bytesPerSecond(from, to);
      double &out = fastestOut[inter][cluster.port(from, inter)];
      double &in = fastestIn[inter][cluster.port(to, inter)];
      out = std::max(out, rate);
      in = std::max(in, rate);
    }
}

/// Bytes by level, device and the devices that it may exchange them with.
using LinkDemand = std::map<std::tuple<bool, int64_t, Devices>, int64_t>;

class BoundsBuilder {
public:
  BoundsBuilder(const Cluster &cluster, const std::vector<Flow> &flows)
      : cluster(cluster), rates(cluster, flows) {}

  /// Adds `bytes` held by `holders` and wanted by `wanters`, both sorted.
  void add(const Devices &holders, const Devices &wanters, int64_t bytes);
  Bounds finish() const;

private:
  void addNode(const Devices &holders, const Devices &lacking, int64_t bytes);
  void addLinks(const Devices &holders, const Devices &lacking, int64_t bytes);
  double linksSeconds() const;

  const Cluster &cluster;
  PortRates rates;
  Bounds bounds;
  Devices nicsOf(const Devices &devices) const;

  std::map<int64_t, int64_t> nicIn, islandIn;    // per port, bytes
  std::map<int64_t, int64_t> nodeIn;             // per node, over all its NICs
  std::map<int64_t, std::set<int64_t>> nodeNics; // of those who want them
  /// Bytes that some port of a set must send, over all of them.
  std::map<Devices, int64_t> nicSets, islandSets;
  LinkDemand received, sent; // with unequal links only
};

/// One node whose devices `lacking` want what they do not hold; `holders` are
/// those of the same node.
void BoundsBuilder::addNode(const Devices &holders, const Devices &lacking,
                            int64_t bytes) {
  int64_t node = cluster.node(lacking.front());
  if (!holders.empty()) {
    // Crossing the network would be one crossing too many.
    for (int64_t device : lacking)
      islandIn[device] += bytes;
    islandSets[holders] += bytes;
    return;
  }
  bounds.interNodeBytes += bytes;
  nodeIn[node] += bytes;
  Devices nics = nicsOf(lacking);
  nodeNics[node].insert(nics.begin(), nics.end());
  if (nics.size() == 1)
    nicIn[nics.front()] += bytes;
}

/// The devices that stand for the NICs of others, which are ascending.
Devices BoundsBuilder::nicsOf(const Devices &devices) const {
  Devices nics;
  for (int64_t device : devices)
    if (int64_t nic = cluster.port(device, /*interNode=*/true);
        nics.empty() || nics.back() != nic)
      nics.push_back(nic);
  return nics;
}

/// Where only one device wants the bytes, or only one has them, they come or
/// go over few links.
void BoundsBuilder::addLinks(const Devices &holders, const Devices &lacking,
                             int64_t bytes) {
  if (cluster.links.empty())
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
    if (!near.empty())
      sent[{false, holders.front(), near}] += bytes;
    if (!far.empty())
      sent[{true, holders.front(), far}] += bytes;
  }
}

void BoundsBuilder::add(const Devices &holders, const Devices &wanters,
                        int64_t bytes) {
  std::map<int64_t, Devices> lacking, holding; // by node
  Devices remote;
  for (int64_t device : holders)
    holding[cluster.node(device)].push_back(device);
  for (int64_t device : wanters) {
    if (std::binary_search(holders.begin(), holders.end(), device))
      continue;
    lacking[cluster.node(device)].push_back(device);
    remote.push_back(device);
  }
  addLinks(holders, remote, bytes);
  bool crosses = false;
  for (const auto &[node, devices] : lacking) {
    bounds.wireBytes += bytes * int64_t(devices.size());
    crosses |= !holding.count(node);
    addNode(holding[node], devices, bytes);
  }
  if (crosses)
    nicSets[nicsOf(holders)] += bytes;
}

/// A device and the devices that it exchanges bytes with share as many links.
double BoundsBuilder::linksSeconds() const {
  double seconds = 0;
  for (const LinkDemand *side : {&received, &sent})
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

Bounds BoundsBuilder::finish() const {
  Bounds out = bounds;
  out.seconds = linksSeconds();
  auto atLeast = [&](double bytes, double rate) {
    out.seconds = std::max(out.seconds, bytes / rate);
  };
  for (auto [nic, bytes] : nicIn)
    atLeast(bytes, rates.in(nic, /*inter=*/true));
  for (auto [device, bytes] : islandIn)
    atLeast(bytes, rates.in(device, /*inter=*/false));
  for (auto [node, bytes] : nodeIn) {
    double rate = 0;
    for (int64_t nic : nodeNics.at(node))
      rate += rates.in(nic, /*inter=*/true);
    atLeast(bytes, rate);
  }
  for (bool inter : {false, true})
    for (const auto &[ports, bytes] : inter ? nicSets : islandSets) {
      double rate = 0;
      for (int64_t port : ports)
        rate += rates.out(port, inter);
      atLeast(bytes, rate);
    }
  if (out.seconds > 0)
    out.seconds += cluster.latencySeconds;
  return out;
}

} // namespace

Bounds dt::computeBounds(const std::vector<Flow> &flows,
                         const Cluster &cluster) {
  BoundsBuilder builder(cluster, flows);
  for (const Flow &flow : flows) {
    std::map<std::pair<uint32_t, uint32_t>, int64_t> volumes;
    for (const CellPair &pair : join(flow.source.cells, flow.destination.cells))
      volumes[{flow.source.cells[pair.left].owners,
               flow.destination.cells[pair.right].owners}] += pair.box.volume();
    for (auto [owners, volume] : volumes)
      builder.add(flow.source.ownerSets[owners.first],
                  flow.destination.ownerSets[owners.second],
                  volume * flow.bytesPerElement);
  }
  return builder.finish();
}
