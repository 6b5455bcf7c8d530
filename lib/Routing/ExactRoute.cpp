//===- ExactRoute.cpp - The best route of few deliveries ------------------===//
//
// A delivery is a box, as both sides cut it, and a device that gets it. Each
// may come from any holder of the box, or from any other device that gets it:
//
//   1. all choices of sources are gone through, delivery by delivery;
//   2. a choice in which devices wait for each other in a circle is left out,
//      and one that brings a box to a node twice, or where it is;
//   3. what is left is timed by its best schedule, and the fastest is kept.
//
// test/Problems/route-spread.json, uncut: one box, held by 0, goes to 1 in the
// same node and to 2, 4 and 6 in others.
//
//   choices                                       4 sources each     256
//   ... without circles                           trees of 5 nodes   125
//   ... in which 1 gets it from 0, not the NIC                        50
//   fastest   0 -> 1 -> 4 and 0 -> 2 -> 6                        0.742 ms
//
//===----------------------------------------------------------------------===//

#include "dt/Routing/ExactRoute.h"

#include "dt/Cost/SameSeconds.h"
#include "dt/Routing/Router.h"

#include <algorithm>
#include <limits>

using namespace dt;

namespace {

class SourceSearch {
public:
  SourceSearch(const RoutingProblem &problem, const RouterOptions &options,
               const std::vector<Move> &moves)
      : flows(problem.flows()), cluster(problem.cluster()), options(options) {
    for (const Move &move : moves)
      deliveries.push_back({move, {}});
  }

  /// The fastest moves; empty when no route has a schedule.
  std::vector<Move> run() {
    findSources();
    choose(0);
    return std::move(best);
  }

private:
  /// A box on its way to a device.
  struct Delivery {
    Move move;
    std::vector<int64_t> sources; // that may send it
  };

  void findSources();
  void choose(size_t next);
  bool setHops();
  bool crossesOnce() const;
  void judge();

  const std::vector<Flow> &flows;
  const Cluster &cluster;
  const RouterOptions &options;
  std::vector<Delivery> deliveries;
  std::vector<Move> best;
  double bestSeconds = std::numeric_limits<double>::infinity();
};

/// Holders, and the others that the same box goes to.
void SourceSearch::findSources() {
  for (Delivery &delivery : deliveries) {
    const Move &move = delivery.move;
    const CellSet &source = flows[move.flow].source;
    for (const Cell &cell : source.cells)
      if (overlaps(cell.box, move.box))
        delivery.sources = source.ownerSets[cell.owners];
    for (const Delivery &other : deliveries)
      if (other.move.flow == move.flow && other.move.box == move.box &&
          other.move.destination != move.destination)
        delivery.sources.push_back(other.move.destination);
  }
}

/// Counts how far each delivery is from a holder. False: it has none.
bool SourceSearch::setHops() {
  for (Delivery &delivery : deliveries) {
    delivery.move.hop = 0;
    const Delivery *at = &delivery;
    for (bool isHolder = false; !isHolder;) {
      isHolder = true;
      for (const Delivery &other : deliveries)
        if (other.move.flow == at->move.flow &&
            other.move.box == at->move.box &&
            other.move.destination == at->move.source) {
          at = &other;
          isHolder = false;
          break;
        }
      if (!isHolder && ++delivery.move.hop > deliveries.size())
        return false;
    }
  }
  return true;
}

/// Whether no box enters a node that has it, or twice.
bool SourceSearch::crossesOnce() const {
  for (const Delivery &delivery : deliveries) {
    const Move &move = delivery.move;
    if (cluster.sameNode(move.source, move.destination))
      continue;
    for (int64_t source : delivery.sources)
      if (cluster.sameNode(source, move.destination) &&
          std::none_of(deliveries.begin(), deliveries.end(),
                       [&](const Delivery &other) {
                         return other.move.flow == move.flow &&
                                other.move.box == move.box &&
                                other.move.destination == source &&
                                cluster.sameNode(other.move.source, source);
                       }))
        return false;
  }
  return true;
}

/// Invariant: `best` is the fastest of all choices of sources that come before
/// those of deliveries [0, next) in the order of the search.
void SourceSearch::choose(size_t next) {
  if (next < deliveries.size()) {
    for (int64_t source : deliveries[next].sources) {
      deliveries[next].move.source = source;
      choose(next + 1);
    }
    return;
  }
  if (setHops() && crossesOnce())
    judge();
}

void SourceSearch::judge() {
  std::vector<Move> moves;
  for (const Delivery &delivery : deliveries)
    moves.push_back(delivery.move);
  std::stable_sort(moves.begin(), moves.end(),
                   [](const Move &a, const Move &b) { return a.hop < b.hop; });
  double seconds = options.seconds(moves);
  if (!isFaster(seconds, bestSeconds))
    return;
  bestSeconds = seconds;
  best = std::move(moves);
}

} // namespace

std::optional<std::string> dt::routeExactly(const RoutingProblem &problem,
                                            const RouterOptions &options,
                                            Routing &routing) {
  if (!options.seconds)
    return "has nothing to time routes by, which the solver 'exact' needs";
  // The boxes as they are: whole intersections of both sides.
  RouterOptions uncut = options;
  uncut.balanceParts = 1;
  routeGreedily(problem, uncut, routing);
  size_t deliveries = routing.moves.size();
  if (deliveries > kExactDeliveries)
    return "has " + std::to_string(deliveries) +
           " deliveries, more than the limit of " +
           std::to_string(kExactDeliveries) + " for all routes";
  if (deliveries == 0)
    return std::nullopt;
  routing.moves = SourceSearch(problem, options, routing.moves).run();
  if (routing.moves.empty())
    return "has no route that can be scheduled";
  return std::nullopt;
}
