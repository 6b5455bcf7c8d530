//===- OldRoute.h - What of an old route is right still ---------*- C++ -*-===//
//
// A plan that was made for nearly the same layouts has chosen sources and
// forwards before. Where a box still has holders that sent it and devices that
// want it, they are kept, so that little changes and nothing is chosen twice.
//
// Kept is by box and node: all that the wanters of a node get of a box, or
// nothing. So what is kept keeps to the constraints of the routing problem
// (RoutingProblem.h) by itself, whatever is done with the rest:
//   once       the old pieces cut each wanter's part exactly
//   from       they come from holders, or from who has got them earlier, and is
//              kept too
//   crossing   what enters the node from outside is the box once, or nothing
//              where a device of the node holds it
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_OLDROUTE_H
#define DT_ROUTING_OLDROUTE_H

#include "dt/Cost/Cluster.h"
#include "dt/Routing/Moves.h"

#include <map>
#include <tuple>
#include <vector>

namespace dt {

/// A move of an old plan, in devices and flows of the new one, and the wave
/// that carried it. Its hop says nothing.
struct OldMove {
  Move move;
  int32_t wave = 0;
};

/// All moves of an old plan, by flow of the new one.
using OldMoves = std::vector<std::vector<OldMove>>;

/// Finds what carried a move in an old plan.
class OldMoveIndex {
public:
  /// `old` must outlive this.
  explicit OldMoveIndex(const OldMoves &old);

  /// The parts of it that went from the same source to the same destination,
  /// with the hop that it has now.
  std::vector<OldMove> partsOf(const Move &move) const;

private:
  std::map<std::tuple<uint32_t, int64_t, int64_t>, std::vector<const OldMove *>>
      moves; // by flow, source and destination
};

/// Who holds a box and who wants it.
struct Demanded {
  /// Ascending.
  const std::vector<int64_t> &holders;
  /// Who wants it and does not hold it, by node.
  const std::vector<std::vector<int64_t>> &wanters;
};

/// What an old route does for disjoint boxes of one flow.
class OldRoute {
public:
  OldRoute(const std::vector<OldMove> &old, const std::vector<Box> &boxes);

  struct Kept {
    std::vector<Move> moves;  // by hop
    std::vector<bool> served; // by node of the wanters
  };
  /// What is right still of how the box of that number went.
  Kept keep(size_t number, const Demanded &demanded,
            const Cluster &cluster) const;

private:
  std::vector<Box> boxes;
  std::vector<std::vector<OldMove>> parts; // by box, cut to it, by wave
};

} // namespace dt

#endif // DT_ROUTING_OLDROUTE_H
