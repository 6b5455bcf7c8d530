//===- Bounds.cpp - What no schedule can go below -------------------------===//

#include "dt/Cost/Bounds.h"

#include <algorithm>

using namespace dt;

namespace {

/// The fastest link of every port, over some devices.
class PortRates {
public:
  PortRates(const Cluster &cluster, const std::set<int64_t> &devices);

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

PortRates::PortRates(const Cluster &cluster, const std::set<int64_t> &devices)
    : cluster(cluster) {
  if (cluster.links.empty())
    return;
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

} // namespace

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
BoundsBuilder::Devices BoundsBuilder::nicsOf(const Devices &devices) const {
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
  if (cluster.links.empty() || lacking.empty())
    return;
  devices.insert(holders.begin(), holders.end());
  devices.insert(lacking.begin(), lacking.end());
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
  PortRates rates(cluster, devices);
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
    out.seconds += cluster.latencySeconds();
  return out;
}
