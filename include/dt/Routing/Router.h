//===- Router.h - Who sends what to whom ------------------------*- C++ -*-===//
//
// Chooses, for every destination element, the device that it comes from: the
// device itself; else a device of the same node; else across the network, once
// per node that wants the data, balanced over all devices that have it. A
// device that has received a region may forward it (a later hop), so that one
// copy leaves the source and the wanted bytes spread as a tree; forwards are
// used where the sources' ports would otherwise become the bottleneck.
//
// Loads are kept per port (NIC and island, in and out) in seconds over all
// params. Pieces that few devices hold are routed first, of these the largest
// (longest processing time first, Graham 1969): what many hold fills the gaps.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_ROUTER_H
#define DT_ROUTING_ROUTER_H

#include "dt/Routing/RoutingSolver.h"

namespace dt {

/// Routes all flows. What no source device holds is left out.
std::optional<std::string> routeGreedily(const RoutingProblem &problem,
                                         const RouterOptions &options,
                                         Routing &routing);

/// Cuts a box into row-major consecutive boxes of at most `maxElements`
/// elements each (at least one element), outer dims first so that pieces stay
/// contiguous.
std::vector<Box> splitBox(const Box &box, int64_t maxElements);

} // namespace dt

#endif // DT_ROUTING_ROUTER_H
