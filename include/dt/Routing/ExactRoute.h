//===- ExactRoute.h - The best route of few deliveries ----------*- C++ -*-===//
//
// All sources of every delivery are tried, devices that get the same box
// included, so that no route of whole boxes is faster as `options.seconds`
// judges.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_EXACTROUTE_H
#define DT_ROUTING_EXACTROUTE_H

#include "dt/Routing/RoutingSolver.h"

namespace dt {

/// Most boxes on their way to a device whose routes are all tried.
constexpr size_t kExactDeliveries = 4;

/// Fails on more deliveries, and without `options.seconds`.
std::optional<std::string> routeExactly(const RoutingProblem &problem,
                                        const RouterOptions &options,
                                        Routing &routing);

} // namespace dt

#endif // DT_ROUTING_EXACTROUTE_H
