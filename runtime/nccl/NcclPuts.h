//===- NcclPuts.h - Waves without pairs -------------------------*- C++ -*-===//
//
// NCCL 2.29 and newer write into a peer's memory without its part: no kernel on
// NVLink, no pair that has to meet. Arenas become windows, and a plan knows
// both slots of a message. A wave is, on its stream: say to each sender that
// its slot is free, wait for that of each receiver, put, wait for what is put
// here.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_NCCL_NCCLPUTS_H
#define DTRT_LIB_NCCL_NCCLPUTS_H

#include "NcclApi.h"

#include "dtrt/transport/Traffic.h"

#include <vector>

namespace dtrt {

/// A message between two arenas.
struct NcclPut {
  bool receive = false;
  int peer = 0; // rank
  uint64_t ownSlot = 0, otherSlot = 0;
  uint64_t bytes = 0;
};

class NcclPuts {
public:
  /// Whether the library has the calls; the communicator may refuse them.
  static bool known(const NcclApi &api);

  /// Collective. The arena is memory of ncclMemAlloc, of this many bytes.
  ncclResult_t open(const NcclApi &api, ncclComm_t handle, std::byte *arena,
                    uint64_t bytes);
  void close(const NcclApi &api, ncclComm_t handle);
  /// Whether this rank has a window.
  bool isOpen() const { return window != nullptr; }
  /// Collective: the first use, which sets up what all later ones need: a
  /// signal to the next rank, and one from the rank before.
  ncclResult_t start(const NcclApi &api, ncclComm_t handle, int rank, int ranks,
                     cudaStream_t stream) const;
  /// One wave, on the stream. A signal is later than all that its rank has sent
  /// before to the same peer, and counts one: what a rank waits for has the
  /// order in which its peer sends.
  ncclResult_t wave(const NcclApi &api, ncclComm_t handle,
                    const std::vector<NcclPut> &messages,
                    cudaStream_t stream) const;

private:
  NcclWindow window = nullptr;
  std::byte *arena = nullptr;
};

} // namespace dtrt

#endif // DTRT_LIB_NCCL_NCCLPUTS_H
