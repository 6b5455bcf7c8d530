//===- RouteSchedule.h - From routes to waves -------------------*- C++ -*-===//

#ifndef DT_SCHEDULING_ROUTESCHEDULE_H
#define DT_SCHEDULING_ROUTESCHEDULE_H

#include "dt/Routing/RoutingProblem.h"
#include "dt/Scheduling/WaveProblem.h"

namespace dt {

/// Bytes per element of each flow, as it travels.
std::vector<int64_t> elementBytes(const std::vector<Flow> &flows);

/// The waves that some moves of a routing problem need; copies need none.
WaveProblem waveProblem(const RoutingProblem &problem, std::vector<Move> moves);

/// Seconds of the best schedule of a route, infinite when it has none: what
/// routers compare routes by (RouterOptions::seconds). `stored` says what is
/// one run of bytes; null: nothing is.
double routeSeconds(const RoutingProblem &problem,
                    const std::vector<Move> &moves,
                    const StoredFlows *stored = nullptr);

} // namespace dt

#endif // DT_SCHEDULING_ROUTESCHEDULE_H
