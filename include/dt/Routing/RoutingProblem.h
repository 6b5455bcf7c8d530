//===- RoutingProblem.h - Who sends what to whom: the question --*- C++ -*-===//
//
// Devices hold regions of tensors and want others. A routing names, for every
// wanted element, the device that it comes from.
//
// **Instance.** Per flow (a tensor and the states of it with one layout) the
// cells that devices hold and those that they want, and the bytes that an
// element has on the wire; the cluster; the bytes of staging per device, which
// bound how long the messages of a later schedule may be.
//
// **Solution.** Copies of what a device holds itself, and moves from device to
// device. A move of hop 0 comes from a device that holds the box from the
// start, one of hop k from a device that got it at lower hops.
//
// **Constraints.**
//   once       every wanted element of every device arrives once, and nothing
//              else does
//   from       copies and moves of hop 0 read what their device holds; a move
//              of hop k reads what all comes to its device at lower hops
//   needless   nothing is sent to a device that holds it
//   crossing   an element enters a node from outside once at most, and never
//              when a device of the node holds it
// The last two make the bytes of any solution the least possible, those of
// `bounds()`: solutions differ in time alone.
//
// **Objective.** The seconds that the best schedule of the moves takes
// (WaveProblem.h). Data migration with cloning, as it is known for storage, is
// NP-hard even where every piece takes one round (Khuller, Kim and Wan,
// Algorithms for data migration with cloning, SIAM J. Comput. 33, 2004).
// Solvers balance ports instead: a schedule comes near the busiest port
// (Gonzalez and Sahni 1976), and the least load of senders is a flow problem.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_ROUTINGPROBLEM_H
#define DT_ROUTING_ROUTINGPROBLEM_H

#include "dt/Cost/Bounds.h"
#include "dt/Routing/Moves.h"

#include <optional>
#include <string>

namespace dt {

/// A solution.
struct Routing {
  std::vector<Move> moves; // a forward stands after the move that feeds it
  std::vector<LocalMove> locals;
};

/// A box of flow `flow` that devices want and no source device holds.
struct Hole {
  uint32_t flow = 0;
  int64_t device = 0; // one that wants it
  Box box;
};

class RoutingProblem {
public:
  RoutingProblem() = default;
  RoutingProblem(std::vector<Flow> flows, Cluster cluster, int64_t stagingBytes)
      : allFlows(std::move(flows)), machine(std::move(cluster)),
        staging(stagingBytes) {}

  const std::vector<Flow> &flows() const { return allFlows; }
  const Cluster &cluster() const { return machine; }
  int64_t stagingBytes() const { return staging; } // per device

  /// Why this is no instance, in one sentence that names the flow: a cell that
  /// is empty or meets another, owners that are not sorted, a width below 1,
  /// bytes beyond int64, a hole.
  std::optional<std::string> check() const;
  /// The first box that no source device holds. Cells must be sound but for
  /// that.
  const std::optional<Hole> &hole() const;

  /// Which constraint a routing breaks, in one sentence that names flow and
  /// device. Knows nothing of how it was made; the instance is sound.
  std::optional<std::string> verify(const Routing &routing) const;

  /// What every routing costs at least; `hole()` comes at the same price.
  const Bounds &bounds() const;
  /// In seconds, latency counted.
  double lowerBound() const { return bounds().oneRoundSeconds; }

private:
  struct Joined {
    Bounds bounds;
    std::optional<Hole> hole;
  };
  const Joined &joined() const;

  std::vector<Flow> allFlows;
  Cluster machine;
  int64_t staging = 0;
  mutable std::optional<Joined> known; // what both sides joined say
};

/// What every routing of `flows` costs at least.
Bounds computeBounds(const std::vector<Flow> &flows, const Cluster &cluster);

} // namespace dt

#endif // DT_ROUTING_ROUTINGPROBLEM_H
