//===- ProvePrograms.cpp - Programs that wait on each other ---------------===//

#include "ProvePrograms.h"

#include "dt/Dialect/Ops.h"
#include "dt/Proof/Certificate.h"
#include "dt/Proof/WaitGraph.h"

#include "llvm/ADT/MapVector.h"

#include <set>

using namespace mlir;

namespace dt {

namespace {

/// The programs of one transition.
class Programs {
public:
  LogicalResult add(ArrayRef<ProgramOp> all) {
    std::set<int64_t> devices;
    for (ProgramOp program : all)
      if (!devices.insert(program.getDevice()).second)
        return program.emitOpError()
               << "is the second program of device " << program.getDevice();
    for (ProgramOp program : all) {
      programs.push_back({program.getDevice(), {}});
      for (auto group : program.getBody().getOps<GroupOp>()) {
        programs.back().groups.emplace_back();
        if (failed(addGroup(group, program.getDevice(), devices)))
          return failure();
      }
    }
    return success();
  }

  LogicalResult check() {
    std::vector<WaitEdge> waits = findWait(messages, programs);
    if (waits.empty())
      return checkWaves();
    Operation *first = ops[waits.front().message];
    if (waits.size() == 1)
      return first->emitOpError()
             << "can never complete: rank " << waits.front().waits
             << " waits for rank " << waits.front().forDevice
             << ", which has no other end for it";
    std::vector<int64_t> ranks;
    for (const WaitEdge &edge : waits)
      ranks.push_back(edge.waits);
    llvm::sort(ranks);
    InFlightDiagnostic error = first->emitOpError() << "can never complete: ";
    error << "ranks ";
    for (size_t i = 0; i < ranks.size(); ++i)
      error << (i == 0                  ? ""
                : i + 1 == ranks.size() ? " and "
                                        : ", ")
            << ranks[i];
    error << " wait on each other";
    for (const WaitEdge &edge : waits)
      error.attachNote(ops[edge.message]->getLoc())
          << "rank " << edge.waits << " waits here for rank " << edge.forDevice;
    return failure();
  }

private:
  LogicalResult addGroup(GroupOp group, int64_t device,
                         const std::set<int64_t> &devices) {
    unsigned count = 0;
    for (Operation &op : group.getBody().front()) {
      bool receive = isa<RecvOp>(op);
      int64_t peer =
          receive ? cast<RecvOp>(op).getPeer() : cast<SendOp>(op).getPeer();
      if (++count > kMaxGroupMessages)
        return op.emitOpError()
               << "is one message more than the " << kMaxGroupMessages
               << " of a group that fits one kernel plan";
      if (!devices.count(peer))
        continue;
      programs.back().groups.back().push_back(messages.size());
      messages.push_back({device, peer, receive, int64_t(group.getWave())});
      ops.push_back(&op);
    }
    return success();
  }

  /// All messages meet; their ends must be in one wave.
  LogicalResult checkWaves() {
    auto fault = findWaveFault(messages);
    if (!fault)
      return success();
    auto [receive, send] = *fault;
    InFlightDiagnostic error = ops[receive]->emitOpError()
                               << "is in wave " << messages[receive].wave
                               << ", its send in wave " << messages[send].wave;
    error.attachNote(ops[send]->getLoc()) << "sent here";
    return failure();
  }

  std::vector<Operation *> ops; // by message
  std::vector<GroupMessage> messages;
  std::vector<DeviceGroups> programs;
};

} // namespace

LogicalResult provePrograms(ModuleOp module) {
  llvm::MapVector<StringAttr, SmallVector<ProgramOp>> byTransition;
  for (auto program : module.getOps<ProgramOp>())
    byTransition[program.getTransitionAttr().getAttr()].push_back(program);
  for (const auto &[name, all] : byTransition) {
    Programs programs;
    if (failed(programs.add(all)) || failed(programs.check()))
      return failure();
  }
  return success();
}

} // namespace dt
