//===- FakeNcclTest.cpp - The fake NCCL notices what it should ------------===//
//
// Two ranks of one thread: their communicators do not block, so that calls of
// both are under way at a time.
//
//===----------------------------------------------------------------------===//

#include "FakeNccl.h"
#include "NcclConfig.h"

#include <algorithm>
#include <atomic>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <thread>

using namespace dtrt;
using namespace dtrt::test;

namespace {

constexpr size_t kBytes = 10000; // above FakeNcclOptions::simpleBytes

/// Whether a fault says this; then nothing is known of it any more.
void expectFault(const std::string &text) {
  std::vector<std::string> faults = fakeNcclFaults();
  EXPECT_TRUE(std::any_of(faults.begin(), faults.end(),
                          [&](const std::string &fault) {
                            return fault.find(text) != std::string::npos;
                          }))
      << "no fault says '" << text << "'";
  clearFakeNcclFaults();
  resetFakeNccl();
  resetFakeGpus();
}

NcclConfig configOf(bool blocking = false) {
  NcclWishes wishes;
  wishes.blocking = blocking;
  return makeNcclConfig(NCCL_VERSION_CODE, wishes);
}

/// A world of two ranks, each on a GPU with a stream and memory.
class TwoRanks {
public:
  TwoRanks() {
    FakeGpuOptions two;
    two.gpus = 2;
    resetFakeGpus(two);
    connect();
    for (int rank : {0, 1}) {
      cudaSetDevice(rank);
      cudaStreamCreateWithFlags(&streams[rank], cudaStreamNonBlocking);
      cudaMalloc(&blocks[rank], kBytes);
    }
  }
  ~TwoRanks() { leave(); }
  TwoRanks(const TwoRanks &) = delete;

  /// Another world of the same GPUs, which later calls are of.
  void connect() {
    ncclUniqueId id;
    nccl.GetUniqueId(&id);
    for (int rank : {0, 1}) {
      cudaSetDevice(rank);
      NcclConfig config = configOf();
      nccl.CommInitRankConfig(&comms[rank], 2, id, rank, config.get());
    }
    settle();
  }
  /// A group of one message, to the other rank or from it.
  ncclResult_t message(int rank, bool receive, cudaStream_t stream = nullptr) {
    stream = stream ? stream : streams[rank];
    nccl.GroupStart();
    receive ? nccl.Recv(blocks[rank], kBytes, ncclUint8, 1 - rank, comms[rank],
                        stream)
            : nccl.Send(blocks[rank], kBytes, ncclUint8, 1 - rank, comms[rank],
                        stream);
    return nccl.GroupEnd();
  }
  void exchange() {
    message(0, /*receive=*/false);
    message(1, /*receive=*/true);
    settle();
  }
  /// Until no call is in progress.
  void settle() {
    for (int rank : {0, 1})
      for (ncclResult_t result = ncclInProgress; result == ncclInProgress;)
        ASSERT_EQ(nccl.CommGetAsyncError(comms[rank], &result), ncclSuccess);
  }
  /// Whether both streams are at rest, after a while.
  bool restsInTheEnd() {
    for (int look = 0; look < 10000; ++look)
      if (cudaStreamQuery(streams[0]) == cudaSuccess &&
          cudaStreamQuery(streams[1]) == cudaSuccess)
        return true;
    return false;
  }
  /// Both, as neither ends before the other.
  void abort() {
    std::thread other([this] { nccl.CommAbort(comms[1]); });
    nccl.CommAbort(comms[0]);
    other.join();
  }
  void leave() {
    for (int rank : {0, 1}) {
      if (streams[rank])
        cudaStreamDestroy(streams[rank]);
      if (blocks[rank])
        cudaFree(blocks[rank]);
      streams[rank] = nullptr;
      blocks[rank] = nullptr;
    }
  }
  void expectFault(const std::string &text) {
    leave();
    ::expectFault(text);
  }

  const NcclApi &nccl = fakeNccl();
  ncclComm_t comms[2] = {};
  cudaStream_t streams[2] = {};
  void *blocks[2] = {};
};

} // namespace

TEST(FakeNccl, AMessageArrives) {
  TwoRanks ranks;
  cudaMemsetAsync(ranks.blocks[0], 7, kBytes, ranks.streams[0]);
  ranks.exchange();
  EXPECT_TRUE(ranks.restsInTheEnd());
  EXPECT_EQ(static_cast<char *>(ranks.blocks[1])[kBytes - 1], 7);
  ranks.abort();
}

TEST(FakeNccl, AMessageRegisteredAtOneEndNeverArrives) {
  for (bool both : {true, false}) {
    TwoRanks ranks;
    void *registrations[2];
    for (int rank : {0, 1})
      if (both || rank == 0)
        ranks.nccl.CommRegister(ranks.comms[rank], ranks.blocks[rank], kBytes,
                                &registrations[rank]);
    ranks.exchange();
    EXPECT_EQ(ranks.restsInTheEnd(), both);
    ranks.abort();
    EXPECT_TRUE(ranks.restsInTheEnd());
    if (!both)
      ranks.expectFault("registered at one end only");
  }
}

