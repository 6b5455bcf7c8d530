//===- Reroute.cpp - Around what an old plan routed -----------------------===//

#include "dt/Routing/Reroute.h"

#include "dt/Cost/CostModel.h"
#include "dt/Routing/BestRoute.h"
#include "dt/Routing/Router.h"

#include <algorithm>

using namespace dt;

namespace {

/// Routes of no more moves are compared by their schedules.
constexpr size_t kFewMoves = 2048;
/// A schedule needs most of what is worth keeping: routes get little.
constexpr double kEvenEnough = 1.01;

/// Seconds that the busiest port carries bytes, with what goes beside.
double busiestPort(const RoutingProblem &problem, const RouterOptions &options,
                   const Routing &routing) {
  std::vector<TimedMessage> messages;
  if (options.around)
    messages = *options.around;
  messages.reserve(messages.size() + routing.moves.size());
  for (const Move &move : routing.moves) {
    TimedMessage &message = messages.emplace_back();
    message.source = move.source;
    message.destination = move.destination;
    message.bytes =
        move.box.volume() * problem.flows()[move.flow].bytesPerElement;
  }
  PortSeconds ports = busiestPorts(messages, problem.cluster());
  return std::max(ports.nic, ports.island);
}

} // namespace

std::optional<std::string> dt::reroute(const RoutingProblem &problem,
                                       const RouterOptions &options,
                                       Routing &routing) {
  routeGreedily(problem, options, routing);
  bool areFew =
      options.seconds && !options.around && routing.moves.size() <= kFewMoves;
  double enough =
      kEvenEnough * std::max(problem.lowerBound(),
                             busiestPort(problem, options, /*routing=*/{}));
  if (!areFew && busiestPort(problem, options, routing) <= enough)
    return std::nullopt;
  RouterOptions fromZero = options;
  fromZero.old = nullptr;
  Routing other;
  if (auto error = routeBest(problem, fromZero, other))
    return error;
  auto seconds = [&](const Routing &route) {
    return areFew && !route.moves.empty()
               ? options.seconds(route.moves)
               : busiestPort(problem, options, route);
  };
  if (seconds(routing) > kEvenEnough * seconds(other))
    routing = std::move(other);
  return std::nullopt;
}
