//===- TimedCollectives.h - Seconds of a library's calls --------*- C++ -*-===//

#ifndef DTRT_COST_TIMEDCOLLECTIVES_H
#define DTRT_COST_TIMEDCOLLECTIVES_H

#include "dtrt/cost/Simulation.h"
#include "dtrt/types/Collective.h"

#include <vector>

namespace dtrt {

/// A library's collective in one wave. Members ascend.
struct TimedCollective {
  int32_t wave = 0;
  CollectiveKind kind = CollectiveKind::Broadcast;
  std::vector<int64_t> members;
  int64_t root = 0; // of a broadcast
  int64_t blockBytes = 0;
};

/// Adds messages that load ports as the collective does and take as long: a
/// ring through the members, where a byte comes to a port once, in as many
/// steps as there are other members (NCCL's ring and Gloo's take these), or as
/// `multicastUs` or `copyEngineUs` of the cluster are latencies, if these are
/// fewer. An
/// all_to_all has a ring inside each node and one through the nodes, for what
/// stays in the node and what does not.
void addCollective(const TimedCollective &collective, const Cluster &cluster,
                   std::vector<TimedMessage> &messages);

/// In the order in which messages stand for predictSeconds.
void sortMessages(std::vector<TimedMessage> &messages);

} // namespace dtrt

#endif // DTRT_COST_TIMEDCOLLECTIVES_H
