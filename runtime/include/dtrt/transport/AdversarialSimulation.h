//===- AdversarialSimulation.h - Groups without data or threads -*- C++ -*-===//

#ifndef DTRT_TRANSPORT_ADVERSARIALSIMULATION_H
#define DTRT_TRANSPORT_ADVERSARIALSIMULATION_H

#include "dtrt/cost/KernelPlans.h"
#include "dtrt/types/Status.h"

#include <vector>

namespace dtrt {

/// Groups of one rank, in order. Peers are ranks.
using RankGroups = std::vector<std::vector<GroupOperation>>;

/// Runs the groups of all ranks without data or threads. An error says which
/// rank is stuck, and on whom it waits. Ranks are numbered node by node, with
/// `perNode` on each; the last node may have fewer.
Status simulateGroups(const std::vector<RankGroups> &ranks, uint32_t perNode,
                      const Adversary &adversary, uint64_t seed);

} // namespace dtrt

#endif // DTRT_TRANSPORT_ADVERSARIALSIMULATION_H
