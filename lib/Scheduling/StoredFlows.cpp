//===- StoredFlows.cpp - What lies in one run of bytes --------------------===//

#include "dt/Scheduling/StoredFlows.h"

using namespace dt;

bool StoredFlows::isRun(const Move &move, bool atSender) const {
  const StoredFlow &flow = flows[move.flow];
  if (flow.numStates != 1)
    return false;
  for (unsigned d = 0; d < flow.numLeading; ++d)
    if (move.box[d].size() != 1)
      return false;
  std::optional<ShardIndex::Found> found;
  if (atSender)
    found = source.find(move.flow, move.source, move.box);
  bool converts = found ? flow.sourceConverts : flow.destinationConverts;
  // A forward is read from where its own receive put it.
  if (!found)
    found = destination.find(
        move.flow, atSender ? move.source : move.destination, move.box);
  return found && !converts && isContiguous(found->view);
}
