//===- BestRoute.cpp - The best of several routes -------------------------===//
//
//   1. The greedy route that spreads items is the first.
//   2. Where there are few deliveries, all their sources are tried. Where no
//      box goes to several devices, and latencies count, boxes are also left
//      whole.
//   3. Where a box goes to several devices and the best so far takes more than
//      1 % above the bound, items go along chains, then along trees, then in
//      rounds, then on rails. All-gathers go on rails in two ways.
//   4. The first of those that are equally fast is kept. Where the first of all
//      is too long to be timed, another one has to come near the bound.
//
// test/Problems/route-spread.json, 12 MB for four devices, bound 0.490 ms:
//
//   spread   0.694 ms   kept
//   exact    0.742 ms   0 -> 1 -> 4, 0 -> 2 -> 6
//
//===----------------------------------------------------------------------===//

#include "dt/Routing/BestRoute.h"

#include "dt/Cost/SameSeconds.h"
#include "dt/Routing/ExactRoute.h"
#include "dt/Routing/Router.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

using namespace dt;

namespace {

/// Routes of more moves are not compared, but for rounds, which are looked for
/// where the greedy route has at most twice as many: they cut what is long. And
/// for rails, which are looked for where it has few boxes too.
constexpr size_t kMostMoves = 2048, kMostRoundMoves = 16384;
constexpr size_t kFewBoxes = 256, kMostRailMoves = 131072;
/// Where the first route is too long to be timed, one that takes no longer than
/// this many bounds is taken.
constexpr double kGoodForLong = 1.4;
/// Nor those that are predicted to take no longer than this many bounds.
constexpr double kGoodEnough = 1.01;

/// Keeps the fastest of the routes that it is shown. Rails come after all other
/// ways.
class RouteChoice {
public:
  /// `longSeconds`: what counts for the first where it cannot be timed.
  RouteChoice(const RouterOptions &options, Routing &best, double longSeconds)
      : options(options), best(best), bestSeconds(options.seconds(best.moves)) {
    if (!std::isfinite(bestSeconds))
      bestSeconds = longSeconds;
    countOther();
  }

  /// Whether one that is forwarded so may be taken; `bound` is that of all.
  bool canGain(Forwarding forwarding, double bound) const {
    double part = isOnRails(forwarding) ? options.fewMovesPart : 1;
    return bestSeconds > bound * kGoodEnough && otherSeconds * part > bound;
  }
  void judge(Routing &route, Forwarding forwarding) {
    bool isRail = isOnRails(forwarding);
    double seconds = options.seconds(route.moves);
    if (!isFaster(seconds, bestSeconds) ||
        (isRail && !isFaster(seconds, mostForRails(route))))
      return;
    bestSeconds = seconds;
    best = std::move(route);
    if (!isRail)
      countOther();
  }

private:
  void countOther() {
    otherSeconds = bestSeconds;
    otherMoves = best.moves.size();
  }
  double mostForRails(const Routing &route) const {
    return otherSeconds * (route.moves.size() <= otherMoves
                               ? options.fewMovesPart
                               : options.railPart);
  }

  const RouterOptions &options;
  Routing &best;
  double bestSeconds;
  /// Of the best that is not on rails.
  double otherSeconds = 0;
  size_t otherMoves = 0;
};

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

bool hasFewBoxes(const std::vector<Move> &moves) {
  std::set<std::pair<uint32_t, Box>> boxes;
  for (const Move &move : moves)
    if (boxes.emplace(move.flow, move.box); boxes.size() > kFewBoxes)
      return false;
  return true;
}

/// The ways of forwarding that are worth trying after the first route.
std::vector<Forwarding> waysFor(const Routing &first) {
  if (first.moves.size() <= kMostMoves)
    return {Forwarding::Chain, Forwarding::Tree, Forwarding::Rounds,
            Forwarding::Rails, Forwarding::RailBlocks};
  if (first.moves.size() <= 2 * kMostMoves)
    return {Forwarding::Rounds, Forwarding::Rails, Forwarding::RailBlocks};
  if (hasFewBoxes(first.moves))
    return {Forwarding::Rails, Forwarding::RailBlocks};
  return {};
}

/// False where there is no such route, or one of too many moves.
bool routeForwarding(const RoutingProblem &problem,
                     const RouterOptions &options, Forwarding forwarding,
                     Routing &routing) {
  RouterOptions changed = options;
  changed.forwarding = forwarding;
  changed.mostRoundMoves =
      isOnRails(forwarding) ? kMostRailMoves : kMostRoundMoves;
  if (routeGreedily(problem, changed, routing))
    return false;
  // Rounds keep to their limit, but where boxes cut to more pieces than named.
  bool isRounds = isOnRails(forwarding) || forwarding == Forwarding::Rounds;
  size_t most = isRounds ? 2 * size_t(changed.mostRoundMoves) : kMostMoves;
  return routing.moves.size() <= most;
}

/// Takes the route that cuts nothing for balance where that is faster: a device
/// that gets little waits for fewer latencies.
void takeUncut(const RoutingProblem &problem, const RouterOptions &options,
               Routing &routing) {
  constexpr double kFewLatencies = 64;
  double bound = problem.lowerBound();
  if (routing.moves.size() > kMostMoves ||
      bound > kFewLatencies * problem.cluster().waveSeconds())
    return;
  RouterOptions changed = options;
  changed.balanceParts = 1;
  Routing uncut;
  if (!routeGreedily(problem, changed, uncut) &&
      uncut.moves.size() < routing.moves.size())
    RouteChoice(options, routing, kGoodForLong * bound)
        .judge(uncut, Forwarding::Spread);
}

} // namespace

std::optional<std::string> dt::routeBest(const RoutingProblem &problem,
                                         const RouterOptions &options,
                                         Routing &routing) {
  routeGreedily(problem, options, routing);
  if (!options.seconds || routing.moves.empty())
    return std::nullopt;
  std::vector<Forwarding> ways = waysFor(routing);
  if (ways.empty())
    return std::nullopt;
  Routing exact, other;
  bool isTiny = !routeExactly(problem, options, exact);
  if (!isTiny && !isShared(routing.moves)) {
    takeUncut(problem, options, routing);
    return std::nullopt;
  }
  // Timing a long route is for nothing where there is no other.
  bool isLong = routing.moves.size() > kMostMoves;
  while (isLong && !routeForwarding(problem, options, ways.front(), other)) {
    ways.erase(ways.begin());
    if (ways.empty())
      return std::nullopt;
  }
  double bound = problem.lowerBound();
  RouteChoice choice(options, routing, kGoodForLong * bound);
  if (isTiny)
    choice.judge(exact, Forwarding::Spread);
  // Invariant: `routing` is the fastest of the routes so far.
  if (isLong && choice.canGain(ways.front(), bound))
    choice.judge(other, ways.front());
  ways.erase(ways.begin(), ways.begin() + isLong);
  for (Forwarding forwarding : ways)
    if (choice.canGain(forwarding, bound) &&
        routeForwarding(problem, options, forwarding, other))
      choice.judge(other, forwarding);
  return std::nullopt;
}
