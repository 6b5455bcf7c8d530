//===- NcclConfig.h - How a communicator is made ----------------*- C++ -*-===//
//
// NCCL's configuration only ever grows at its end, and says how large it is. So
// one layout, cut off at what the library of the process knows, serves all
// versions, whatever header this is compiled against.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_NCCL_NCCLCONFIG_H
#define DTRT_LIB_NCCL_NCCLCONFIG_H

#include <cstddef>
#include <nccl.h>

namespace dtrt {

/// What a plan asks of its communicator.
struct NcclWishes {
  bool blocking = false;
  /// Communicators that are split off share connections and the abort flag.
  bool shares = false;
  /// Channels to a peer on another node: NCCL's own choice is for all-to-all.
  int channelsPerNetPeer = 8;
  /// Peers that a rank has at a time, in one wave; 0: not told.
  int maxPeers = 0;
  bool graphs = false;
};

/// The layout of ncclConfig_t up to NCCL 2.30.
struct NcclConfig {
  size_t size = 0;
  unsigned magic = 0xcafebeef;
  unsigned version = 0;
  int blocking = NCCL_CONFIG_UNDEF_INT;
  int cgaClusterSize = NCCL_CONFIG_UNDEF_INT;
  int minCTAs = NCCL_CONFIG_UNDEF_INT;
  int maxCTAs = NCCL_CONFIG_UNDEF_INT;
  const char *netName = nullptr;
  int splitShare = NCCL_CONFIG_UNDEF_INT;
  int trafficClass = NCCL_CONFIG_UNDEF_INT; // since 2.26
  const char *commName = nullptr;           // since 2.27
  int collnetEnable = NCCL_CONFIG_UNDEF_INT;
  int ctaPolicy = NCCL_CONFIG_UNDEF_INT;
  int shrinkShare = NCCL_CONFIG_UNDEF_INT;
  int nvlsCTAs = NCCL_CONFIG_UNDEF_INT;
  int nChannelsPerNetPeer = NCCL_CONFIG_UNDEF_INT; // since 2.28
  int nvlinkCentricSched = NCCL_CONFIG_UNDEF_INT;
  int graphUsageMode = NCCL_CONFIG_UNDEF_INT; // since 2.29
  int numRmaCtx = NCCL_CONFIG_UNDEF_INT;
  int maxP2pPeers = NCCL_CONFIG_UNDEF_INT; // since 2.30

  ncclConfig_t *get() { return reinterpret_cast<ncclConfig_t *>(this); }
};

/// For a library of this version (NCCL_VERSION_CODE).
NcclConfig makeNcclConfig(int version, const NcclWishes &wishes);

} // namespace dtrt

#endif // DTRT_LIB_NCCL_NCCLCONFIG_H
