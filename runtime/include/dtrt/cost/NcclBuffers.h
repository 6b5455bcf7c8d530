//===- NcclBuffers.h - Memory of NCCL's for a plan's messages ---*- C++ -*-===//
//
// By NCCL's own rules, which are the same from 2.19 to 2.30: buffers are made
// when two ranks first have a message, for each direction and each channel of a
// pair on one node, and once for all that goes through the network. Names in
// capitals, and files, are NCCL's.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_COST_NCCLBUFFERS_H
#define DTRT_COST_NCCLBUFFERS_H

#include "dtrt/cost/Cluster.h"

#include <cstddef>

namespace dtrt {

/// Peers of a device, by where they are and who sends.
struct NcclPeers {
  size_t localTo = 0, localFrom = 0;   // on its node
  size_t remoteTo = 0, remoteFrom = 0; // on others
};

/// Bytes on a device's GPU.
struct NcclBuffers {
  uint64_t local = 0;   // to and from its node
  uint64_t network = 0; // to and from others
  uint64_t sum() const { return local + network; }
};

/// What the sizes depend on, of a communicator.
struct NcclTerms {
  int64_t perPeer = 8; // channels of a pair
  int64_t all = 32;    // channels
  /// Bytes that go through the network at a time: NCCL's own choice is 128 KiB,
  /// that of `dt-run` and the most that it allows 512 KiB
  /// (NCCL_P2P_NET_CHUNKSIZE, computeBuffSizes in src/init.cc).
  uint64_t netChunk = 512 << 10;
};

/// Of our communicators for this cluster, at most. Channels of a pair are those
/// that the cluster says, else 8 where there are several nodes and 32 on one
/// (ncclTopoComputeP2pChannels in src/graph/paths.cc).
NcclTerms mostNcclTerms(const Cluster &cluster, bool severalNodes);
/// At least: on one node NCCL has 2 channels for a pair, or more.
NcclTerms leastNcclTerms(const Cluster &cluster, bool severalNodes,
                         uint64_t netChunk);

NcclBuffers ncclBuffersOf(const NcclPeers &peers, const NcclTerms &terms);

} // namespace dtrt

#endif // DTRT_COST_NCCLBUFFERS_H
