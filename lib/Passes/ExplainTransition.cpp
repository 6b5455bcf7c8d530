//===- ExplainTransition.cpp - Why data moves the way it does -------------===//
//
// Prints what dt/Routing/Explain.h finds, on stderr: stdout is for the module.
//
//===----------------------------------------------------------------------===//

#include "LibraryChoice.h"
#include "TransportReading.h"
#include "dt/Emit/Multicasts.h"
#include "dt/Emit/Programs.h"
#include "dt/Emit/Summary.h"
#include "dt/Passes/Passes.h"
#include "dt/Routing/Explain.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_EXPLAINTRANSITION
#include "dt/Passes/Passes.h.inc"

namespace {

/// Messages of one kind of both ends.
struct Ends {
  int64_t messages = 0, bytes = 0;
};

void explainMessages(const TransportPlan &plan) {
  Ends kinds[2][2]; // packed by the sender, unpacked by the receiver
  for (const PlanMessage &message : messagesOf(plan)) {
    if (message.collective >= 0)
      continue;
    bool isPacked =
        message.sendSlot != kInPlace && message.relay != RelayHop::Out;
    bool isUnpacked =
        message.receiveSlot != kInPlace && message.relay != RelayHop::In;
    Ends &ends = kinds[isPacked][isUnpacked];
    ++ends.messages;
    ends.bytes += message.bytes;
  }
  const char *why[2][2] = {
      {"direct at both ends: one run of one tensor on each, or a relay's slot",
       "unpacked by the receiver: several runs there"},
      {"packed by the sender: several runs there",
       "packed and unpacked: several runs or tensors at both ends"}};
  for (int packed : {0, 1})
    for (int unpacked : {0, 1})
      if (const Ends &ends = kinds[packed][unpacked]; ends.messages > 0)
        llvm::errs() << llvm::formatv("messages: {0}, {1:F3} GB, {2}\n",
                                      ends.messages, ends.bytes / 1e9,
                                      why[packed][unpacked]);
}

/// What relays cost, and what was predicted of them.
void explainRelays(const TransitionReading &reading,
                   const std::vector<Flow> &flows) {
  dtrt::PlanSummary summary;
  std::vector<PlanMessage> messages = messagesOf(reading.plan);
  summarize(reading.plan, messages, flows, reading.info->cluster, summary);
  if (summary.bytesRelayed == 0)
    return;
  int64_t relayed = llvm::count_if(messages, [](const PlanMessage &message) {
    return message.relay == RelayHop::Out;
  });
  llvm::errs() << llvm::formatv("relays: {0} messages, {1:F3} GB over third "
                                "devices, so much more is sent; predicted "
                                "{2:F3} ms",
                                relayed, summary.bytesRelayed / 1e9,
                                summary.timePredicted * 1e3);
  if (auto seconds = reading.info->op().getSecondsWithoutRelays())
    llvm::errs() << llvm::formatv(", without relays {0:F3} ms",
                                  seconds->convertToDouble() * 1e3);
  llvm::errs() << "\n";
}

/// What the waves pass on, by kind and number of devices.
void explainMulticasts(const TransitionReading &reading,
                       const std::vector<Flow> &flows) {
  std::map<std::pair<std::string, size_t>, int64_t> kinds;
  for (const Multicast &multicast : multicasts(reading.plan, flows)) {
    std::string kind = multicast.isBroadcast()   ? "broadcast"
                       : multicast.isAllGather() ? "all-gather"
                                                 : "multicast of several";
    ++kinds[{kind, multicast.devices.size()}];
  }
  for (const auto &[kind, count] : kinds)
    llvm::errs() << llvm::formatv("multicasts: {0} {1} among {2} devices, "
                                  "made of sends and forwards\n",
                                  count, kind.first, kind.second);
}

void explainRoutes(const TransitionInfo &info, const std::vector<Flow> &flows) {
  llvm::errs() << "transition @" << info.op().getSymName() << "\n";
  for (const PatternRow &row : dt::explain(flows, info.cluster))
    llvm::errs() << explanation(row) << "\n";
}

/// How each collective of the routing level is lowered, and why.
void explainChoices(const TransitionInfo &info,
                    const std::vector<Flow> &flows) {
  LibraryChooser chooser(info, /*comparesAll=*/true);
  for (auto op : info.op().getBody().front().getOps<CollectiveOp>()) {
    auto transfers = op.getBody().front().getOps<TransferOp>();
    auto flow = info.flowOf(*transfers.begin());
    if (!flow)
      continue;
    LibraryChoice choice = chooser.choose(op, *flow, flows[*flow]);
    llvm::errs() << explanation(op, choice) << "\n";
  }
}

/// What the library's calls of the waves bring, by kind and number of devices.
void explainCalls(const TransportPlan &plan) {
  struct Calls {
    int64_t number = 0, bytes = 0;
  };
  std::map<std::pair<dtrt::CollectiveKind, size_t>, Calls> kinds;
  for (const PlanCollective &own : plan.collectives)
    ++kinds[{own.kind, own.members.size()}].number;
  for (const PlanPiece &piece : plan.pieces)
    if (piece.collective != kNoCollective) {
      const PlanCollective &own = plan.collectives[piece.collective];
      kinds[{own.kind, own.members.size()}].bytes += piece.bytes;
    }
  for (const auto &[kind, calls] : kinds)
    llvm::errs() << llvm::formatv(
        "library: {0} {1} among {2} devices, {3:F3} GB arrive\n", calls.number,
        dtrt::collectiveName(kind.first), kind.second, calls.bytes / 1e9);
}

void explainWaves(const TransitionReading &reading,
                  const std::vector<Flow> &flows) {
  if (reading.plan.isStaged)
    explainMessages(reading.plan);
  explainRelays(reading, flows);
  explainCalls(reading.plan);
  explainMulticasts(reading, flows);
}

struct ExplainTransitionPass
    : impl::ExplainTransitionBase<ExplainTransitionPass> {
  LogicalResult explain(const TransitionInfo &info) {
    auto flows = info.flowCells();
    if (failed(flows))
      return failure();
    explainRoutes(info, **flows);
    explainChoices(info, **flows);
    if (info.op().getOps<WaveOp>().empty())
      return success();
    const TransitionReading *reading =
        getAnalysis<TransportReading>().find(info.op());
    if (!reading)
      return failure();
    explainWaves(*reading, **flows);
    return success();
  }

  void runOnOperation() override {
    if (failed(getAnalysis<TransitionAnalysis>().forEach(
            [&](const TransitionInfo &info) { return explain(info); })))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace dt
