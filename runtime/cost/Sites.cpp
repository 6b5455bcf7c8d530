//===- Sites.cpp - Nodes that are near each other -------------------------===//

#include "dtrt/cost/Sites.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

using namespace dtrt;

namespace {

constexpr size_t kMostNamed = 32;

/// Nodes that are looked at as one: one that is named, or all others.
struct Place {
  int64_t device = 0; // which stands for it
  Site nodes;
};

class Merges {
public:
  explicit Merges(size_t count) : parents(count) {
    std::iota(parents.begin(), parents.end(), size_t(0));
  }

  size_t root(size_t at) const {
    while (parents[at] != at)
      at = parents[at];
    return at;
  }
  /// Whether they were apart.
  bool merge(size_t one, size_t other) {
    size_t into = root(one), from = root(other);
    parents[from] = into;
    return into != from;
  }

private:
  std::vector<size_t> parents;
};

/// None where links name too many nodes.
std::vector<Place> findPlaces(const Cluster &cluster, const LinkRates &rates,
                              const std::vector<int64_t> &devices) {
  std::vector<Place> places;
  std::optional<Place> rest;
  for (size_t first = 0, last = 0; first < devices.size(); first = last) {
    int64_t node = cluster.node(devices[first]);
    bool isNamed = false;
    for (; last < devices.size() && cluster.node(devices[last]) == node; ++last)
      isNamed = isNamed || rates.isNamed(devices[last], /*asSource=*/true) ||
                rates.isNamed(devices[last], /*asSource=*/false);
    if (isNamed) {
      if (places.size() == kMostNamed)
        return {};
      places.push_back({devices[first], {node}});
      continue;
    }
    if (!rest)
      rest = Place{devices[first], {}};
    rest->nodes.push_back(node);
  }
  if (rest)
    places.push_back(std::move(*rest));
  return places;
}

Site nodesOf(const std::vector<Place> &places, const Merges &merges,
             size_t root) {
  Site nodes;
  for (size_t at = 0; at < places.size(); ++at)
    if (merges.root(at) == root)
      nodes.insert(nodes.end(), places[at].nodes.begin(),
                   places[at].nodes.end());
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

} // namespace

std::vector<Site> dtrt::findSites(const Cluster &cluster,
                                  const LinkRates &rates,
                                  const std::vector<int64_t> &devices) {
  std::vector<Place> places = findPlaces(cluster, rates, devices);
  std::map<double, std::vector<std::pair<size_t, size_t>>> pairs; // by rate
  size_t count = 0;                                               // of nodes
  for (size_t one = 0; one < places.size(); ++one) {
    count += places[one].nodes.size();
    for (size_t other = 0; other < one; ++other) {
      int64_t a = places[one].device, b = places[other].device;
      pairs[std::min(rates.portBytesPerSecond(a, b),
                     rates.portBytesPerSecond(b, a))]
          .push_back({one, other});
    }
  }
  std::vector<Site> sites;
  Merges merges(places.size());
  for (auto at = pairs.rbegin(); at != pairs.rend(); ++at) {
    std::vector<size_t> changed;
    for (auto [one, other] : at->second)
      if (merges.merge(one, other))
        changed.push_back(one);
    std::vector<size_t> roots;
    for (size_t one : changed)
      roots.push_back(merges.root(one));
    std::sort(roots.begin(), roots.end());
    roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
    for (size_t root : roots)
      if (Site nodes = nodesOf(places, merges, root); nodes.size() < count)
        sites.push_back(std::move(nodes));
  }
  return sites;
}
