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
#include <functional>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

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
    for (bool busy = true; busy;) {
      busy = false;
      for (ncclComm_t comm : comms) {
        ncclResult_t result;
        ASSERT_EQ(nccl.CommGetAsyncError(comm, &result), ncclSuccess);
        busy |= result == ncclInProgress;
      }
    }
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
/// beside them would never run where rank 1 launches them the other way round.
TEST(FakeNccl, NoticesTwoCommunicatorsAtWorkOnOneGpu) {
  TwoRanks ranks;
  ranks.exchange();
  EXPECT_TRUE(ranks.restsInTheEnd());
  ncclComm_t first[2] = {ranks.comms[0], ranks.comms[1]};
  ranks.connect();
  ranks.exchange();
  EXPECT_TRUE(ranks.restsInTheEnd());
  cudaStream_t another;
  cudaSetDevice(0);
  cudaStreamCreateWithFlags(&another, cudaStreamNonBlocking);
  ranks.message(0, /*receive=*/false, another);
  ranks.settle();
  std::swap(first, ranks.comms);
  ranks.message(0, /*receive=*/false);
  ranks.settle();
  ranks.abort();
  std::swap(first, ranks.comms);
  ranks.abort();
  EXPECT_TRUE(ranks.restsInTheEnd());
  EXPECT_EQ(cudaStreamSynchronize(another), cudaSuccess);
  cudaStreamDestroy(another);
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

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

namespace {

constexpr size_t kBlock = kBytes / 4; // one to give, two to get

/// Two ranks with two more communicators of both, which are split off.
class TwoSets : public TwoRanks {
public:
  using Comms = ncclComm_t[2];
  TwoSets() {
    for (Comms *set : {&first, &second}) {
      for (int rank : {0, 1})
        EXPECT_EQ(split(rank, /*color=*/0, *set), ncclInProgress);
      settle();
    }
  }

  ncclResult_t split(int rank, int color, Comms &made) {
    cudaSetDevice(rank);
    NcclConfig config = configOf();
    return nccl.CommSplit(comms[rank], color, rank, &made[rank], config.get());
  }
  char *giveOf(int rank) const { return static_cast<char *>(blocks[rank]); }
  char *getOf(int rank) const { return giveOf(rank) + 2 * kBlock; }
  void allGather(Comms &set, int rank, size_t bytes = kBlock) {
    nccl.AllGather(giveOf(rank), getOf(rank), bytes, ncclUint8, set[rank],
                   streams[rank]);
  }
  void broadcast(Comms &set, int rank, int root) {
    nccl.Broadcast(giveOf(rank), getOf(rank), kBlock, ncclUint8, root,
                   set[rank], streams[rank]);
  }
  void settle() { TwoRanks::settle(); }
  void settle(Comms &set) {
    std::swap(set, comms);
    TwoRanks::settle();
    std::swap(set, comms);
  }
  /// All communicators, and then what has been written down.
  void end(const std::string &fault = "") {
    for (Comms *set : {&first, &second}) {
      std::swap(*set, comms);
      abort();
      std::swap(*set, comms);
    }
    abort();
    EXPECT_TRUE(restsInTheEnd());
    if (!fault.empty())
      expectFault(fault);
  }

  Comms first = {}, second = {};
};

} // namespace

TEST(FakeNcclCollectives, Arrive) {
  TwoSets ranks;
  for (int rank : {0, 1})
    for (int block : {0, 1})
      cudaMemsetAsync(ranks.giveOf(rank) + block * kBlock, 10 * rank + block,
                      kBlock, ranks.streams[rank]);
  auto expectGot = [&](int rank, std::vector<int> values) {
    ranks.settle(ranks.first);
    EXPECT_TRUE(ranks.restsInTheEnd());
    for (size_t block = 0; block < values.size(); ++block)
      EXPECT_EQ(ranks.getOf(rank)[(block + 1) * kBlock - 1], values[block]);
  };
  for (int rank : {0, 1})
    ranks.broadcast(ranks.first, rank, /*root=*/1);
  expectGot(0, {10});
  for (int rank : {0, 1})
    ranks.allGather(ranks.first, rank);
  expectGot(0, {0, 10});
  expectGot(1, {0, 10});
  for (int rank : {0, 1})
    ranks.nccl.AlltoAll(ranks.giveOf(rank), ranks.getOf(rank), kBlock,
                        ncclUint8, ranks.first[rank], ranks.streams[rank]);
  expectGot(0, {0, 10});
  expectGot(1, {1, 11});
  ranks.end();
}

TEST(FakeNcclCollectives, WaitForAllMembers) {
  TwoSets ranks;
  for (int rank : {0, 1})
    ranks.allGather(ranks.first, rank); // connects
  ranks.settle(ranks.first);
  EXPECT_TRUE(ranks.restsInTheEnd());
  ranks.allGather(ranks.first, 0);
  ranks.settle(ranks.first);
  EXPECT_FALSE(ranks.restsInTheEnd());
  ranks.end();
}

TEST(FakeNcclCollectives, NoticesThatTheyDiffer) {
  auto expectNoticed = [](const std::function<void(TwoSets &)> &other) {
    TwoSets ranks;
    ranks.broadcast(ranks.first, 0, /*root=*/0);
    other(ranks);
    ranks.settle(ranks.first);
    ranks.end("collectives of one communicator differ");
  };
  expectNoticed([](TwoSets &ranks) { ranks.broadcast(ranks.first, 1, 1); });
  expectNoticed([](TwoSets &ranks) { ranks.allGather(ranks.first, 1); });
  TwoSets ranks;
  ranks.allGather(ranks.first, 0);
  ranks.allGather(ranks.first, 1, kBlock / 2);
  ranks.settle(ranks.first);
  ranks.end("has a all_gather of 1250 bytes from rank 0, another one a "
            "all_gather of 2500 bytes");
}

TEST(FakeNcclCollectives, NoticesTwoOrders) {
  TwoSets ranks;
  for (TwoSets::Comms *set : {&ranks.first, &ranks.second}) {
    for (int rank : {0, 1})
      ranks.allGather(*set, rank); // connects
    ranks.settle(*set);
    EXPECT_TRUE(ranks.restsInTheEnd());
  }
  for (int rank : {0, 1})
    for (TwoSets::Comms *set : {&ranks.first, &ranks.second}) {
      TwoSets::Comms &own =
          (rank == 1) == (set == &ranks.first) ? ranks.second : ranks.first;
      ranks.allGather(own, rank);
      ranks.settle(own);
    }
  ranks.end("come to the collectives of two communicators in two orders");
}

TEST(FakeNcclCollectives, NoticesOneBesideMessages) {
  for (bool after : {false, true}) {
    TwoSets ranks;
    auto send = [&] {
      ranks.nccl.Send(ranks.blocks[0], kBlock, ncclUint8, 1, ranks.comms[0],
                      ranks.streams[0]);
    };
    ranks.nccl.GroupStart();
    if (after)
      send();
    ranks.allGather(ranks.first, 0);
    if (!after)
      send();
    ranks.nccl.GroupEnd();
    ranks.end("a collective beside messages in one group");
  }
}

TEST(FakeNcclCollectives, NoticesOnesInTheMiddleOfATransferThatConnect) {
  TwoSets ranks;
  forbidFakeConnecting();
  for (int rank : {0, 1})
    ranks.allGather(ranks.first, rank);
  ranks.settle(ranks.first);
  ranks.end("a collective connects its ranks in the middle");
}

TEST(FakeNcclCollectives, NoticesTheUseOfWhatIsBeingSplitOff) {
  for (bool ofTheParent : {true, false}) {
    TwoSets ranks;
    ncclComm_t made[2] = {};
    for (int rank : {0, 1})
      ranks.split(rank, /*color=*/rank, made);
    EXPECT_EQ(made[0], nullptr);
    ranks.allGather(ofTheParent ? ranks.comms : made, 0);
    ranks.settle();
    for (ncclComm_t one : made)
      ranks.nccl.CommAbort(one);
    ranks.end(ofTheParent ? "a collective of a communicator that is busy"
                          : "a collective of a communicator that is not there");
  }
}

TEST(FakeNcclCollectives, ASplitTakesAllRanksOfItsParent) {
  TwoSets ranks;
  ncclComm_t made[2] = {};
  ranks.split(1, /*color=*/3, made);
  ncclResult_t result = ncclSuccess;
  for (int look = 0; look < 100; ++look)
    ranks.nccl.CommGetAsyncError(ranks.comms[1], &result);
  EXPECT_EQ(result, ncclInProgress);
  ranks.split(0, NCCL_SPLIT_NOCOLOR, made);
  ranks.settle();
  EXPECT_EQ(made[0], nullptr);
  ASSERT_NE(made[1], nullptr);
  ranks.nccl.CommAbort(made[1]);
  ranks.end();
}

TEST(FakeNcclCollectives, NoticesASplitBesideAGroup) {
  TwoSets ranks;
  ranks.exchange(); // connects
  EXPECT_TRUE(ranks.restsInTheEnd());
  ranks.message(0, /*receive=*/false); // which nobody takes
  ranks.settle();
  ncclComm_t made[2] = {};
  ranks.split(0, /*color=*/0, made);
  ranks.end("a communicator is split that has groups under way");
}

TEST(FakeNcclCollectives, NoticesASplitThatIsLeft) {
  TwoSets ranks;
  std::swap(ranks.first, ranks.comms);
  ranks.abort();
  std::swap(ranks.first, ranks.comms);
  ranks.abort();
  ranks.expectFault("2 communicators left");
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
