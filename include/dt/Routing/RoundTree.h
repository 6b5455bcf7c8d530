//===- RoundTree.h - Blocks from a root to nodes and devices ----*- C++ -*-===//
//
// A broadcast in rounds (Circulant.h) on two levels: from the root to one
// device of each node that lacks the data, and in each node from that device to
// the others, which it begins as soon as it has a block for every round to
// come. Blocks are alike, so that inside a node they go in the order in which
// they came there. Both levels share the rounds: a device may send and receive
// on either in one.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_ROUNDTREE_H
#define DT_ROUTING_ROUNDTREE_H

#include "dt/Cost/Cluster.h"

#include <cstdint>
#include <vector>

namespace dt {

/// A block that one device sends another.
struct BlockStep {
  int64_t block = 0;
  int64_t round = 0;
  int64_t source = 0, destination = 0;
};

struct RoundTree {
  using Devices = std::vector<int64_t>;

  int64_t root = 0;
  /// Devices that lack the data; the first gets it from another node.
  std::vector<Devices> nodes;
  /// The same in nodes of holders: the first is a holder.
  std::vector<Devices> holding;

  /// All that is sent, by round; a device sends a block in a later round than
  /// it receives it, and per round and level one block at most, as it receives.
  std::vector<BlockStep> steps(int64_t blocks) const;
  /// Rounds beyond one per block.
  int64_t delay() const;
  /// Into how many blocks `bytes` are best cut, `most` at most: the fewest
  /// seconds of (blocks + delay) x (latency + bytes of a block over the rate).
  int64_t bestBlocks(int64_t bytes, int64_t most, const Cluster &cluster) const;
};

} // namespace dt

#endif // DT_ROUTING_ROUNDTREE_H
