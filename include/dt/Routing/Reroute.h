//===- Reroute.h - Around what an old plan routed ---------------*- C++ -*-===//

#ifndef DT_ROUTING_REROUTE_H
#define DT_ROUTING_REROUTE_H

#include "dt/Routing/RoutingSolver.h"

namespace dt {

/// Keeps of `options.old` what is right still. Where that loads a port clearly
/// more than the bound, or where there are few moves, all is routed from
/// zero too, and taken where that is clearly faster.
std::optional<std::string> reroute(const RoutingProblem &problem,
                                   const RouterOptions &options,
                                   Routing &routing);

} // namespace dt

#endif // DT_ROUTING_REROUTE_H
