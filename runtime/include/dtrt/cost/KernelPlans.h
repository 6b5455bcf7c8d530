//===- KernelPlans.h - How NCCL takes a group apart -------------*- C++ -*-===//
//
// NCCL runs the operations of a group round by round: in a round a rank sends
// to one peer and receives from one peer, and every ordered pair has its own
// round, the same at both ends. Operations are put into kernel plans in that
// order; a plan that is full is cut off, and the next goes on. Where the cuts
// fall depends on the rank's own operations, so here they fall at random.
//
// Learned from NCCL 2.28.9 and 2.30.7, src/init.cc (ncclP2pSchedule) and
// src/enqueue.cc (scheduleP2pTasksToPlan); docs/ExecutionModel.md has the rest.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_COST_KERNELPLANS_H
#define DTRT_COST_KERNELPLANS_H

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace dtrt {

/// Batches of a kernel plan: 4 KiB of kernel arguments (ncclMaxKernelArgsSize
/// in src/include/device.h) less a header of 32 B (ncclDevKernelArgs), 16 B
/// each (ncclDevWorkBatch).
constexpr unsigned kKernelPlanBatches = (4096 - 32) / 16;
/// Most channels of a communicator here. NCCL's own limit is 64 (MAXCHANNELS),
/// with which four messages need not fit one plan, so that NcclTransport asks
/// for no more than these (maxCTAs).
constexpr unsigned kMaxChannels = 32;
/// Most messages, out and in, of a rank in a group. A message takes one batch
/// on each of its channels at most (addP2pToPlan), and is taken into a plan
/// that has room for that many (testBudget): so many fit one plan whatever
/// their size, and the group is not cut. Schedules need four, and use
/// all where ports carry several at once (Cluster::messagesPerPort).
constexpr unsigned kMaxGroupMessages = kKernelPlanBatches / kMaxChannels;

/// Whom a rank sends to, and receives from, in one round.
struct RoundPeers {
  uint32_t send = 0;
  uint32_t receive = 0;
};

/// The rounds of one rank in a world whose node i has `localRanks[i]` ranks,
/// numbered node by node.
std::vector<RoundPeers> roundsOf(uint32_t rank,
                                 const std::vector<uint32_t> &localRanks);

/// One operation of a group.
struct GroupOperation {
  bool receive = false;
  uint32_t peer = 0;
};

/// A send and a receive of one round, taken together; kNone: there is none.
struct Work {
  static constexpr size_t kNone = SIZE_MAX;
  size_t send = kNone; // index of the operation in its group
  size_t receive = kNone;
};

/// Works that are in flight together; the next batch waits for all of them.
using Batch = std::vector<Work>;

struct Adversary {
  /// How likely a kernel plan ends before a work.
  double cutProbability = 0.25;
  /// Works per batch, at most; NCCL's is 8.
  unsigned maxBatch = 8;
  /// A plan after a cut starts again at round 0, as NCCL up to 2.29.3 does;
  /// else it goes on at the round of the cut.
  bool restartRounds = true;
};

/// The batches of a rank's group, in the order in which they run. Cuts end
/// batches, and so do random places inside a plan.
std::vector<Batch> batchesOf(const std::vector<GroupOperation> &group,
                             const std::vector<RoundPeers> &rounds,
                             const Adversary &adversary, std::mt19937_64 &rng);

} // namespace dtrt

#endif // DTRT_COST_KERNELPLANS_H
