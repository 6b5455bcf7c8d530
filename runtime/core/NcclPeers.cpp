//===- NcclPeers.cpp - Whom a program has messages with -------------------===//

#include "dtrt/core/NcclPeers.h"

#include <set>

namespace dtrt {

NcclPeers ncclPeersOf(const PlanCommon &common, const RankProgram &program) {
  std::set<std::pair<bool, uint32_t>> all; // receives, peer
  for (const Instruction &instruction : program.instructions)
    for (const Message &message : instruction.messages)
      all.insert({message.receive, message.peer});
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
