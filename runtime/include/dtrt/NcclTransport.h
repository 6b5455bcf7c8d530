//===- NcclTransport.h - Messages over NCCL ---------------------*- C++ -*-===//
//
// A communicator of its own, one NCCL group per wave, at most one message per
// ordered pair in it (docs/ExecutionModel.md says why). All pairs that the plan
// uses are connected before the first wave. Nothing waits without a limit: what
// does not end in time, or fails, aborts the communicator, names its peers, and
// is made known to all ranks through the store.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_NCCLTRANSPORT_H
#define DTRT_NCCLTRANSPORT_H

#include "dtrt/Rendezvous.h"
#include "dtrt/Storage.h"
#include "dtrt/Transport.h"

namespace dtrt {

struct NcclApi;

struct NcclOptions {
  uint32_t device = 0;           // of the plan
  std::vector<uint32_t> devices; // of the plan; rank i is devices[i]
  /// Brings NCCL's unique id to all ranks, and the reason of one that stops.
  /// Ranks that have not gathered yet do so in `connect`.
  std::shared_ptr<Rendezvous> ranks;
  /// For each group, and for connecting.
  Seconds timeout{60};
  /// Null: the NCCL of this process.
  const NcclApi *api = nullptr;
};

/// On the GPU that the thread which calls `connect` uses.
class NcclTransport : public Transport {
public:
  static Result<std::unique_ptr<NcclTransport>> create(NcclOptions options);
  ~NcclTransport() override;

  uint32_t device() const override;
  Status connect(const Digest &digest,
                 const std::vector<uint32_t> &peers) override;
  /// Addresses are on the GPU; what is sent must be there already. What is
  /// received is there when this returns.
  Status group(const std::vector<TransportMessage> &messages) override;
  /// From any thread: a group that is under way ends with an error.
  void abort(const Status &why) override;
  void leave() override;

  /// Memory of `ncclMemory` then moves without copies inside NCCL.
  Status registerArena(std::byte *data, uint64_t bytes) override;

private:
  struct State;
  explicit NcclTransport(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

/// Memory that NCCL can register, for staging arenas.
MemorySource ncclMemory();
/// Whether the NCCL of this process lets several ranks use one GPU when asked
/// to by NCCL_MULTI_RANK_GPU_ENABLE; older ones need an NCCL_HOSTID each.
bool ncclAllowsSharedGpus();

} // namespace dtrt

#endif // DTRT_NCCLTRANSPORT_H
