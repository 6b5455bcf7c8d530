//===- RoutingSolver.h - What answers routing problems ----------*- C++ -*-===//
//
// Solvers are guests: they know the problem, and nobody trusts their answers.
//
//   greedy  item by item to the least loaded holder    Router.h     any size
//   exact   all sources of all deliveries              ExactRoute.h few moves
//   best    the fastest of greedy ones and the exact   BestRoute.h  any size
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_ROUTINGSOLVER_H
#define DT_ROUTING_ROUTINGSOLVER_H

#include "dt/Cost/CostModel.h"
#include "dt/Routing/OldRoute.h"
#include "dt/Routing/RoutingProblem.h"

#include <functional>

namespace dt {

/// How receivers of one piece pass it on, once their node's holder or the
/// source has no time left for all of them.
enum class Forwarding {
  Spread, // each piece enters at another device, which sends it to the others
  Chain,  // each device sends it to one other: long data, few devices
  Tree,   // all that have it send it at once: short data
  Rounds, // each device sends and receives a block per round (RoundTree.h):
          // data of middling length
  Rails,  // the same, a share of it by each NIC of a node (RailTree.h): several
          // devices on each of several nodes
  RailBlocks, // an all-gather on rails by equal blocks (BlockGather.h)
};

inline bool isOnRails(Forwarding forwarding) {
  return forwarding == Forwarding::Rails ||
         forwarding == Forwarding::RailBlocks;
}

struct RouterOptions {
  /// Pieces with a choice of route are cut until none is larger than the
  /// busiest device's traffic divided by this, so that loads can be balanced.
  int64_t balanceParts = 64;
  /// No piece is cut below this many bytes for balance.
  int64_t minPieceBytes = 1 << 20;
  Forwarding forwarding = Forwarding::Spread;
  /// In rounds, and on rails, no more moves are made than this, or one block of
  /// each piece.
  int64_t mostRoundMoves = 16384;
  /// Rails have to take less than this part of the time of other ways: they
  /// make many more moves, whose order is another one when they are scheduled
  /// for good.
  double railPart = 0.9;
  /// Likewise rails that make no more moves.
  double fewMovesPart = 1;
  /// Seconds of the best schedule of a route. Who compares routes asks it.
  std::function<double(const std::vector<Move> &)> seconds = {};
  /// A plan that was made before: what is right still of its route is kept, and
  /// the rest is routed around it. By flow; none: all is routed.
  const OldMoves *old = nullptr;
  /// Messages that go beside what is routed: of their ports' time no route has
  /// any. Null: none.
  const std::vector<TimedMessage> *around = nullptr;
};

/// Fills `routing`, or says in one sentence why it cannot. The problem is
/// sound (RoutingProblem::check); the answer is for verify() to judge.
using RoutingSolver = std::optional<std::string> (*)(
    const RoutingProblem &problem, const RouterOptions &options,
    Routing &routing);

/// The solver of that name; nullptr when there is none.
RoutingSolver findRoutingSolver(const std::string &name);
/// "greedy, exact, best", for errors and help.
std::string routingSolverNames();

} // namespace dt

#endif // DT_ROUTING_ROUTINGSOLVER_H
