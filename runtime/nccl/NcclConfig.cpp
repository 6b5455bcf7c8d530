//===- NcclConfig.cpp - How a communicator is made ------------------------===//

#include "NcclConfig.h"

#include "dtrt/cost/KernelPlans.h"

namespace dtrt {

namespace {

/// Bytes of the layout that a library of this version has.
size_t knownBytes(int version) {
  if (version < NCCL_VERSION(2, 26, 0))
    return offsetof(NcclConfig, trafficClass);
  if (version < NCCL_VERSION(2, 27, 0))
    return offsetof(NcclConfig, commName);
  if (version < NCCL_VERSION(2, 28, 0))
    return offsetof(NcclConfig, nChannelsPerNetPeer);
  if (version < NCCL_VERSION(2, 29, 0))
    return offsetof(NcclConfig, graphUsageMode);
  if (version < NCCL_VERSION(2, 30, 0))
    return offsetof(NcclConfig, maxP2pPeers);
  return sizeof(NcclConfig);
}

/// Of graphUsageMode: none, or graphs beside groups of their own, as those of
/// the warm-up are.
constexpr int kNoGraphs = 0, kMixed = 2;

} // namespace

NcclConfig makeNcclConfig(int version, const NcclWishes &wishes) {
  NcclConfig config;
  config.version = unsigned(version);
  config.size = knownBytes(version);
  config.blocking = wishes.blocking ? 1 : 0;
  config.splitShare = wishes.shares ? 1 : 0;
  config.maxCTAs = kMaxChannels; // so that groups fit one kernel plan
  config.commName = "dynatrain";
  if (wishes.channelsPerNetPeer > 0)
    config.nChannelsPerNetPeer = wishes.channelsPerNetPeer;
  if (wishes.maxPeers > 0)
    config.maxP2pPeers = wishes.maxPeers;
  config.graphUsageMode = wishes.graphs ? kMixed : kNoGraphs;
  return config;
}

} // namespace dtrt
