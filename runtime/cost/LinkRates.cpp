//===- LinkRates.cpp - The rates of a cluster's links ---------------------===//

#include "dtrt/cost/LinkRates.h"

#include <algorithm>
#include <optional>

namespace dtrt {

LinkRates::LinkRates(const Cluster &cluster) : cluster(cluster) {
  for (size_t i = 0; i < cluster.links.size(); ++i) {
    const Link &link = cluster.links[i];
    End from = {link.from.isNode, link.from.index};
    End to = {link.to.isNode, link.to.index};
    last[{from, to}] = i;
    sources.insert(from);
    targets.insert(to);
  }
}

double LinkRates::bytesPerSecond(int64_t from, int64_t to) const {
  return std::min(linkBytesPerSecond(from, to),
                  cluster.channelsBytesPerSecond(!cluster.sameNode(from, to)));
}

double LinkRates::portBytesPerSecond(int64_t from, int64_t to) const {
  bool inter = !cluster.sameNode(from, to);
  return std::min(linkBytesPerSecond(from, to),
                  double(cluster.messagesPerPort(inter)) *
                      cluster.channelsBytesPerSecond(inter));
}

double LinkRates::sendBytesPerSecond(int64_t from, int64_t to) const {
  bool inter = !cluster.sameNode(from, to);
  return cluster.sendsByRails(inter)
             ? double(cluster.messagesPerPort(inter)) * bytesPerSecond(from, to)
             : portBytesPerSecond(from, to);
}

double LinkRates::nicOutBytesPerSecond(int64_t from, int64_t to) const {
  bool inter = !cluster.sameNode(from, to);
  return cluster.sendsByRails(inter) && cluster.messagesPerPort(inter) > 1
             ? linkBytesPerSecond(from, to)
             : portBytesPerSecond(from, to);
}

double LinkRates::linkBytesPerSecond(int64_t from, int64_t to) const {
  if (last.empty())
    return cluster.levelBytesPerSecond(!cluster.sameNode(from, to));
  std::optional<size_t> found; // later ones hold
  for (bool fromNode : {false, true})
    for (bool toNode : {false, true}) {
      auto at = last.find({end(fromNode, from), end(toNode, to)});
      if (at != last.end())
        found = std::max(found, std::optional<size_t>(at->second));
    }
  return found ? cluster.links[*found].GBps * 1e9
               : cluster.levelBytesPerSecond(!cluster.sameNode(from, to));
}

bool LinkRates::isNamed(int64_t device, bool asSource) const {
  const std::set<End> &ends = asSource ? sources : targets;
  return ends.count(end(false, device)) || ends.count(end(true, device));
}

bool LinkRates::isNamedAlone(int64_t device) const {
  End own = end(false, device);
  return sources.count(own) || targets.count(own);
}

} // namespace dtrt
