//===- NcclBuffersTest.cpp - Memory that NCCL has for messages ------------===//

#include "PlanBuilder.h"

#include "dtrt/core/BoxCopy.h"
#include "dtrt/core/CopyTable.h"
#include "dtrt/core/NcclPeers.h"

#include <gtest/gtest.h>

using namespace dtrt;
using namespace dtrt::test;

namespace {

constexpr uint64_t kMiB = 1 << 20;

} // namespace

/// Per channel and peer of the node: a sender has a head of 4 KiB, 2 MiB as
/// allocated. A receiver has 4,096 + LL 8 x 512 x 8 x 16 = 524,288 + LL128
/// 120 x 640 x 8 x 8 = 4,915,200 + 4,194,304 = 9,637,888 bytes, 10 MiB as
/// allocated. With 8 channels, 3 peers to send to and 2 to receive from:
/// 8 x (3 x 2 + 2 x 10) = 208 MiB.
TEST(NcclBuffers, InsideANodeEachPairAndChannelHasItsOwn) {
  NcclPeers peers;
  peers.localTo = 3;
  peers.localFrom = 2;
  NcclBuffers buffers = ncclBuffersOf(peers, {8});
  EXPECT_EQ(buffers.local, 208 * kMiB);
  EXPECT_EQ(buffers.network, 0u);
}

/// 32 channels x 16 steps x 512 KiB = 256 MiB for what is sent, and as much for
/// what is received, to however many peers; 64 MiB with NCCL's own pieces of
/// 128 KiB.
TEST(NcclBuffers, ThroughTheNetworkAllPeersShareThem) {
  NcclPeers peers;
  peers.remoteTo = 5;
  EXPECT_EQ(ncclBuffersOf(peers, {8}).network, 256 * kMiB);
  peers.remoteFrom = 1;
  EXPECT_EQ(ncclBuffersOf(peers, {8}).network, 512 * kMiB);
  EXPECT_EQ(ncclBuffersOf(peers, {8, 32, 128 << 10}).network, 128 * kMiB);
  EXPECT_EQ(ncclBuffersOf(peers, {8}).local, 0u);
}

TEST(NcclBuffers, ChannelsAreThoseOfTheClusterOrOfOurCommunicators) {
  Cluster cluster;
  EXPECT_EQ(mostNcclTerms(cluster, /*severalNodes=*/true).perPeer, 8);
  EXPECT_EQ(mostNcclTerms(cluster, /*severalNodes=*/false).perPeer, 32);
  EXPECT_EQ(leastNcclTerms(cluster, true, 1 << 20).perPeer, 8);
  EXPECT_EQ(leastNcclTerms(cluster, true, 1 << 20).netChunk, 512u << 10);
  EXPECT_EQ(leastNcclTerms(cluster, false, 1 << 17).perPeer, 2);
  EXPECT_EQ(leastNcclTerms(cluster, false, 1 << 17).netChunk, 128u << 10);
  cluster.channelsPerPeer = 4;
  EXPECT_EQ(mostNcclTerms(cluster, true).perPeer, 4);
  EXPECT_EQ(leastNcclTerms(cluster, false, 1 << 17).perPeer, 4);
}

/// Rings have buffers of their own; an all-to-all has messages with all
/// members.
TEST(NcclBuffers, AnAllToAllHasMessages) {
  TestPlan plan = collectivePlan();
  plan.common.cluster.devicesPerNode = 8;
  RankProgram &program = plan.programs[0];
  auto peers = [&] { return ncclPeersOf(plan.common, program); };
  EXPECT_EQ(peers().localTo, 2u);
  EXPECT_EQ(peers().localFrom, 2u);
  for (Instruction &instruction : program.instructions)
    if (instruction.collective)
      instruction.collective->kind = CollectiveKind::AllGather;
  EXPECT_EQ(peers().localTo + peers().localFrom, 0u);
}

/// Device 0 has all; 1 is beside it, 2 on another node. A peer is counted once
/// for each direction, however many messages it has.
TEST(NcclBuffers, PeersAreThoseOfMessages) {
  Family family = makeFamily("w", {}, {8, 4});
  TestPlan plan = makePlan({family}, {{box(0, {{0, 8}, {0, 4}})}, {}, {}},
                           {{box(0, {{0, 2}, {0, 4}})},
                            {box(0, {{0, 4}, {0, 4}})},
                            {box(0, {{4, 8}, {0, 4}})}});
  plan.common.cluster.devicesPerNode = 2;
  NcclPeers first = ncclPeersOf(plan.common, plan.programs[0]);
  EXPECT_EQ(first.localTo, 1u);
  EXPECT_EQ(first.remoteTo, 1u);
  EXPECT_EQ(first.localFrom + first.remoteFrom, 0u);
  // 8 channels x 2 MiB, and 256 MiB for what is sent.
  ASSERT_TRUE(hasSeveralNodes(plan.common));
  auto buffersOf = [&](size_t device) {
    return ncclBuffersOf(ncclPeersOf(plan.common, plan.programs[device]),
                         mostNcclTerms(plan.common.cluster, true));
  };
  EXPECT_EQ(buffersOf(0).local, 16 * kMiB);
  EXPECT_EQ(buffersOf(0).network, 256 * kMiB);
  // 8 channels x 10 MiB.
  EXPECT_EQ(buffersOf(1).local, 80 * kMiB);
  EXPECT_EQ(buffersOf(2).network, 256 * kMiB);
}

/// One box is one row: device 0 copies one to itself and packs two, the others
/// unpack one each.
TEST(NcclBuffers, ATableHasARowForEachBox) {
  Family family = makeFamily("w", {}, {8, 4});
  TestPlan plan = makePlan({family}, {{box(0, {{0, 8}, {0, 4}})}, {}, {}},
                           {{box(0, {{0, 2}, {0, 4}})},
                            {box(0, {{0, 4}, {0, 4}})},
                            {box(0, {{4, 8}, {0, 4}})}});
  auto rows = [&](size_t device) {
    auto bytes = copyTableBytes(plan.common, plan.programs[device]);
    EXPECT_TRUE(bytes.ok()) << bytes.status().message();
    return *bytes / sizeof(BoxCopy);
  };
  EXPECT_EQ(rows(0), 3u);
  EXPECT_EQ(rows(1), 1u);
  EXPECT_EQ(rows(2), 1u);
}
