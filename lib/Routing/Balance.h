//===- Balance.h - Relief for the busiest senders ---------------*- C++ -*-===//

#ifndef DT_LIB_ROUTING_BALANCE_H
#define DT_LIB_ROUTING_BALANCE_H

#include "dt/Cost/CostModel.h"
#include "dt/Routing/Moves.h"

namespace dt {

/// A move that another of `holders` could send as well.
struct MovableSend {
  uint32_t move = 0; // index into the routing's moves
  const std::vector<int64_t> *holders = nullptr;
};

/// What ports carry that may change, and what may not.
struct PortsInUse {
  const std::vector<MovableSend> &sends;
  /// Messages that stay, which no send can relieve; null: none.
  const std::vector<TimedMessage> *around = nullptr;
};

/// Gives sends of the busiest ports to other holders until no port exceeds
/// `budget` seconds or the busiest one cannot be relieved. Sends stay on their
/// level. The greedy router does not see what comes after a choice; here a
/// port that is full passes one of its own sends on, along the shortest such
/// path (an augmenting path in the flow of pieces to senders).
void balanceSenders(const std::vector<Flow> &flows, const Cluster &cluster,
                    const PortsInUse &used, double budget,
                    std::vector<Move> &moves);

} // namespace dt

#endif // DT_LIB_ROUTING_BALANCE_H
