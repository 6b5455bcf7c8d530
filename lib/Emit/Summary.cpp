//===- Summary.cpp - The numbers that a plan states -----------------------===//

#include "dt/Emit/Summary.h"

#include "dt/Cost/CostModel.h"
#include "dt/Emit/Multicasts.h"
#include "dt/Emit/Programs.h"
#include "dt/Proof/StayingShards.h"
#include "dt/Proof/StorageRules.h"
#include "dt/Routing/RoutingProblem.h"

#include <algorithm>

using namespace dt;

namespace {

using Kind = PlanStep::Kind;

/// Every destination element is written once, on its device or by a message.
void countBytes(const TransportPlan &plan, const std::vector<Flow> &flows,
                dtrt::PlanSummary &out) {
  for (const PlanStep &step : plan.steps) {
    bool isLocal = step.kind == Kind::Copy || step.kind == Kind::Derive;
    if (!isLocal && step.kind != Kind::Wave)
      continue;
    for (size_t i = step.first; i < step.last; ++i) {
      const PlanPiece &piece = plan.pieces[i];
      int64_t stored = piece.box.volume() * flows[piece.flow].destinationBytes;
      out.bytesDestination += stored;
      out.bytesLocal += isLocal ? stored : 0;
    }
  }
}

void countStaying(const TransportPlan &plan, dtrt::PlanSummary &out) {
  StayingShards staying(plan);
  for (uint32_t flow = 0; flow < plan.flows.size(); ++flow)
    for (int64_t device : staying.devicesOf(flow))
      out.bytesInPlace += uint64_t(staying.bytesOf(flow, device));
}

void countMessages(const std::vector<PlanMessage> &messages,
                   const Cluster &cluster, dtrt::PlanSummary &out) {
  std::vector<TimedMessage> timed;
  timed.reserve(messages.size());
  int32_t wave = -1;
  for (const PlanMessage &message : messages) {
    out.waves += message.wave != wave;
    wave = message.wave;
    out.bytesWire += message.bytes;
    if (!cluster.sameNode(message.source, message.destination))
      out.bytesInterNode += message.bytes;
    timed.push_back({message.wave, message.source, message.destination,
                     message.bytes, message.sendSlot != kInPlace,
                     message.receiveSlot != kInPlace});
  }
  out.messages = messages.size();
  out.timePredicted = predictSeconds(timed, cluster);
}

} // namespace

void dt::summarize(const TransportPlan &plan, const std::vector<Flow> &flows,
                   const Cluster &cluster, dtrt::PlanSummary &out) {
  Bounds bounds = computeBounds(flows, cluster);
  out.bytesWireLowerBound = bounds.wireBytes;
  out.bytesInterNodeLowerBound = bounds.interNodeBytes;
  out.timeLowerBound = bounds.seconds;
  countBytes(plan, flows, out);
  countStaying(plan, out);
  countMessages(messagesOf(plan), cluster, out);
  out.collectives = multicasts(plan, flows).size();
  for (const auto &[device, memory] : measureMemory(plan)) {
    out.stagingPeak = std::max<uint64_t>(out.stagingPeak, memory.staging);
    out.devicePeak = std::max<uint64_t>(out.devicePeak, memory.peak);
    out.sourceMax = std::max<uint64_t>(out.sourceMax, memory.source);
    out.destinationMax =
        std::max<uint64_t>(out.destinationMax, memory.destination);
  }
}
