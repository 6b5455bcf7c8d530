//===- Summary.cpp - The numbers that a plan states -----------------------===//

#include "dt/Emit/Summary.h"

#include "dt/Emit/Multicasts.h"
#include "dt/Routing/RoutingProblem.h"

#include <algorithm>
#include <set>

using namespace dt;

namespace {

int64_t shardBytes(const Shard &shard, int64_t bytesPerElement) {
  return shard.numMembers() * shard.elementsPerMember() * bytesPerElement;
}

} // namespace

std::map<int64_t, DeviceBytes>
dt::deviceBytes(const ScheduledTransition &transition) {
  std::map<int64_t, DeviceBytes> out;
  for (size_t flow = 0; flow < transition.flows.size(); ++flow) {
    const Flow &widths = transition.flows[flow];
    for (const Holding &holding : transition.sourceHoldings[flow])
      for (int64_t device : holding.devices)
        out[device].source += shardBytes(holding.shard, widths.sourceBytes);
    for (const Holding &holding : transition.destinationHoldings[flow])
      for (int64_t device : holding.devices)
        out[device].destination +=
            shardBytes(holding.shard, widths.destinationBytes);
  }
  for (auto [device, bytes] : transition.arenaBytes)
    out[device].staging = bytes;
  return out;
}

dtrt::PlanSummary dt::summarize(const ScheduledTransition &transition,
                                const Cluster &cluster) {
  dtrt::PlanSummary out;
  Bounds bounds = computeBounds(transition.flows, cluster);
  out.bytesWireLowerBound = bounds.wireBytes;
  out.bytesInterNodeLowerBound = bounds.interNodeBytes;
  out.timeLowerBound = bounds.seconds;
  out.timePredicted = predictSeconds(timed(transition.messages), cluster);
  auto storedBytes = [&](uint32_t flow, const Box &box) {
    return box.volume() * transition.flows[flow].destinationBytes;
  };
  for (const auto *locals : {&transition.locals, &transition.derived})
    for (const LocalMove &local : *locals)
      out.bytesLocal += storedBytes(local.flow, local.box);
  // Every destination element is written once: here, or by a message.
  out.bytesDestination = out.bytesLocal;
  for (const ScheduledMove &scheduled : transition.scheduled)
    out.bytesDestination +=
        storedBytes(scheduled.move.flow, scheduled.move.box);
  std::set<int32_t> waves;
  for (const Message &message : transition.messages) {
    waves.insert(message.wave);
    out.bytesWire += message.bytes;
    if (!cluster.sameNode(message.source, message.destination))
      out.bytesInterNode += message.bytes;
  }
  out.waves = waves.size();
  out.messages = transition.messages.size();
  out.collectives = multicasts(transition).size();
  for (const auto &[device, bytes] : deviceBytes(transition)) {
    out.stagingPeak = std::max<uint64_t>(out.stagingPeak, bytes.staging);
    out.devicePeak = std::max<uint64_t>(out.devicePeak, bytes.peak());
    out.sourceMax = std::max<uint64_t>(out.sourceMax, bytes.source);
    out.destinationMax =
        std::max<uint64_t>(out.destinationMax, bytes.destination);
  }
  return out;
}
