//===- NcclTransport.h - Messages over NCCL ---------------------*- C++ -*-===//
//
// A communicator of its own, one NCCL group per wave, at most one message per
// ordered pair in it (docs/Rationale.md says why). All pairs that the plan uses
// are connected before the first wave. Nothing waits without a limit: what does
// not end in time, or fails, aborts the communicator and names its peers.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_NCCLTRANSPORT_H
#define DTRT_NCCLTRANSPORT_H

#include "dtrt/Rendezvous.h"
#include "dtrt/Storage.h"
#include "dtrt/Transport.h"

namespace dtrt {

struct NcclOptions {
  uint32_t device = 0;           // of the plan
  std::vector<uint32_t> devices; // of the plan; rank i is devices[i]
  /// Brings NCCL's unique id and the plans' digests to all ranks.
  std::shared_ptr<Store> store;
  std::string prefix = "nccl";
  Seconds timeout{60};
};

/// On the GPU that the calling thread uses.
class NcclTransport : public Transport {
public:
  static Result<std::unique_ptr<NcclTransport>> create(NcclOptions options);
  ~NcclTransport() override;

  uint32_t device() const override;
  Status connect(const Digest &digest,
                 const std::vector<uint32_t> &peers) override;
  /// Addresses are on the GPU; what is sent must be there already.
  Status group(const std::vector<TransportMessage> &messages) override;
  void abort(const Status &why) override;
  void leave() override;

  /// After `connect`, on all ranks or on none: NCCL then moves the bytes
  /// without copies of its own. Undone by `leave`.
  Status registerArena(std::byte *data, uint64_t bytes);

private:
  struct State;
  explicit NcclTransport(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

/// Memory that NCCL can register, for staging arenas.
MemorySource ncclMemory();
/// The version of the library that is loaded, as 2.30.7.
std::string ncclVersion();
/// Whether it lets several ranks use one GPU when asked to by
/// NCCL_MULTI_RANK_GPU_ENABLE; older ones need an NCCL_HOSTID per process.
bool ncclAllowsSharedGpus();

} // namespace dtrt

#endif // DTRT_NCCLTRANSPORT_H
