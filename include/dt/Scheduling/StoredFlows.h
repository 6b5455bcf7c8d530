//===- StoredFlows.h - What lies in one run of bytes ------------*- C++ -*-===//
//
// A message of one piece that is one run in a tensor of its sender is sent from
// there, and one that is a run at its receiver is received into its place. All
// others are packed into slots, and unpacked.
//
//===----------------------------------------------------------------------===//

#ifndef DT_SCHEDULING_STOREDFLOWS_H
#define DT_SCHEDULING_STOREDFLOWS_H

#include "dt/Geometry/ShardIndex.h"
#include "dt/Routing/Moves.h"

namespace dt {

struct StoredFlow {
  unsigned numStates = 1;
  /// Whether a side stores what travels in another dtype.
  bool sourceConverts = false, destinationConverts = false;
};

/// Flows and their shards.
struct StoredFlows {
  std::vector<StoredFlow> flows;
  ShardIndex source, destination;

  /// Whether what moves is one run of bytes at its sender, or at its receiver.
  bool isRun(const Move &move, bool atSender) const;
};

} // namespace dt

#endif // DT_SCHEDULING_STOREDFLOWS_H
