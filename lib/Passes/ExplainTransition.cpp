//===- ExplainTransition.cpp - Why data moves the way it does -------------===//
//
// Prints what dt/Routing/Explain.h finds, on stderr: stdout is for the module.
//
//===----------------------------------------------------------------------===//

#include "Staged.h"
#include "dt/Emit/Multicasts.h"
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

void explainMessages(const ScheduledTransition &transition) {
  Ends kinds[2][2]; // packed by the sender, unpacked by the receiver
  for (const Message &message : transition.messages) {
    Ends &ends =
        kinds[message.sendSlot != kDirect][message.receiveSlot != kDirect];
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
void explainMulticasts(const ScheduledTransition &transition) {
  std::map<std::pair<std::string, size_t>, int64_t> kinds;
  for (const Multicast &multicast : multicasts(transition)) {
    std::string kind = multicast.isBroadcast()   ? "broadcast"
                       : multicast.isAllGather() ? "all-gather"
                                                 : "multicast of several";
    ++kinds[{kind, multicast.devices.size()}];
  }
  for (const auto &[kind, count] : kinds)
    llvm::errs() << llvm::formatv("collectives: {0} {1} among {2} devices, "
                                  "made of sends and forwards\n",
                                  count, kind.first, kind.second);
}

LogicalResult explainTransition(TransitionInfo &info) {
  TransitionOp op = info.op;
  llvm::errs() << "transition @" << op.getSymName() << "\n";
  auto flows = info.makeFlowsWithCells();
  if (failed(flows))
    return failure();
  for (const PatternRow &row : explain(*flows, info.cluster))
    llvm::errs() << explanation(row) << "\n";
  if (op.getOps<WaveOp>().empty())
    return success();
  auto transition = readStaged(info, /*computeCells=*/true);
  if (failed(transition))
    return failure();
  explainMessages(*transition);
  explainMulticasts(*transition);
  return success();
}

struct ExplainTransitionPass
    : impl::ExplainTransitionBase<ExplainTransitionPass> {
  void runOnOperation() override {
    if (failed(forEachTransition(getOperation(), explainTransition)))
      signalPassFailure();
  }
};

} // namespace
} // namespace dt
