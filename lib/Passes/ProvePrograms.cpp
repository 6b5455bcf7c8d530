//===- ProvePrograms.cpp - Programs that wait on each other ---------------===//

#include "ProvePrograms.h"

#include "dt/Dialect/Ops.h"
#include "dt/Proof/Certificate.h"
#include "dt/Proof/WaitGraph.h"

#include "llvm/ADT/MapVector.h"

#include <map>
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
    setMemberSets(all);
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
      return checkEnds();
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
  void setMemberSets(ArrayRef<ProgramOp> all) {
    for (ProgramOp program : all)
      for (auto group : program.getBody().getOps<GroupOp>())
        if (CallAttr call = group.getCallAttr())
          memberSets.try_emplace(call.getMembers().vec(),
                                 int64_t(memberSets.size()));
  }

  void add(Operation *op, const GroupMessage &message) {
    programs.back().groups.back().push_back(messages.size());
    messages.push_back(message);
    ops.push_back(op);
  }

  LogicalResult addGroup(GroupOp group, int64_t device,
                         const std::set<int64_t> &devices) {
    std::map<std::pair<int64_t, bool>, Operation *> ends;
    for (Operation &op : group.getBody().front()) {
      bool receive = isa<RecvOp>(op);
      int64_t peer =
          receive ? cast<RecvOp>(op).getPeer() : cast<SendOp>(op).getPeer();
      ends[{peer, receive}] = &op;
      if (!group.getCallAttr() && ends.size() > kMaxGroupMessages)
        return op.emitOpError()
               << "is one message more than the " << kMaxGroupMessages
               << " of a group that fits one kernel plan";
      if (!group.getCallAttr() && devices.count(peer))
        add(&op, {device, peer, receive, int64_t(group.getWave())});
    }
    addCall(group, device, devices, ends);
    return success();
  }

  /// A call meets all members, whatever it brings from or to them.
  void addCall(GroupOp group, int64_t device, const std::set<int64_t> &devices,
               const std::map<std::pair<int64_t, bool>, Operation *> &ends) {
    CallAttr call = group.getCallAttr();
    if (!call)
      return;
    int64_t set = memberSets.at(call.getMembers().vec());
    for (int64_t peer : call.getMembers()) {
      if (peer == device || !devices.count(peer))
        continue;
      for (bool receive : {false, true}) {
        auto end = ends.find({peer, receive});
        add(end == ends.end() ? group.getOperation() : end->second,
            {device, peer, receive, int64_t(group.getWave()), set});
      }
    }
  }

  /// All messages meet; their ends must be of one wave, and of one call.
  LogicalResult checkEnds() {
    for (auto [receive, send] : meetings(messages))
      if (failed(checkWave(receive, send)) || failed(checkCall(receive, send)))
        return failure();
    return success();
  }

  LogicalResult checkWave(size_t receive, size_t send) {
    if (messages[receive].wave == messages[send].wave)
      return success();
    bool isCall = messages[receive].memberSet != GroupMessage::kNoSet;
    InFlightDiagnostic error = ops[receive]->emitOpError()
                               << "is in wave " << messages[receive].wave;
    if (isCall)
      error << ", the same call of rank " << messages[send].device
            << " in wave " << messages[send].wave;
    else
      error << ", its send in wave " << messages[send].wave;
    error.attachNote(ops[send]->getLoc())
        << (isCall ? "called here" : "sent here");
    return failure();
  }

  /// Both are of one call, and what one gives the other gets.
  LogicalResult checkCall(size_t receive, size_t send) {
    if (messages[receive].memberSet == GroupMessage::kNoSet)
      return success();
    auto refuse = [&](Operation *op, StringRef what) {
      InFlightDiagnostic error = op->emitOpError()
                                 << what << " rank " << messages[send].device;
      error.attachNote(ops[send]->getLoc()) << "that one is here";
      return failure();
    };
    GroupOp group = groupOf(ops[receive]);
    if (group.getCallAttr() != groupOf(ops[send]).getCallAttr())
      return refuse(group, "is another call than that of");
    bool gets = isa<RecvOp>(ops[receive]), gives = isa<SendOp>(ops[send]);
    if (gets == gives)
      return success();
    return refuse(ops[receive], gets ? "gets what is not given by"
                                     : "does not get what is given by");
  }

  /// What a message stands for is a group's, or a group.
  static GroupOp groupOf(Operation *op) {
    auto group = dyn_cast<GroupOp>(op);
    return group ? group : cast<GroupOp>(op->getParentOp());
  }

  /// By message: it, or the call that it stands for.
  std::vector<Operation *> ops;
  std::vector<GroupMessage> messages;
  std::vector<DeviceGroups> programs;
  std::map<std::vector<int64_t>, int64_t> memberSets; // numbered
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
