//===- RailGather.h - All-gather by all NICs of a node ----------*- C++ -*-===//
//
// Every device of several nodes, each with as many, has a part that all others
// want. A part crosses to each other node once, to the device at the same place
// in it, its *rail*; what came from a node is then exchanged inside
// (NodeExchange.h), while the parts of the next node come:
//
//   between  in turn to the next node, the one after it, ..., so many cells of
//            a part each round as take as long as what goes inside beside them
//   inside   each device's own part, and then, node by node, what came
//
// Parts of a node's devices lie side by side, so that messages are runs where
// whole parts are exchanged. The last exchange has nothing beside it: so the
// parts of the last nodes may be exchanged by *slices* while the next slice
// comes, each by its holder to all others, which takes more rounds.
//
// Three nodes of two, two cells of a part; what device 0 gets:
//
//   round    0                  1                  2
//   between  both cells of 4    both of 2
//   inside   of 1               of 5               of 3
//
// This takes as long as a part takes to all other nodes, and one exchange.
//
// Short parts take fewer rounds by *node*, where devices of a node are a power
// of two and nodes are no more than these:
//
//   within   all of a node get all parts of it: in teams that double, the half
//            of the others' that its sender is not in, so that all is a run
//   between  the device at a node's place sends it all that its own node has,
//            its own part first, the others a round after they came
//   inside   each device has another node's parts, and all exchange them in
//            teams that double, in one message or, around their own, in two
//
// Shorter ones are best passed on with their senders' own (RoundTree.h).
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_RAILGATHER_H
#define DT_ROUTING_RAILGATHER_H

#include "dt/Routing/RailTree.h"

namespace dt {

/// How parts are cut: into cells, which slices are of. By how far a node is,
/// the first by 1: how many of its parts' cells each slice has. Where there are
/// none, parts are of one cell and go by node.
struct GatherCut {
  int64_t cells = 1;
  std::vector<std::vector<int64_t>> slices = {};
  /// Cells inside nodes that take as long as one between them.
  double inside = 1;
};

class RailGather {
public:
  using Devices = std::vector<int64_t>;

  /// Two or more of as many devices, each of which has a part.
  std::vector<Devices> nodes;

  int64_t rails() const { return int64_t(nodes.front().size()); }
  /// Into how many cells parts are best cut where they can be cut anywhere.
  int64_t usualCells() const;
  /// Whole parts, but those of the nodes so far away as `firstCut` and farther
  /// in so many slices, or as many as there are cells; the last slice of all
  /// once more in two where it is halved. `inside`: GatherCut's.
  GatherCut cutInto(int64_t cells, int64_t slices, int64_t firstCut,
                    bool halvesLast, double inside) const;
  /// All that is sent, by round, but for what devices send of their own part
  /// inside their node: that may be in any. Parts are numbered by node and then
  /// by place, and cells by part.
  std::vector<RailStep> steps(const GatherCut &cut) const;
  /// How parts of so many bytes and cells are best cut with `mostSteps` at
  /// most, or not into slices.
  GatherCut bestCut(int64_t partBytes, int64_t mostSteps, int64_t cells,
                    const Cluster &cluster) const;

private:
  /// What goes in a round at each device: cells [first, last) of its own part
  /// to the node so far `away`; and inside, of the parts of the node so far
  /// `from`, or of its own where that is 0.
  struct Round {
    int64_t away = 0, first = 0, last = 0;
    int64_t from = -1, begin = 0, end = 0;
    int64_t step = 0, parts = 1; // of an exchange
    int64_t cellsInside() const { return parts * (end - begin); }
  };

  bool canGoByNode() const;
  std::vector<RailStep> within() const;
  std::vector<RailStep> between(const std::vector<RailStep> &within) const;
  std::vector<RailStep> byNode() const;
  void exchangeNodes(int64_t round, std::vector<RailStep> &out) const;
  std::vector<Round> exchange(const GatherCut &cut) const;
  std::vector<Round> rounds(const GatherCut &cut) const;
  void addInside(const GatherCut &cut, const Round &round, int64_t number,
                 std::vector<RailStep> &out) const;
  double seconds(const GatherCut &cut, double partBytes,
                 const Cluster &cluster) const;
  double secondsByNode(double partBytes, const Cluster &cluster) const;
};

} // namespace dt

#endif // DT_ROUTING_RAILGATHER_H
