//===- BlockGather.h - All-gather on rails by equal blocks ------*- C++ -*-===//
//
// The nodes of RailGather.h, whose devices have a part each that all others
// want. Parts are cut into equal blocks, one of which goes to another node in a
// round; and what came from a node is exchanged inside (NodeExchange.h) while
// the parts of the next node come, in messages that have no more cells than
// come of all rails in a round.
//
// Three nodes of two, two blocks of a part; what device 0 gets:
//
//   round    0       1       2       3       4       5
//   between  block 0 and 1 of 4      of 2
//   inside   of 1                    of 5            of 3
//
// All messages between nodes are alike here, and what devices send of their own
// parts names no round: so the parts of several nodes may be exchanged in one
// message each, where waves are found by chunks (Schedule.h). Where latencies
// are long, or nodes have more devices than there are nodes, that may be faster
// than rounds whose messages differ. Only their schedules tell.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_BLOCKGATHER_H
#define DT_ROUTING_BLOCKGATHER_H

#include "dt/Routing/RailTree.h"

namespace dt {

/// Into how many blocks parts are cut, and who meets in an exchange. The teams'
/// sizes multiply to the number of rails.
struct BlockCut {
  int64_t blocks = 1;
  std::vector<int64_t> teams = {};
};

class BlockGather {
public:
  using Devices = std::vector<int64_t>;

  /// Two or more of as many devices, each of which has a part.
  std::vector<Devices> nodes;

  int64_t rails() const { return int64_t(nodes.front().size()); }
  /// All that is sent, by round, but for what devices send of their own part
  /// inside their node: that may be in any. Parts are numbered by node and then
  /// by place, and a part's cells are its blocks.
  std::vector<RailStep> steps(const BlockCut &cut) const;
  /// How parts of so many bytes are best cut with `mostSteps` at most, or into
  /// one block each.
  BlockCut bestCut(int64_t partBytes, int64_t mostSteps,
                   const Cluster &cluster) const;

private:
  int64_t exchangeRounds(const BlockCut &cut) const;
  void exchange(const BlockCut &cut, int64_t node, int64_t from, int64_t round,
                std::vector<RailStep> &out) const;
  int64_t numSteps(const BlockCut &cut) const;
  double seconds(const BlockCut &cut, double partBytes,
                 const Cluster &cluster) const;
};

} // namespace dt

#endif // DT_ROUTING_BLOCKGATHER_H
