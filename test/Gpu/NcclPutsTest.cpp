//===- NcclPutsTest.cpp - Waves that write into peers' arenas -------------===//
//
// Every byte arrives in any order that streams and signals allow; where the
// library, the communicator or the plan does not have it, pairs do the same;
// and what is put late, after a failure, meets no memory in use.
//
//===----------------------------------------------------------------------===//

#include "FakeWorld.h"

#include <gtest/gtest.h>
#include <thread>

using namespace dtrt;
using namespace dtrt::test;

namespace {

FakeRun puts() {
  FakeRun how;
  how.oneSided = true;
  return how;
}

} // namespace

TEST(NcclPuts, EveryByteArrivesInAnyOrder) {
  for (int round = 0; round < 20; ++round)
    expectAllWell(runOnFakeNccl(wavesPlan(), puts()));
  // Five ranks, four waves, one message to each other rank.
  EXPECT_EQ(fakeNcclPuts(), 20 * 5 * 4);
}

TEST(NcclPuts, PlansOfOtherShapesArriveToo) {
  for (int round = 0; round < 10; ++round)
    expectAllWell(runOnFakeNccl(reshapePlan(), puts()));
  EXPECT_GT(fakeNcclPuts(), 0);
}

TEST(NcclPuts, TheWarmUpLeavesNothingToSetUp) {
  TestPlan plan = wavesPlan();
  FakeRun how = puts();
  how.beforeRun = onceAllAreHere(plan.programs.size(), forbidFakeConnecting);
  expectAllWell(runOnFakeNccl(plan, how));
  EXPECT_GT(fakeNcclPuts(), 0);
}

//===----------------------------------------------------------------------===//
// Pairs instead
//===----------------------------------------------------------------------===//

TEST(NcclPuts, MessagesOutsideArenasGoInPairs) {
  expectAllWell(runOnFakeNccl(mixedPlan(), puts()));
  expectAllWell(runOnFakeNccl(rowsToColumnsPlan(), puts()));
  expectAllWell(runOnFakeNccl(forwardingPlan(), puts()));
  EXPECT_EQ(fakeNcclPuts(), 0);
}

TEST(NcclPuts, LibrariesWithoutThemUsePairs) {
  NcclApi older = fakeNccl();
  older.WaitSignal = nullptr;
  FakeRun how = puts();
  how.api = &older;
  expectAllWell(runOnFakeNccl(wavesPlan(), how));
  EXPECT_EQ(fakeNcclPuts(), 0);
}

TEST(NcclPuts, CommunicatorsWithoutThemUsePairs) {
  FakeNcclOptions options;
  options.oneSided = false;
  resetFakeNccl(options);
  expectAllWell(runOnFakeNccl(wavesPlan(), puts()));
  EXPECT_EQ(fakeNcclPuts(), 0);
}

TEST(NcclPuts, DriversWithoutThemUsePairs) {
  FakeGpuOptions gpus;
  gpus.gpus = 8;
  gpus.driver = 12040;
  resetFakeGpus(gpus);
  expectAllWell(runOnFakeNccl(wavesPlan(), puts()));
  EXPECT_EQ(fakeNcclPuts(), 0);
}

/// The plan's arenas differ in size; a library that is older takes that for
/// an error of its user.
TEST(NcclPuts, WindowsAreOfOneSizeWhereALibraryNeedsThat) {
  for (int version : {NCCL_VERSION(2, 29, 2), NCCL_VERSION(2, 30, 4),
                      NCCL_VERSION(2, 30, 7)}) {
    FakeNcclOptions options;
    options.version = version;
    resetFakeNccl(options);
    expectAllWell(runOnFakeNccl(reshapePlan(), puts()));
    EXPECT_GT(fakeNcclPuts(), 0);
    EXPECT_EQ(fakeWindowSizes() == 1, version < NCCL_VERSION(2, 30, 7))
        << version;
  }
}

TEST(NcclPuts, TheyAreUsedOnlyWhenAskedFor) {
  expectAllWell(runOnFakeNccl(wavesPlan()));
  EXPECT_EQ(fakeNcclPuts(), 0);
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

/// A rank fails when all puts are still under way; they arrive after all ranks
/// have given up, and their shards are gone.
TEST(NcclPuts, WhatIsPutLateMeetsNoMemoryInUse) {
  TestPlan plan = wavesPlan();
  FakeRun how = puts();
  how.beforeRun = onceAllAreHere(plan.programs.size(), [] {
    haltFakePuts(true);
    // The first signals are one group, a wave two.
    breakFakeNccl(/*rank=*/2, /*afterGroups=*/5);
  });
  Outcomes outcomes = runOnFakeNccl(plan, how);
  // A rank that had not launched any yet when the other failed frees its own.
  size_t keep = 0;
  for (const auto &[device, outcome] : outcomes) {
    EXPECT_NE(outcome.error.find("remote process exited"), std::string::npos)
        << "device " << device << ": " << outcome.error;
    keep += outcome.error.find("its memory is not freed") != std::string::npos;
    EXPECT_LT(outcome.seconds, 5) << "device " << device;
  }
  EXPECT_GT(keep, 0u);
  size_t stuck = fakeGpuPending();
  haltFakePuts(false);
  for (int i = 0; i < 20000; ++i)
    stepFakeGpus();
  EXPECT_LT(fakeGpuPending(), stuck);
  for (const std::string &fault : fakeGpuFaults())
    EXPECT_EQ(fault.find("touches"), std::string::npos) << fault;
  resetFakeGpus(); // what stays is meant to
}
