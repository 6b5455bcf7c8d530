//===- Cluster.h - The machine that a plan is made for ----------*- C++ -*-===//
//
// Two levels: devices of one node share a fast island (NVLink), nodes meet
// over NICs, one for each device or one for several. All links are full duplex:
// a port may send and receive at its full rate at once, on both levels. Single
// pairs may be faster or slower than their level.
//
//===----------------------------------------------------------------------===//

#ifndef DT_COST_CLUSTER_H
#define DT_COST_CLUSTER_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dt {

/// What packing and unpacking cost a device. A pack reads and writes each byte
/// once; 1 TB/s is half of the memory bandwidth of an A100 (2 TB/s), the
/// slowest device that these plans are made for. The launch is that of a
/// kernel. Pack and unpack of one device run one after the other, beside the
/// wire.
constexpr double kPackBytesPerSecond = 1e12;
constexpr double kPackLaunchSeconds = 5e-6;
inline double packSeconds(int64_t bytes) {
  return bytes == 0 ? 0 : kPackLaunchSeconds + bytes / kPackBytesPerSecond;
}

/// One end of a link: a device, or all devices of a node.
struct ClusterLinkEnd {
  bool isNode = false;
  int64_t index = 0;
};

/// The rate from one end to the other, of every pair that fits; one way.
struct ClusterLink {
  ClusterLinkEnd from, to;
  double bytesPerSecond = 0;
};

struct Cluster {
  int64_t devicesPerNode = 8;
  double intraBytesPerSecond = 200e9; // of one device's island port, each way
  double interBytesPerSecond = 25e9;  // of one NIC port, each way
  double latencySeconds = 10e-6;      // per message
  /// Devices that share a NIC, a divisor of devicesPerNode: consecutive ones.
  int64_t devicesPerNic = 1;
  /// Pairs that differ from their level; of several that fit, the last holds.
  std::vector<ClusterLink> links;

  int64_t node(int64_t device) const { return device / devicesPerNode; }
  bool sameNode(int64_t a, int64_t b) const { return node(a) == node(b); }
  /// The device that stands for a device's port on one level: itself, or the
  /// first of those that share its NIC.
  int64_t port(int64_t device, bool interNode) const {
    return interNode ? device - device % devicesPerNic : device;
  }
  /// Rate of one level where no link says otherwise.
  double bytesPerSecond(bool interNode) const {
    return interNode ? interBytesPerSecond : intraBytesPerSecond;
  }
  /// Rate from one device to another.
  double bytesPerSecond(int64_t from, int64_t to) const;
  /// Seconds that a message occupies its ports, without latency.
  double wireSeconds(int64_t from, int64_t to, int64_t bytes) const {
    return bytes / bytesPerSecond(from, to);
  }
  /// Why this is no cluster, in one sentence: a rate that is not above 0, NICs
  /// that devices of a node do not share evenly.
  std::optional<std::string> check() const;

private:
  bool fits(const ClusterLinkEnd &end, int64_t device) const {
    return end.index == (end.isNode ? node(device) : device);
  }
};

inline double Cluster::bytesPerSecond(int64_t from, int64_t to) const {
  for (size_t i = links.size(); i-- > 0;)
    if (fits(links[i].from, from) && fits(links[i].to, to))
      return links[i].bytesPerSecond;
  return bytesPerSecond(!sameNode(from, to));
}

} // namespace dt

#endif // DT_COST_CLUSTER_H
