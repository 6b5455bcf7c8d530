//===- SpreadRounds.h - In how many rounds copies spread --------*- C++ -*-===//
//
// A device that has a byte sends it to as many devices of its node per round as
// an island port carries messages at once, and to as many nodes as a NIC does.
// A round is a latency at least, as a device's messages of one port follow each
// other. Nodes that have it get it no more; any other node gets it once, and
// spreads it inside. With one message per port, from one device to all of 8
// nodes of 8 devices:
//
//   round                 0   1   2   3   4   5   6
//   devices that have it  1   3   9  21  34  52  64
//   nodes                 1   2   5   8   8   8   8
//
// No schedule that brings no byte twice into a node does better: the largest
// nodes come first, and all that have it send it all the time.
//
//===----------------------------------------------------------------------===//

#ifndef DT_COST_SPREADROUNDS_H
#define DT_COST_SPREADROUNDS_H

#include "dt/Cost/Cluster.h"

#include <cstdint>
#include <vector>

namespace dt {

/// Devices of a node that have a byte, and that lack it.
struct NodeCopies {
  int64_t having = 0, lacking = 0;
};

class SpreadRounds {
public:
  explicit SpreadRounds(const Cluster &cluster)
      : inside(cluster.messagesPerPort(/*interNode=*/false)),
        across(cluster.messagesPerPort(/*interNode=*/true)) {}

  /// In one node, which has some.
  int64_t ofNode(NodeCopies copies) const;
  /// In all nodes: those that have some, and the others, of so many devices
  /// each.
  int64_t toAll(const std::vector<NodeCopies> &near,
                std::vector<int64_t> far) const;

private:
  int64_t grown(NodeCopies copies, int64_t rounds) const;

  int64_t inside, across;
};

} // namespace dt

#endif // DT_COST_SPREADROUNDS_H
