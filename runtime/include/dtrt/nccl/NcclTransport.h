//===- NcclTransport.h - Messages over NCCL ---------------------*- C++ -*-===//
//
// A communicator of its own, one NCCL group per wave, at most one message per
// ordered pair in it (docs/ExecutionModel.md says why). Groups go on a stream
// behind what they need, ahead of the GPU. Nothing waits without a limit: what
// does not end in time, or fails, is first made known to all ranks through the
// store, which then abort their communicators; a rank that dies is missed by
// its neighbour.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_NCCL_NCCLTRANSPORT_H
#define DTRT_NCCL_NCCLTRANSPORT_H

#include "dtrt/store/Rendezvous.h"
#include "dtrt/transport/StreamTransport.h"

namespace dtrt {

struct NcclApi;
class NcclCommunicator;

/// How NCCL's calls behave; docs/GPU.md compares what each costs.
enum class NcclCalls {
  Blocking, // a group is enqueued by the call itself
  Returning // by a thread that NCCL makes for each group
};

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
  NcclCalls calls = NcclCalls::Blocking;
  /// Channels to a peer on another node, from NCCL 2.28 on; 0: NCCL's choice,
  /// which is made for all-to-all and gives a single pair less than its NIC.
  int channelsPerNetPeer = 8;
  /// Writes into peers' arenas where the library has that (2.29 and newer), the
  /// communicator allows it, and all messages of all ranks lie in arenas; else
  /// pairs, as without. A transfer that fails leaves its streams waiting on the
  /// GPU for good, and its memory unused.
  bool oneSided = false;
  /// Whether groups will be captured into graphs. Only where every rank's
  /// environment has NCCL_GRAPH_REGISTER=0, as NCCL would register the memory
  /// of captured messages at one end only.
  bool graph = false;
};

/// On the GPU of the thread that calls `create`; later calls may come from any
/// thread, one at a time but for `abort`.
class NcclTransport : public StreamTransport {
public:
  static Result<std::unique_ptr<NcclTransport>> create(NcclOptions options);
  ~NcclTransport() override;

  uint32_t device() const override;
  Status connect(const Digest &digest,
                 const std::vector<uint32_t> &peers) override;
  /// Connects all pairs of the traffic and, where memory is registered, does
  /// that too: groups of the traffic's shape, with messages as large as that
  /// needs, and its collectives. Runs kernels.
  Status warmUp() override;
  uint64_t leastBytesFor(const PlanCommon &common,
                         const RankProgram &program) const override;
  /// Addresses are on the GPU; what is sent must be there already. What is
  /// received is there when this returns.
  Status group(const std::vector<TransportMessage> &messages) override;
  /// Splits a communicator off for each set that this device is in; every rank
  /// takes part in all splits.
  Status
  prepareCollectives(const std::vector<std::vector<uint32_t>> &sets) override;
  Status collective(const CollectiveCall &call) override;
  /// From any thread: what is under way ends with an error, also on a rank that
  /// is between two groups.
  void abort(const Status &why) override;
  void leave() override;

  /// The arena is registered with NCCL, or a window, where all messages of all
  /// ranks lie in arenas: NCCL needs both ends of a message registered, or
  /// neither.
  Result<std::byte *> prepare(const Traffic &traffic) override;
  void start(std::function<Status()> enqueueAll) override;
  Status enqueue(size_t group, const std::vector<TransportMessage> &messages,
                 GpuStream stream) override;
  Status enqueueCollective(size_t group, const CollectiveCall &call,
                           GpuStream stream) override;
  bool stopped() const override;
  Status await(size_t group, const std::function<bool()> &reached) override;
  Status finish() override;
  bool capturable() const override;
  bool outlastsAbort() const override { return oneSided(); }
  void leakMemory() override;
  /// After `warmUp`: whether the waves write into peers' arenas.
  bool oneSided() const;

private:
  struct State;
  explicit NcclTransport(std::shared_ptr<State> state);
  std::shared_ptr<State> state;
};

/// Whether the NCCL of this process, or the one given, lets several ranks use
/// one GPU when asked to by NCCL_MULTI_RANK_GPU_ENABLE; with older ones each
/// rank needs an NCCL_HOSTID of its own.
bool ncclAllowsSharedGpus(const NcclApi *api = nullptr);

} // namespace dtrt

#endif // DTRT_NCCL_NCCLTRANSPORT_H
