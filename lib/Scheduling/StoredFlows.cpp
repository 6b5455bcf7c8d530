//===- StoredFlows.cpp - What lies in one run of bytes --------------------===//

#include "dt/Scheduling/StoredFlows.h"

using namespace dt;

bool StoredFlows::isRun(const Move &move, bool atSender) const {
  const StoredFlow &flow = flows[move.flow];
  if (flow.numStates != 1)
    return false;
  int64_t device = atSender ? move.source : move.destination;
  const ShardIndex *index = &source;
  std::optional<uint32_t> number;
  if (atSender)
    number = source.findNumber(move.flow, device, move.box);
  // A forward is read from where its own receive put it.
  if (!number) {
    index = &destination;
    number = destination.findNumber(move.flow, device, move.box);
  }
  bool converts =
      index == &source ? flow.sourceConverts : flow.destinationConverts;
  return number && !converts &&
         isOneRun(*index->shardsOf(device)[*number].shard, move.box);
}
