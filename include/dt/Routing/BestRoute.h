//===- BestRoute.h - The best of several routes -----------------*- C++ -*-===//
//
// What suits a transition shows only when its schedule is timed: several ways
// to pass data on are routed, as far as the number of moves allows, and small
// cases exactly.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_BESTROUTE_H
#define DT_ROUTING_BESTROUTE_H

#include "dt/Routing/RoutingSolver.h"

namespace dt {

/// Routes greedily. Where there are few moves and this way to forward is not
/// near the bound, other ways are timed by `options.seconds` too, and the
/// fastest is taken; without it, the greedy route is.
std::optional<std::string> routeBest(const RoutingProblem &problem,
                                     const RouterOptions &options,
                                     Routing &routing);

} // namespace dt

#endif // DT_ROUTING_BESTROUTE_H
