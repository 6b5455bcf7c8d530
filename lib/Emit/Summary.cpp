//===- Summary.cpp - The numbers that a plan states -----------------------===//

#include "dt/Emit/Summary.h"

#include "dt/Cost/CostModel.h"
#include "dt/Emit/Multicasts.h"
#include "dt/Emit/Programs.h"
#include "dt/Proof/StayingShards.h"
#include "dt/Proof/StorageRules.h"
#include "dt/Routing/RoutingProblem.h"
#include "dt/Scheduling/Forwards.h"

#include <algorithm>
#include <map>

using namespace dt;

namespace {

using Kind = PlanStep::Kind;

/// Every destination element is written once, on its device or by a message, or
/// stays.
void countBytes(const TransportPlan &plan, const std::vector<Flow> &flows,
                const StayingShards &staying, dtrt::PlanSummary &out) {
  for (const PlanStep &step : plan.steps) {
    bool isLocal = step.kind == Kind::Copy || step.kind == Kind::Derive;
    if (!isLocal && step.kind != Kind::Wave)
      continue;
    for (size_t i = step.first; i < step.last; ++i) {
      const PlanPiece &piece = plan.pieces[i];
      int64_t stored = piece.box.volume() * flows[piece.flow].destinationBytes;
      out.bytesDestination += stored;
      int64_t stays = step.kind == Kind::Copy ? staying.bytesOf(piece) : 0;
      out.bytesInPlace += stays;
      out.bytesLocal += isLocal ? stored - stays : 0;
    }
  }
}

/// In flat memory local work stays between groups; elsewhere it goes beside.
std::vector<dtrt::TimedCopy> localWork(const TransportPlan &plan,
                                       const std::vector<Flow> &flows,
                                       const StayingShards &staying,
                                       const dtrt::PlanSummary &summary) {
  std::vector<dtrt::TimedCopy> out;
  if (summary.mode != dtrt::MemoryMode::Flat)
    return out;
  std::map<int64_t, int64_t> bytes; // of devices, since the last wave
  auto close = [&](int32_t wave) {
    for (auto [device, count] : bytes)
      out.push_back({wave, device, count});
    bytes.clear();
  };
  for (const PlanStep &step : plan.steps) {
    if (step.kind == Kind::Wave)
      close(step.wave);
    bool isZero = step.kind == Kind::Zero;
    if (!isZero && step.kind != Kind::Copy && step.kind != Kind::Derive)
      continue;
    for (size_t i = step.first; i < step.last; ++i) {
      const PlanPiece &piece = plan.pieces[i];
      // Padding is of flows of its own, which stand behind the others.
      size_t flow = isZero ? piece.flow - plan.flows.size() : piece.flow;
      int64_t moved = piece.box.volume() * flows[flow].destinationBytes;
      if (step.kind == Kind::Copy)
        moved -= staying.bytesOf(piece);
      if (moved > 0)
        bytes[piece.to] += moved;
    }
  }
  close(INT32_MAX);
  return out;
}

void countMessages(const TransportPlan &plan,
                   const std::vector<PlanMessage> &messages,
                   const std::vector<dtrt::TimedCopy> &copies,
                   const Cluster &cluster, dtrt::PlanSummary &out) {
  std::vector<CarriedPiece> pieces;
  pieces.reserve(plan.pieces.size());
  for (const PlanPiece &piece : plan.pieces)
    pieces.push_back({piece.flow, piece.fedBy, !piece.atSource, &piece.box});
  std::vector<bool> forwards = findForwards(messages, pieces);
  std::vector<TimedMessage> timed;
  timed.reserve(messages.size());
  int32_t wave = -1;
  for (size_t i = 0; i < messages.size(); ++i) {
    const PlanMessage &message = messages[i];
    out.waves += message.wave != wave;
    wave = message.wave;
    out.bytesWire += message.bytes;
    if (!cluster.sameNode(message.source, message.destination))
      out.bytesInterNode += message.bytes;
    timed.push_back({message.wave, message.source, message.destination,
                     message.bytes, message.sendSlot != kInPlace,
                     message.receiveSlot != kInPlace, forwards[i]});
  }
  out.messages = messages.size();
  out.timePredicted = predictSeconds(timed, cluster, copies);
}

} // namespace

void dt::summarize(const TransportPlan &plan, const std::vector<Flow> &flows,
                   const Cluster &cluster, dtrt::PlanSummary &out) {
  Bounds bounds = computeBounds(flows, cluster);
  out.bytesWireLowerBound = bounds.wireBytes;
  out.bytesInterNodeLowerBound = bounds.interNodeBytes;
  out.timeLowerBound = bounds.seconds;
  StayingShards staying(plan);
  countBytes(plan, flows, staying, out);
  countMessages(plan, messagesOf(plan), localWork(plan, flows, staying, out),
                cluster, out);
  out.multicasts = multicasts(plan, flows).size();
  for (const auto &[device, memory] : measureMemory(plan)) {
    out.stagingPeak = std::max<uint64_t>(out.stagingPeak, memory.staging);
    out.devicePeak = std::max<uint64_t>(out.devicePeak, memory.peak);
    out.sourceMax = std::max<uint64_t>(out.sourceMax, memory.source);
    out.destinationMax =
        std::max<uint64_t>(out.destinationMax, memory.destination);
  }
}