TEST(FakeNccl, AnAbortStaysUntilThePeersHaveAborted) {
  TwoRanks ranks;
  ranks.exchange();
  EXPECT_TRUE(ranks.restsInTheEnd());
  std::atomic<bool> ended{false};
  std::thread first([&] {
    ranks.nccl.CommAbort(ranks.comms[0]);
    ended = true;
  });
  while (fakeNcclAborts() < 1)
    std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(ended);
  ranks.nccl.CommAbort(ranks.comms[1]);
  first.join();
}

TEST(FakeNccl, AnAbortEndsKernelsThatWaitForAPeer) {
  TwoRanks ranks;
  ranks.exchange();
  ranks.message(0, /*receive=*/false);
  ranks.settle();
  EXPECT_FALSE(ranks.restsInTheEnd());
  ranks.abort();
  EXPECT_TRUE(ranks.restsInTheEnd());
}

/// Rank 0's kernels of one world wait for rank 1's; those of another world
/// behind them would never run where rank 1 launches them the other way round.
TEST(FakeNccl, NoticesTwoCommunicatorsAtWorkOnOneGpu) {
  TwoRanks ranks;
  ranks.exchange();
  EXPECT_TRUE(ranks.restsInTheEnd());
  ncclComm_t first[2] = {ranks.comms[0], ranks.comms[1]};
  ranks.connect();
  ranks.exchange();
  EXPECT_TRUE(ranks.restsInTheEnd());
  ranks.message(0, /*receive=*/false);
  ranks.settle();
  std::swap(first, ranks.comms);
  ranks.message(0, /*receive=*/false);
  ranks.settle();
  ranks.abort();
  std::swap(first, ranks.comms);
  ranks.abort();
  EXPECT_TRUE(ranks.restsInTheEnd());
  ranks.expectFault("groups of two communicators are under way on one GPU");
}

TEST(FakeNccl, NoticesFirstUsesInTheMiddleOfATransfer) {
  for (bool registers : {false, true}) {
    TwoRanks ranks;
    void *registrations[2];
    if (registers) {
      ranks.exchange(); // connects
      EXPECT_TRUE(ranks.restsInTheEnd());
      for (int rank : {0, 1})
        ranks.nccl.CommRegister(ranks.comms[rank], ranks.blocks[rank], kBytes,
                                &registrations[rank]);
    }
    forbidFakeConnecting();
    ranks.exchange();
    EXPECT_TRUE(ranks.restsInTheEnd());
    ranks.abort();
    ranks.expectFault(registers
                          ? "memory is registered with a peer in the middle"
                          : "a pair is connected in the middle");
  }
}

TEST(FakeNccl, NoticesGroupsThatNcclRefuses) {
  TwoRanks ranks;
  const NcclApi &nccl = ranks.nccl;
  nccl.GroupStart();
  for (int i = 0; i < 2; ++i)
    nccl.Send(ranks.blocks[0], kBytes, ncclUint8, 1, ranks.comms[0],
              ranks.streams[0]);
  nccl.GroupEnd();
  ranks.abort();
  ranks.expectFault("two messages of one ordered pair");
}

TEST(FakeNccl, NoticesAStreamOfAnotherGpu) {
  TwoRanks ranks;
  ranks.message(0, /*receive=*/false, ranks.streams[1]);
  ranks.abort();
  ranks.expectFault("a stream of another GPU");
}

TEST(FakeNccl, NoticesTwoRanksOnOneGpu) {
  ncclUniqueId id;
  fakeNccl().GetUniqueId(&id);
  ncclComm_t comms[2];
  for (int rank : {0, 1}) {
    NcclConfig config = configOf();
    fakeNccl().CommInitRankConfig(&comms[rank], 2, id, rank, config.get());
  }
  expectFault("two ranks of a communicator use one GPU");
}

TEST(FakeNccl, NoticesCommunicatorsThatCannotBeGivenUpWhileMade) {
  ncclUniqueId id;
  fakeNccl().GetUniqueId(&id);
  ncclComm_t comm;
  NcclConfig config = configOf(/*blocking=*/true);
  fakeNccl().CommInitRankConfig(&comm, 1, id, 0, config.get());
  expectFault("cannot be given up while it is made");
}

TEST(FakeNccl, NoticesWhatIsLeft) {
  TwoRanks ranks;
  void *registration;
  ranks.nccl.CommRegister(ranks.comms[0], ranks.blocks[0], kBytes,
                          &registration);
  ranks.nccl.CommFinalize(ranks.comms[0]);
  ranks.settle();
  ranks.nccl.CommDestroy(ranks.comms[0]);
  std::vector<std::string> faults = fakeNcclFaults();
  EXPECT_EQ(std::count(faults.begin(), faults.end(), "1 communicators left"),
            1);
  ranks.nccl.CommAbort(ranks.comms[1]);
  ranks.expectFault("a communicator is destroyed that has registrations");
}
