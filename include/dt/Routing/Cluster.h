//===- Cluster.h - The machine that a plan is made for ----------*- C++ -*-===//
//
// Two levels: devices of one node share a fast island (NVLink), nodes meet
// over one NIC port per device. All links are full duplex: a device may send
// and receive at its full rate at once, on both levels.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_CLUSTER_H
#define DT_ROUTING_CLUSTER_H

#include <cstdint>

namespace dt {

struct Cluster {
  int64_t devicesPerNode = 8;
  double intraBytesPerSecond = 200e9; // of one device's island port, each way
  double interBytesPerSecond = 25e9;  // of one device's NIC port, each way
  double latencySeconds = 10e-6;      // per message

  int64_t node(int64_t device) const { return device / devicesPerNode; }
  bool sameNode(int64_t a, int64_t b) const { return node(a) == node(b); }
  double bytesPerSecond(bool interNode) const {
    return interNode ? interBytesPerSecond : intraBytesPerSecond;
  }
};

} // namespace dt

#endif // DT_ROUTING_CLUSTER_H
