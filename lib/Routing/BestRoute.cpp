//===- BestRoute.cpp - The best of several routes -------------------------===//
//
//   1. The greedy route that spreads items is the first.
//   2. Where there are few deliveries, all their sources are tried.
//   3. Where a box goes to several devices and the best so far takes more than
//      1 % above the bound, items go along chains, then along trees, then in
//      rounds.
//   4. The first of those that are equally fast is kept; the first of all where
//      that is too long to be timed.
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

using namespace dt;

namespace {

/// Routes of more moves are not compared, but for rounds, which are looked for
/// where the greedy route has at most twice as many: they cut what is long.
constexpr size_t kMostMoves = 2048, kMostRoundMoves = 16384;
/// Nor those that are predicted to take no longer than this many bounds.
constexpr double kGoodEnough = 1.01;

/// Keeps the fastest of the routes that it is shown.
class RouteChoice {
public:
  RouteChoice(const RouterOptions &options, Routing &best)
      : options(options), best(best), bestSeconds(options.seconds(best.moves)) {
  }

  double seconds() const { return bestSeconds; }
  /// Whether the first route could be timed.
  bool canCompare() const { return std::isfinite(bestSeconds); }
  void judge(Routing &other) {
    double seconds = options.seconds(other.moves);
    if (!isFaster(seconds, bestSeconds))
      return;
    bestSeconds = seconds;
    best = std::move(other);
  }

private:
  const RouterOptions &options;
  Routing &best;
  double bestSeconds;
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

} // namespace

std::optional<std::string> dt::routeBest(const RoutingProblem &problem,
                                         const RouterOptions &options,
                                         Routing &routing) {
  routeGreedily(problem, options, routing);
  if (!options.seconds || routing.moves.empty() ||
      routing.moves.size() > 2 * kMostMoves)
    return std::nullopt;
  Routing exact, other;
  bool isTiny = !routeExactly(problem, options, exact);
  if (!isTiny && !isShared(routing.moves))
    return std::nullopt;
  auto forward = [&](Forwarding forwarding) {
    RouterOptions changed = options;
    changed.forwarding = forwarding;
    changed.mostRoundMoves = kMostRoundMoves;
    routeGreedily(problem, changed, other);
    // Rounds keep to their limit, but where boxes cut to more pieces than
    // named.
    bool isRounds = forwarding == Forwarding::Rounds;
    return other.moves.size() <= (isRounds ? 2 * kMostRoundMoves : kMostMoves);
  };
  // Timing a long route is for nothing where rounds are too many.
  bool isLong = routing.moves.size() > kMostMoves;
  if (isLong && !forward(Forwarding::Rounds))
    return std::nullopt;
  RouteChoice choice(options, routing);
  if (!choice.canCompare())
    return std::nullopt;
  if (isTiny)
    choice.judge(exact);
  double enough = problem.lowerBound() * kGoodEnough;
  // Invariant: `routing` is the fastest of the routes so far, and takes
  // `choice.seconds()`.
  if (isLong && choice.seconds() > enough)
    choice.judge(other);
  if (isLong)
    return std::nullopt;
  for (Forwarding forwarding :
       {Forwarding::Chain, Forwarding::Tree, Forwarding::Rounds})
    if (choice.seconds() > enough && forward(forwarding))
      choice.judge(other);
  return std::nullopt;
}
