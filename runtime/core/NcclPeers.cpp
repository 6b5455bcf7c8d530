//===- NcclPeers.cpp - Whom a program has messages with -------------------===//

#include "dtrt/core/NcclPeers.h"

#include <set>

namespace dtrt {

namespace {

using Ends = std::set<std::pair<bool, uint32_t>>; // receives, peer

void addPeers(const PlanCommon &common, const RankProgram &program,
              const Instruction &instruction, Ends &all) {
  const auto &call = instruction.collective;
  if (!call) {
    for (const Message &message : instruction.messages)
      all.insert({message.receive, message.peer});
    return;
  }
  if (call->kind != CollectiveKind::AllToAll)
    return; // a ring, which has buffers of its own
  for (uint32_t member : common.memberSets[call->members])
    if (member != program.device)
      for (bool receives : {false, true})
        all.insert({receives, member});
}

} // namespace

NcclPeers ncclPeersOf(const PlanCommon &common, const RankProgram &program) {
  Ends all;
  for (const Instruction &instruction : program.instructions)
    addPeers(common, program, instruction, all);
  NcclPeers peers;
  for (auto [receives, peer] : all) {
    bool local = common.cluster.sameNode(program.device, peer);
    size_t &count = receives ? (local ? peers.localFrom : peers.remoteFrom)
                             : (local ? peers.localTo : peers.remoteTo);
    ++count;
  }
  return peers;
}

bool hasSeveralNodes(const PlanCommon &common) {
  std::set<int64_t> nodes;
  for (const auto *devices :
       {&common.sourceDevices, &common.destinationDevices})
    for (uint32_t device : *devices)
      nodes.insert(common.cluster.node(device));
  return nodes.size() > 1;
}

} // namespace dtrt
