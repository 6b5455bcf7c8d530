//===- NcclCommunicator.h - A communicator that can be given up -*- C++ -*-===//
//
// NCCL's calls wait for other ranks: inside a call, on the GPU, and when a
// communicator is aborted or destroyed. So they run on a worker, and whoever
// waits for them looks at the clock, at NCCL's asynchronous errors, and at what
// other ranks say. When something fails, first all ranks are told why, then the
// communicator is aborted by a thread of its own, and no wait for that is long.
// A rank that says nothing to anybody any more is missed by its neighbour.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_NCCL_NCCLCOMMUNICATOR_H
#define DTRT_LIB_NCCL_NCCLCOMMUNICATOR_H

#include "NcclApi.h"

#include "dtrt/nccl/NcclTransport.h"

#include <functional>

namespace dtrt {

/// What is waited for, and who could be the cause when it does not end.
struct NcclPhase {
  std::string name;
  std::vector<uint32_t> peers; // devices, ascending
};

class NcclCommunicator {
public:
  NcclCommunicator(NcclOptions options, uint32_t rank);
  /// Leaves, and does not wait: it may run on one of the threads.
  ~NcclCommunicator();

  const NcclOptions &options() const;
  /// Of the thread that made this, if it has one.
  Result<int> gpu() const;
  uint32_t rank() const;
  Result<int> rankOf(uint32_t device) const;

  /// Collective: all ranks have this plan; then they have a communicator.
  Status connect(const Digest &digest);
  /// Collective, after `connect`: Rendezvous::agree, and its error made known.
  Result<std::string> agree(Step step, const std::string &record,
                            const Rendezvous::Judge &judge);

  /// Runs a job on the worker. One at a time; `finish` or `run` ends it.
  void start(std::function<Status()> job);
  /// Until reached(), which is cheap, is true. Fails when the job does.
  Status await(const NcclPhase &phase, const std::function<bool()> &reached);
  /// Until the job has ended.
  Status finish(const NcclPhase &phase);
  Status run(const NcclPhase &phase, std::function<Status()> job);

  // For jobs, on the worker.
  const NcclApi &api() const;
  int version() const;
  /// Calls of NCCL on the communicator, and their end. None of them runs while
  /// the communicator is aborted, or after it.
  using Calls = std::function<ncclResult_t(ncclComm_t)>;
  Status call(const Calls &calls);
  /// Collective: a communicator for each set of devices, which ascend. Ranks
  /// are numbered in that order.
  Status split(const std::vector<std::vector<uint32_t>> &sets);
  /// As `call`, on the communicator of a set that this device is in.
  Status callOn(size_t set, const Calls &calls);

  /// From any thread: whether this rank or another has stopped.
  bool stopped() const;
  /// From any thread: tells all ranks, and ends what runs, on this rank too
  /// when it is idle.
  void abort(const Status &why);
  /// No call will come. Returns at once; `release` runs on the worker while the
  /// communicator is still there, when it ends in good order, and `freeAll`
  /// once nothing of it is left, or it was aborted. Both may run when this is
  /// gone.
  using Release = std::function<void(const NcclApi &, ncclComm_t)>;
  void leave(Release release, std::function<void(bool aborted)> freeAll);
  /// After `leave`: until all of that has run, but not for long.
  void awaitEnd();

private:
  struct State;
  std::shared_ptr<State> state;
};

/// The devices of messages, ascending.
std::vector<uint32_t>
peersOfMessages(const std::vector<TransportMessage> &messages);

} // namespace dtrt

#endif // DTRT_LIB_NCCL_NCCLCOMMUNICATOR_H
