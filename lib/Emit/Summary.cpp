//===- Summary.cpp - The numbers that a plan states -----------------------===//

#include "dt/Emit/Summary.h"

#include "dt/Cost/CostModel.h"
#include "dt/Emit/Multicasts.h"
#include "dt/Proof/StayingShards.h"
#include "dt/Proof/StorageRules.h"
#include "dt/Routing/RoutingProblem.h"
#include "dt/Scheduling/Forwards.h"
#include "dtrt/cost/TimedCollectives.h"

#include <algorithm>
#include <map>
#include <set>

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
      if (!piece.arrives())
        continue;
      int64_t stored = piece.box.volume() * flows[piece.flow].destinationBytes;
      out.bytesDestination += stored;
      int64_t stays = step.kind == Kind::Copy ? staying.bytesOf(piece) : 0;
      out.bytesInPlace += stays;
      out.bytesLocal += isLocal ? stored - stays : 0;
    }
  }
}

/// In flat memory local work stays between groups, or goes beside the one that
/// it names where its device has a part in it; elsewhere it goes beside all.
class LocalWork {
public:
  LocalWork(const TransportPlan &plan, const std::vector<Flow> &flows,
            const StayingShards &staying)
      : plan(plan), flows(flows), staying(staying) {}

  std::vector<dtrt::TimedCopy> run() {
    for (const PlanStep &step : plan.steps) {
      if (step.kind == Kind::Wave) {
        keepBetween(step);
        close(step.wave);
      } else if (step.kind != Kind::Create && step.kind != Kind::Release) {
        add(step);
      }
    }
    close(INT32_MAX);
    return std::move(out);
  }

private:
  using Bytes = std::map<int64_t, int64_t>; // of devices, since the last wave

  void add(const PlanStep &step) {
    bool isZero = step.kind == Kind::Zero;
    Bytes &bytes = step.wave >= 0 ? beside : between;
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

  /// What goes beside a wave on devices that have no part in it.
  void keepBetween(const PlanStep &wave) {
    if (beside.empty())
      return;
    std::set<int64_t> devices;
    for (size_t i = wave.first; i < wave.last; ++i)
      devices.insert({plan.pieces[i].from, plan.pieces[i].to});
    for (auto it = beside.begin(); it != beside.end();) {
      bool isIn = devices.count(it->first) > 0;
      if (!isIn)
        between[it->first] += it->second;
      it = isIn ? std::next(it) : beside.erase(it);
    }
  }

  void close(int32_t wave) {
    for (bool isBeside : {false, true}) {
      Bytes &bytes = isBeside ? beside : between;
      for (auto [device, count] : bytes)
        out.push_back({wave, device, count, isBeside});
      bytes.clear();
    }
  }

  const TransportPlan &plan;
  const std::vector<Flow> &flows;
  const StayingShards &staying;
  Bytes between, beside;
  std::vector<dtrt::TimedCopy> out;
};

/// Whether it crosses the network. What a library's collective gives to all
/// comes to a node once: to its first member there.
bool entersNode(const TransportPlan &plan, const PlanMessage &message,
                const Cluster &cluster) {
  if (cluster.sameNode(message.source, message.destination))
    return false;
  if (message.collective < 0)
    return true;
  const PlanCollective &own = plan.collectives[size_t(message.collective)];
  if (own.kind == dtrt::CollectiveKind::AllToAll)
    return true;
  auto first =
      std::find_if(own.members.begin(), own.members.end(), [&](int64_t member) {
        return cluster.sameNode(member, message.destination);
      });
  return *first == message.destination;
}

void countMessages(const TransportPlan &plan,
                   const std::vector<PlanMessage> &messages,
                   const std::vector<dtrt::TimedCopy> &copies,
                   const Cluster &cluster, const ParallelFor &parallel,
                   dtrt::PlanSummary &out) {
  std::vector<CarriedPiece> pieces;
  pieces.reserve(plan.pieces.size());
  for (const PlanPiece &piece : plan.pieces)
    pieces.push_back({piece.flow, piece.fedBy, !piece.atSource, &piece.box});
  std::vector<bool> forwards = findForwards(messages, pieces, parallel);
  std::vector<TimedMessage> timed;
  timed.reserve(messages.size());
  int32_t wave = -1;
  for (size_t i = 0; i < messages.size(); ++i) {
    const PlanMessage &message = messages[i];
    out.waves += message.wave != wave;
    wave = message.wave;
    out.bytesWire += message.bytes;
    if (entersNode(plan, message, cluster))
      out.bytesInterNode += message.bytes;
    if (message.collective >= 0)
      continue;
    bool comes = message.relay == RelayHop::In;
    bool goes = message.relay == RelayHop::Out;
    out.bytesRelayed += goes ? message.bytes : 0;
    timed.push_back({message.wave, message.source, message.destination,
                     message.bytes, message.sendSlot != kInPlace && !goes,
                     message.receiveSlot != kInPlace && !comes, forwards[i]});
  }
  out.messages = timed.size();
  out.libraryCollectives = plan.collectives.size();
  for (const PlanCollective &each : plan.collectives)
    dtrt::addCollective(
        {each.wave, each.kind, each.members, each.root, each.blockBytes},
        cluster, timed);
  if (!plan.collectives.empty())
    dtrt::sortMessages(timed);
  out.timePredicted = predictSeconds(timed, cluster, copies);
}

} // namespace

void dt::summarize(const TransportPlan &plan,
                   const std::vector<PlanMessage> &messages,
                   const std::vector<Flow> &flows, const Cluster &cluster,
                   dtrt::PlanSummary &out, const ParallelFor &parallel) {
  Bounds bounds = computeBounds(flows, cluster);
  out.bytesWireLowerBound = bounds.wireBytes;
  out.bytesInterNodeLowerBound = bounds.interNodeBytes;
  out.timeLowerBound = bounds.seconds;
  StayingShards staying(plan);
  countBytes(plan, flows, staying, out);
  std::vector<dtrt::TimedCopy> copies;
  if (out.mode == dtrt::MemoryMode::Flat)
    copies = LocalWork(plan, flows, staying).run();
  countMessages(plan, messages, copies, cluster, parallel, out);
  out.multicasts = multicasts(plan, flows).size();
  for (const auto &[device, memory] : measureMemory(plan, staying)) {
    out.stagingPeak = std::max<uint64_t>(out.stagingPeak, memory.staging);
    out.devicePeak = std::max<uint64_t>(out.devicePeak, memory.peak);
    out.sourceMax = std::max<uint64_t>(out.sourceMax, memory.source);
    out.destinationMax =
        std::max<uint64_t>(out.destinationMax, memory.destination);
  }
}
