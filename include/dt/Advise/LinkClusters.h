//===- LinkClusters.h - Devices that are close to each other ----*- C++ -*-===//
//
// From measured bandwidths: which devices form islands, on how many levels, and
// in which order to count them so that neighbours in rank are near. Islands are
// joined by the slowest pair inside (complete linkage): every pair of one
// island has its level's bandwidth. A level is a gap: where joining the next
// two islands would cost a factor of the bandwidth.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ADVISE_LINKCLUSTERS_H
#define DT_ADVISE_LINKCLUSTERS_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dt::advise {

/// Bandwidth of each ordered pair, row-major, in any unit; the diagonal does
/// not count.
struct Bandwidths {
  int64_t devices = 0;
  std::vector<double> rates;

  double rate(int64_t from, int64_t to) const {
    return rates[from * devices + to];
  }
  /// The slower way of a pair.
  double both(int64_t a, int64_t b) const {
    return rate(a, b) < rate(b, a) ? rate(a, b) : rate(b, a);
  }
};

/// Islands of one level.
struct LinkLevel {
  double slowest = 0;            // of any pair inside an island
  std::vector<int64_t> islandOf; // per device, numbered by first device
};

struct LinkClusters {
  /// Tightest first; the last level is all devices together.
  std::vector<LinkLevel> levels;
  /// Devices, islands of every level together, in order of first device.
  std::vector<int64_t> order;
};

/// `gap`: bandwidths that differ by less are one level.
std::optional<LinkClusters> clusterDevices(const Bandwidths &bandwidths,
                                           double gap, std::string &error);

struct DeviceGroups {
  std::vector<int64_t> devices; // group after group
  int64_t split = 0;            // groups that no tightest island holds
};

/// `count` groups of `size` devices for the heaviest axis: each inside one
/// island of the tightest level that still has room, groups of one island side
/// by side. Fails when there are too few devices.
std::optional<DeviceGroups> groupDevices(const LinkClusters &clusters,
                                         int64_t size, int64_t count,
                                         std::string &error);

} // namespace dt::advise

#endif // DT_ADVISE_LINKCLUSTERS_H
