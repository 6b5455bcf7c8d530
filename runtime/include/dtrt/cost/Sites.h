//===- Sites.h - Nodes that are near each other -----------------*- C++ -*-===//

#ifndef DTRT_COST_SITES_H
#define DTRT_COST_SITES_H

#include "dtrt/cost/LinkRates.h"

#include <cstdint>
#include <vector>

namespace dtrt {

/// Node numbers, ascending.
using Site = std::vector<int64_t>;

/// The sets of two nodes or more that have faster links among themselves, both
/// ways, than to all others: single linkage, with the merges of Kruskal's
/// algorithm. Of the nodes of `devices`, which are ascending, as links between
/// the first ones of each say; nodes that no link names are one. Not the set of
/// all nodes; none at all where links name more than 32 of them.
std::vector<Site> findSites(const Cluster &cluster, const LinkRates &rates,
                            const std::vector<int64_t> &devices);

} // namespace dtrt

#endif // DTRT_COST_SITES_H
