//===- ExplainTransition.cpp - Why data moves the way it does -------------===//
//
// Prints what dt/Routing/Explain.h finds, on stderr: stdout is for the module.
//
//===----------------------------------------------------------------------===//

#include "TransportReading.h"
#include "dt/Emit/Multicasts.h"
#include "dt/Emit/Programs.h"
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
    Ends &ends =
        kinds[message.sendSlot != kInPlace][message.receiveSlot != kInPlace];
    ++ends.messages;
    ends.bytes += message.bytes;
  }
  const char *why[2][2] = {
      {"direct at both ends: one run of one tensor on each",
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

void explainWaves(const TransitionReading &reading,
                  const std::vector<Flow> &flows) {
  if (reading.plan.isStaged)
    explainMessages(reading.plan);
  explainMulticasts(reading, flows);
}

struct ExplainTransitionPass
    : impl::ExplainTransitionBase<ExplainTransitionPass> {
  LogicalResult explain(const TransitionInfo &info) {
    auto flows = info.flowCells();
    if (failed(flows))
      return failure();
    explainRoutes(info, **flows);
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
