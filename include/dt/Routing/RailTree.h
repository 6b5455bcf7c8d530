//===- RailTree.h - A share of the data by each NIC of a node ---*- C++ -*-===//
//
// A multicast to several devices on each of several nodes. A node has one NIC
// for each device, or for few: so the data is cut into as many shares, *rails*,
// as each node has devices with a NIC of their own that want it. It moves in
// three stages, which share the rounds:
//
//   scatter   where a holder's node has to send rails that the holder's own NIC
//             does not carry: all that the node lacks goes from the holder to
//             the others in rounds, and first to those whose rails need it
//             (lib/Routing/NodeScatter.h)
//   rails     each rail goes from its sender to one device of each other node,
//             block after block, in rounds
//   gather    in each of these nodes all devices exchange what came
//
// Rails are n-block broadcasts in the fewest rounds (Circulant.h, which has the
// sources). That each level carries at its full rate, and that both overlap, is
// the pipelined form of the scatter and all-gather of MPI libraries (Thakur,
// Rabenseifner and Gropp, Optimization of collective communication operations
// in MPICH, 2005) on two levels.
//
// The gather is by *groups* of blocks (lib/Routing/NodeExchange.h), whose rails
// lie side by side, so that a message is a run. A group has as many blocks as
// its gather has rounds: one is gathered while the next one comes, and its
// messages are no longer than the blocks beside them. Or it has more, so that
// what comes late does not delay the next. The last one has nothing beside it,
// and is gathered in the fewest rounds.
//
// Two nodes of two devices, 0 holds two blocks of each of two rails; a group of
// one block. Cells of a group are numbered by rail, then by block.
//
//   cells   group 0: 0 (rail 0), 1 (rail 1); group 1: 2 (rail 0), 3 (rail 1)
//
//   round    0            1            2            3
//   scatter  0->1 [0,2)   0->1 [2,4)
//   rail 0                1->2 [0,1)   1->2 [2,3)
//   rail 1   0->3 [1,2)   0->3 [3,4)
//   gather                             2->3 [0,1)   2->3 [2,3)
//                                      3->2 [1,2)   3->2 [3,4)
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_RAILTREE_H
#define DT_ROUTING_RAILTREE_H

#include "dt/Cost/Cluster.h"

#include <cstdint>
#include <map>
#include <vector>

namespace dt {

/// Cells [first, last), a run, that one device sends another.
struct RailStep {
  int64_t first = 0, last = 0;
  int64_t round = 0;
  int64_t source = 0, destination = 0;
};

/// How the data is cut: each rail into blocks, these into groups, of which the
/// ends are named, and who meets in a gather. The teams' sizes multiply to the
/// number of rails.
struct RailCut {
  int64_t blocks = 1;
  std::vector<int64_t> ends = {1};
  std::vector<int64_t> teams = {};

  int64_t groups() const { return int64_t(ends.size()); }
};

class RailTree {
public:
  using Devices = std::vector<int64_t>;

  /// Who sends rails to other nodes, one each. Holds the data, or is one of
  /// `holding`.
  Devices senders;
  /// Nodes of holders whose other devices lack the data; the first is a holder.
  std::vector<Devices> holding;
  /// Nodes that lack it, one at least. The first devices get a rail each.
  std::vector<Devices> nodes;

  int64_t rails() const { return int64_t(senders.size()); }
  /// Cells of a cut: blocks of all rails. They are alike, and stand in the
  /// order in which runs are made of them.
  int64_t cells(const RailCut &cut) const { return cut.blocks * rails(); }

  /// Into so many blocks, and groups of as many as their gather has rounds, the
  /// first one of what is left; where they are even, no smaller than that.
  RailCut cutInto(int64_t blocks, std::vector<int64_t> teams,
                  bool areEven = false) const;
  /// All that is sent, by round. A device sends a cell in a later round than it
  /// gets it. Per round and level it sends one run at most, and receives one.
  std::vector<RailStep> steps(const RailCut &cut) const;
  /// Rounds that these take, but for those by which the first blocks of a
  /// broadcast may be late: log2 of its members, in each stage.
  int64_t rounds(const RailCut &cut) const;
  /// How `bytes` are best cut with `mostSteps` at most, or into one block: what
  /// takes the fewest seconds, nothing being packed.
  RailCut bestCut(int64_t bytes, int64_t mostSteps,
                  const Cluster &cluster) const;

private:
  struct Span {
    int64_t first = 0, last = 0;
  };

  Devices sendersByRail(const RailCut &cut) const;
  static Span group(const RailCut &cut, int64_t number);
  static int64_t mostBlocks(const RailCut &cut); // of a group
  int64_t cellOf(const RailCut &cut, int64_t rail, int64_t block) const;
  int64_t gatherRounds(const RailCut &cut, const Devices &node) const;
  int64_t longestGather(const RailCut &cut) const;
  std::vector<int64_t> teamsOf(const RailCut &cut, Span blocks) const;
  int64_t lastGather() const;
  int64_t start(const RailCut &cut) const;
  int64_t numSteps(const RailCut &cut) const;
  double roundSeconds(const RailCut &cut, double outside, double inside) const;
  double estimate(const RailCut &cut, double bytes,
                  const Cluster &cluster) const;
  double seconds(const RailCut &cut, double bytes,
                 const Cluster &cluster) const;
  void scatter(const RailCut &cut, const Devices &node,
               std::map<int64_t, std::vector<int64_t>> &near,
               std::vector<RailStep> &out) const;
  void gather(const RailCut &cut, const Devices &node, Span blocks,
              int64_t round, std::vector<RailStep> &out) const;
  void gatherNode(const RailCut &cut, size_t node,
                  const std::vector<std::vector<int64_t>> &arrived,
                  std::vector<RailStep> &out) const;
};

} // namespace dt

#endif // DT_ROUTING_RAILTREE_H
