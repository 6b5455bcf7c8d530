//===- NcclBuffers.cpp - Memory that NCCL has for a plan's messages -------===//

#include "dtrt/cost/NcclBuffers.h"

#include "dtrt/cost/KernelPlans.h"

#include <algorithm>

namespace dtrt {

namespace {

/// NCCL_STEPS, and the buffer sizes of computeBuffSizes in src/init.cc:
/// DEFAULT_LL_BUFFSIZE, DEFAULT_LL128_BUFFSIZE and DEFAULT_BUFFSIZE, of the
/// numbers in src/include/device.h.
constexpr uint64_t kSteps = 8;
constexpr uint64_t kLow = 8 * 512 * kSteps * 16;
constexpr uint64_t kLow128 = 120 * 640 * kSteps * 8;
constexpr uint64_t kSimple = 4 << 20;
/// ncclSendMem and ncclRecvMem (MEM_ALIGN in src/include/comm.h).
constexpr uint64_t kHead = 4096;
/// CUDA_IPC_MIN, to which p2pSendSetup and p2pRecvSetup in src/transport/p2p.cc
/// round what they allocate.
constexpr uint64_t kUnit = 2 << 20;
/// NCCL_SHARED_STEPS of sharedNetBuffersInit in src/transport/net.cc.
constexpr uint64_t kSharedSteps = 16;

constexpr uint64_t wholeUnits(uint64_t bytes) {
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

/// Where the sender writes into the receiver's memory; on NVLink of the Ampere
/// generation the receiver reads instead, and 4 MiB are with the sender.
constexpr uint64_t kSender = wholeUnits(kHead);
constexpr uint64_t kReceiver = wholeUnits(kHead + kLow + kLow128 + kSimple);

constexpr int64_t kNetChannels = 8; // NcclWishes::channelsPerNetPeer
constexpr int64_t kLeastChannels = 2;

} // namespace

NcclTerms mostNcclTerms(const Cluster &cluster, bool severalNodes) {
  NcclTerms terms;
  terms.all = int64_t(kMaxChannels);
  terms.perPeer = severalNodes ? kNetChannels : terms.all;
  if (cluster.channelsPerPeer > 0)
    terms.perPeer = cluster.channelsPerPeer;
  return terms;
}

NcclTerms leastNcclTerms(const Cluster &cluster, bool severalNodes,
                         uint64_t netChunk) {
  NcclTerms terms = mostNcclTerms(cluster, severalNodes);
  if (!severalNodes && cluster.channelsPerPeer == 0)
    terms.perPeer = kLeastChannels;
  terms.all = terms.perPeer;
  terms.netChunk = std::min(netChunk, terms.netChunk);
  return terms;
}

NcclBuffers ncclBuffersOf(const NcclPeers &peers, const NcclTerms &terms) {
  NcclBuffers buffers;
  buffers.local = uint64_t(terms.perPeer) *
                  (peers.localTo * kSender + peers.localFrom * kReceiver);
  // One for all that is sent and one for all that is received, of all channels
  // of the communicator.
  uint64_t shared = uint64_t(terms.all) * kSharedSteps * terms.netChunk;
  buffers.network = ((peers.remoteTo > 0) + (peers.remoteFrom > 0)) * shared;
  return buffers;
}

} // namespace dtrt
