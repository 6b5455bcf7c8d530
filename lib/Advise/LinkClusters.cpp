//===- LinkClusters.cpp - Devices that are close to each other ------------===//
//
// Agglomerative clustering by nearest-neighbour chains: O(n^2) for complete
// linkage, and the same tree as joining the closest two each time.
//
//===----------------------------------------------------------------------===//

#include "dt/Advise/LinkClusters.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dt::advise {

namespace {

struct Join {
  int64_t a = 0, b = 0; // first devices of both islands, a < b
  double rate = 0;
};

class Tree {
public:
  explicit Tree(const Bandwidths &bandwidths) : n(bandwidths.devices) {
    near.resize(n * n);
    for (int64_t a = 0; a < n; ++a)
      for (int64_t b = 0; b < n; ++b)
        near[a * n + b] = a == b ? 0 : bandwidths.both(a, b);
  }

  /// All joins, fastest first.
  std::vector<Join> build() {
    std::vector<bool> isIsland(n, true);
    std::vector<int64_t> chain;
    std::vector<Join> joins;
    int64_t start = 0;
    while (int64_t(joins.size()) + 1 < n) {
      if (chain.empty()) {
        while (!isIsland[start])
          ++start;
        chain.push_back(start);
      }
      int64_t top = chain.back();
      int64_t before = chain.size() > 1 ? chain[chain.size() - 2] : -1;
      int64_t next = nearest(top, before, isIsland);
      if (next != before) {
        chain.push_back(next);
        continue;
      }
      chain.resize(chain.size() - 2);
      int64_t a = std::min(top, next), b = std::max(top, next);
      joins.push_back({a, b, near[a * n + b]});
      isIsland[b] = false;
      for (int64_t c = 0; c < n; ++c)
        if (c != a && isIsland[c])
          near[a * n + c] = near[c * n + a] =
              std::min(near[a * n + c], near[b * n + c]);
    }
    std::stable_sort(
        joins.begin(), joins.end(),
        [](const Join &x, const Join &y) { return x.rate > y.rate; });
    return joins;
  }

private:
  /// Of equally near islands the one before in the chain, else the first.
  int64_t nearest(int64_t of, int64_t before,
                  const std::vector<bool> &isIsland) const {
    int64_t best = before;
    for (int64_t c = 0; c < n; ++c)
      if (c != of && isIsland[c] &&
          (best < 0 || near[of * n + c] > near[of * n + best]))
        best = c;
    return best;
  }

  int64_t n;
  std::vector<double> near;
};

/// Islands that joins have made so far.
class Islands {
public:
  explicit Islands(int64_t n) : parent(n) {
    std::iota(parent.begin(), parent.end(), 0);
  }
  int64_t find(int64_t device) {
    while (parent[device] != device)
      device = parent[device] = parent[parent[device]];
    return device;
  }
  /// The first device stands for an island.
  void join(int64_t a, int64_t b) {
    a = find(a);
    b = find(b);
    parent[std::max(a, b)] = std::min(a, b);
  }
  LinkLevel level(double slowest) {
    LinkLevel out;
    out.slowest = slowest;
    for (size_t device = 0; device < parent.size(); ++device)
      out.islandOf.push_back(find(int64_t(device)));
    return out;
  }

private:
  std::vector<int64_t> parent;
};

std::vector<LinkLevel> levelsOf(const std::vector<Join> &joins, int64_t n,
                                double gap) {
  Islands islands(n);
  std::vector<LinkLevel> levels;
  for (size_t i = 0; i < joins.size(); ++i) {
    islands.join(joins[i].a, joins[i].b);
    bool isLast = i + 1 == joins.size();
    if (isLast || joins[i].rate >= gap * joins[i + 1].rate)
      levels.push_back(islands.level(joins[i].rate));
  }
  if (levels.empty())
    levels.push_back(islands.level(0));
  return levels;
}

/// Sorted by island of the loosest level first.
std::vector<int64_t> orderOf(const std::vector<LinkLevel> &levels, int64_t n) {
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    for (size_t level = levels.size(); level-- > 0;) {
      const std::vector<int64_t> &islandOf = levels[level].islandOf;
      if (islandOf[a] != islandOf[b])
        return islandOf[a] < islandOf[b];
    }
    return a < b;
  });
  return order;
}

} // namespace

std::optional<LinkClusters> clusterDevices(const Bandwidths &bandwidths,
                                           double gap, std::string &error) {
  int64_t n = bandwidths.devices;
  if (n < 1 || int64_t(bandwidths.rates.size()) != n * n) {
    error = "bandwidths of " + std::to_string(n) + " devices have " +
            std::to_string(bandwidths.rates.size()) + " entries, expected " +
            std::to_string(n * n);
    return std::nullopt;
  }
  for (int64_t a = 0; a < n; ++a)
    for (int64_t b = 0; b < n; ++b)
      if (a != b && !(bandwidths.rate(a, b) > 0 &&
                      std::isfinite(bandwidths.rate(a, b)))) {
        error = "the bandwidth from device " + std::to_string(a) + " to " +
                std::to_string(b) + " is not more than 0";
        return std::nullopt;
      }
  LinkClusters clusters;
  clusters.levels = levelsOf(Tree(bandwidths).build(), n, std::max(gap, 1.0));
  clusters.order = orderOf(clusters.levels, n);
  return clusters;
}

std::optional<DeviceGroups> groupDevices(const LinkClusters &clusters,
                                         int64_t size, int64_t count,
                                         std::string &error) {
  int64_t n = clusters.order.size();
  if (size < 1 || count < 1 || count > n / size) {
    error = std::to_string(count) + " groups of " + std::to_string(size) +
            " need more than " + std::to_string(n) + " devices";
    return std::nullopt;
  }
  std::vector<bool> isTaken(n, false);
  std::vector<std::vector<int64_t>> groups;
  DeviceGroups out;
  for (size_t level = 0; level < clusters.levels.size(); ++level) {
    const std::vector<int64_t> &islandOf = clusters.levels[level].islandOf;
    std::vector<int64_t> open;
    for (size_t i = 0; i < clusters.order.size(); ++i) {
      int64_t device = clusters.order[i];
      if (isTaken[device])
        continue;
      if (!open.empty() && islandOf[open.back()] != islandOf[device])
        open.clear();
      open.push_back(device);
      if (int64_t(open.size()) < size || int64_t(groups.size()) == count)
        continue;
      for (int64_t member : open)
        isTaken[member] = true;
      groups.push_back(std::move(open));
      open.clear();
      out.split += level > 0;
    }
  }
  // Groups of one island side by side.
  std::vector<int64_t> position(n);
  for (int64_t i = 0; i < n; ++i)
    position[clusters.order[i]] = i;
  std::stable_sort(groups.begin(), groups.end(),
                   [&](const auto &a, const auto &b) {
                     return position[a.front()] < position[b.front()];
                   });
  for (const std::vector<int64_t> &group : groups)
    out.devices.insert(out.devices.end(), group.begin(), group.end());
  return out;
}

} // namespace dt::advise
