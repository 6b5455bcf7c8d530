//===- Cluster.h - The machine that a plan is made for ----------*- C++ -*-===//
//
// Two levels: devices of one node share a fast island (NVLink), nodes meet
// over NICs, one for each device or one for several. All links are full duplex:
// a port may send and receive at its full rate at once, on both levels. Single
// pairs may be faster or slower than their level.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_CLUSTER_H
#define DT_ROUTING_CLUSTER_H

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <unordered_map>
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

/// Links in the order in which they were given, found by their ends.
class ClusterLinks {
public:
  ClusterLinks() = default;
  ClusterLinks(std::initializer_list<ClusterLink> links) {
    for (const ClusterLink &link : links)
      push_back(link);
  }

  void push_back(const ClusterLink &link) {
    byEnds[keyOf(link.from, link.to)] = links.size();
    links.push_back(link);
  }
  bool empty() const { return links.empty(); }
  size_t size() const { return links.size(); }
  auto begin() const { return links.begin(); }
  auto end() const { return links.end(); }

  /// The last link from one of `from` to one of `to`, or null.
  const ClusterLink *find(std::array<ClusterLinkEnd, 2> from,
                          std::array<ClusterLinkEnd, 2> to) const {
    size_t count = 0; // of links up to the last that fits
    for (const ClusterLinkEnd &a : from)
      for (const ClusterLinkEnd &b : to)
        if (auto it = byEnds.find(keyOf(a, b)); it != byEnds.end())
          count = std::max(count, it->second + 1);
    return count == 0 ? nullptr : &links[count - 1];
  }

private:
  /// Both ends: numbers are below 2^31.
  static uint64_t keyOf(ClusterLinkEnd from, ClusterLinkEnd to) {
    auto half = [](ClusterLinkEnd end) {
      return uint64_t(end.index) << 1 | uint64_t(end.isNode);
    };
    return half(from) << 32 | half(to);
  }

  std::vector<ClusterLink> links;
  std::unordered_map<uint64_t, size_t> byEnds;
};

struct Cluster {
  int64_t devicesPerNode = 8;
  double intraBytesPerSecond = 200e9; // of one device's island port, each way
  double interBytesPerSecond = 25e9;  // of one NIC port, each way
  double latencySeconds = 10e-6;      // per message
  /// Devices that share a NIC, a divisor of devicesPerNode: consecutive ones.
  int64_t devicesPerNic = 1;
  /// Pairs that differ from their level; of several that fit, the last holds.
  ClusterLinks links;

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
};

inline double Cluster::bytesPerSecond(int64_t from, int64_t to) const {
  auto ends = [&](int64_t device) {
    return std::array<ClusterLinkEnd, 2>{
        {{false, device}, {true, node(device)}}};
  };
  if (!links.empty())
    if (const ClusterLink *link = links.find(ends(from), ends(to)))
      return link->bytesPerSecond;
  return bytesPerSecond(!sameNode(from, to));
}

} // namespace dt

#endif // DT_ROUTING_CLUSTER_H
