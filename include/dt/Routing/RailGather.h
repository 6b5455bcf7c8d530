//===- RailGather.h - All-gather by all NICs of a node ----------*- C++ -*-===//
//
// Every device of several nodes, each with as many, has a part that all others
// want. A part crosses to each other node once, to the device at the same place
// in it, its *rail*; what came from a node is then exchanged inside
// (NodeExchange.h), while the parts of the next node come:
//
//   between  in turn to the next node, the one after it, ..., all blocks of a
//            part each
//   inside   each device's own part, and then, node by node, what came
//
// Parts of a node's devices lie side by side, so that messages are runs where
// parts are. Three nodes of two, two blocks of a part; what device 0 gets:
//
//   round    0       1       2       3       4       5
//   between  block 0 and 1 of 4      of 2
//   inside   of 1                    of 5            of 3
//
// This takes as long as a part takes to all other nodes, and one exchange.
// Short parts take fewer rounds if they are passed on (RoundTree.h).
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_RAILGATHER_H
#define DT_ROUTING_RAILGATHER_H

#include "dt/Routing/RailTree.h"

namespace dt {

class RailGather {
public:
  using Devices = std::vector<int64_t>;

  /// Two or more of as many devices, each of which has a part.
  std::vector<Devices> nodes;

  int64_t rails() const { return int64_t(nodes.front().size()); }
  /// Parts are numbered by node and then by place. A part's cells are its
  /// blocks; a group is what comes from a node.
  RailCut cutInto(int64_t blocks, std::vector<int64_t> teams) const {
    return {blocks, int64_t(nodes.size()), std::move(teams)};
  }
  /// All that is sent, by round, but for what devices send of their own part
  /// inside their node: that may be in any.
  std::vector<RailStep> steps(const RailCut &cut) const;
  /// How parts of so many bytes are best cut with `mostSteps` at most, or into
  /// one block each.
  RailCut bestCut(int64_t partBytes, int64_t mostSteps,
                  const Cluster &cluster) const;

private:
  int64_t exchangeRounds(const RailCut &cut) const;
  void exchange(const RailCut &cut, int64_t node, int64_t from, int64_t round,
                std::vector<RailStep> &out) const;
  int64_t numSteps(const RailCut &cut) const;
  double seconds(const RailCut &cut, double partBytes,
                 const Cluster &cluster) const;
};

} // namespace dt

#endif // DT_ROUTING_RAILGATHER_H
