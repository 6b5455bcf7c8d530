//===- BestRoute.cpp - The best of several routes -------------------------===//

#include "dt/Routing/Best.h"
#include "dt/Routing/CostModel.h"

#include <algorithm>
#include <map>

using namespace dt;

namespace {

/// Routes of more moves are not compared.
constexpr size_t kMostMoves = 2048;
/// Nor those that are predicted to take no longer than this many bounds.
constexpr double kGoodEnough = 1.01;
/// Moves scheduled per way to route.
constexpr int64_t kEffort = 100000;

class RouteSearch {
public:
  RouteSearch(const std::vector<Flow> &flows, const Cluster &cluster,
              int64_t stagingBytes, Routing &best)
      : flows(flows), cluster(cluster), stagingBytes(stagingBytes), best(best) {
  }

  /// Predicted seconds of the best so far.
  double seconds() const { return bestSeconds; }
  void judge(const std::vector<Move> &moves);
  void tryAllSources(const std::vector<Move> &moves);

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

  const std::vector<Flow> &flows;
  const Cluster &cluster;
  int64_t stagingBytes;
  Routing &best;
  double bestSeconds = 1e300;
  std::vector<Delivery> deliveries;
};

void RouteSearch::judge(const std::vector<Move> &moves) {
  std::vector<ScheduledMove> scheduled;
  int64_t needed = 0;
  if (!scheduleBest(moves, flows, cluster, stagingBytes, kEffort, scheduled,
                    needed))
    return;
  double seconds = predictSeconds(scheduled, flows, cluster);
  if (seconds >= bestSeconds * (1 - 1e-12))
    return;
  bestSeconds = seconds;
  best.moves = moves;
}

/// Holders, and the others that the same box goes to.
void RouteSearch::findSources() {
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
bool RouteSearch::setHops() {
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
bool RouteSearch::crossesOnce() const {
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

void RouteSearch::choose(size_t next) {
  if (next < deliveries.size()) {
    for (int64_t source : deliveries[next].sources) {
      deliveries[next].move.source = source;
      choose(next + 1);
    }
    return;
  }
  if (!setHops() || !crossesOnce())
    return;
  std::vector<Move> moves;
  for (const Delivery &delivery : deliveries)
    moves.push_back(delivery.move);
  std::stable_sort(moves.begin(), moves.end(),
                   [](const Move &a, const Move &b) { return a.hop < b.hop; });
  judge(moves);
}

void RouteSearch::tryAllSources(const std::vector<Move> &moves) {
  for (const Move &move : moves)
    deliveries.push_back({move, {}});
  findSources();
  choose(0);
}

/// Whether a box goes to several devices.
bool isShared(const std::vector<Move> &moves) {
  std::map<std::pair<uint32_t, Box>, int64_t> first;
  for (const Move &move : moves) {
    auto [it, isNew] =
        first.try_emplace({move.flow, move.box}, move.destination);
    if (!isNew)
      return true;
  }
  return false;
}

} // namespace

bool dt::routeBest(const std::vector<Flow> &flows, const Cluster &cluster,
                   const RouterOptions &options, int64_t stagingBytes,
                   Routing &routing, Hole &hole) {
  if (!route(flows, cluster, options, routing, hole))
    return false;
  if (routing.moves.empty() || routing.moves.size() > kMostMoves)
    return true;
  Routing other;
  auto reroute = [&](RouterOptions changed) {
    other = {};
    return route(flows, cluster, changed, other, hole);
  };
  RouterOptions uncut = options;
  uncut.balanceParts = 1;
  bool isTiny = reroute(uncut) && other.moves.size() <= kExactDeliveries;
  if (!isTiny && !isShared(routing.moves))
    return true;
  RouteSearch search(flows, cluster, stagingBytes, routing);
  search.judge(std::vector<Move>(routing.moves));
  if (isTiny)
    search.tryAllSources(other.moves);
  double enough = computeBounds(flows, cluster).seconds * kGoodEnough;
  for (Forwarding forwarding : {Forwarding::Chain, Forwarding::Tree}) {
    if (search.seconds() <= enough)
      break;
    RouterOptions changed = options;
    changed.forwarding = forwarding;
    if (reroute(changed) && other.moves.size() <= kMostMoves)
      search.judge(other.moves);
  }
  return true;
}
