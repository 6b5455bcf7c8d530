//===- NcclWaysTest.cpp - Plans by every way over NCCL --------------------===//
//
// Calls that block or return, one graph, one-sided waves, each with digests and
// without: the same plans, cut at random places, in any order that events
// allow. What dt-run does as a process, here by threads.
//
//===----------------------------------------------------------------------===//

#include "FakeWorld.h"

#include "dtrt/nccl/NcclRun.h"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <thread>

using namespace dtrt;
using namespace dtrt::test;

namespace {

/// NCCL_GRAPH_REGISTER is 0 while this lives, as dt-run has it.
class AllowGraphs {
public:
  AllowGraphs() { setenv("NCCL_GRAPH_REGISTER", "0", /*overwrite=*/1); }
  ~AllowGraphs() { unsetenv("NCCL_GRAPH_REGISTER"); }
};

struct Way {
  const char *name;
  NcclCalls calls;
  bool graph, oneSided, digests;

  FakeRun run() const {
    FakeRun how;
    how.calls = calls;
    how.graph = graph;
    how.oneSided = oneSided;
    how.digests = digests;
    return how;
  }
};

constexpr Way kWays[] = {
    {"blocking", NcclCalls::Blocking, false, false, false},
    {"blockingDigests", NcclCalls::Blocking, false, false, true},
    {"returning", NcclCalls::Returning, false, false, false},
    {"returningDigests", NcclCalls::Returning, false, false, true},
    {"graph", NcclCalls::Blocking, true, false, false},
    {"graphDigests", NcclCalls::Blocking, true, false, true},
    {"oneSided", NcclCalls::Blocking, false, true, false},
    {"oneSidedDigests", NcclCalls::Blocking, false, true, true},
};

class NcclWays : public testing::TestWithParam<Way> {
protected:
  AllowGraphs allow;
};

size_t launchesOf(const std::string &what) {
  size_t count = 0;
  for (const FakeLaunch &launch : fakeGpuLaunches())
    count += launch.what == what;
  return count;
}

} // namespace

INSTANTIATE_TEST_SUITE_P(Nccl, NcclWays, testing::ValuesIn(kWays),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

TEST_P(NcclWays, EveryByteArrivesInAnyOrderThatEventsAllow) {
  for (int round = 0; round < 3; ++round)
    for (const TestPlan &plan :
         {reshapePlan(), forwardingPlan(), wavesPlan(), rowsToColumnsPlan(),
          mixedPlan(), relayPlan(), collectivePlan()})
      expectAllWell(runOnFakeNccl(plan, GetParam().run()));
}

TEST_P(NcclWays, EveryByteArrivesInFlatMemory) {
  for (TestPlan plan :
       {reshapePlan(), forwardingPlan(), wavesPlan(), rowsToColumnsPlan(),
        mixedPlan(), reshapePlan(MemoryMode::Flat), keptSquare()}) {
    if (plan.common.summary.mode != MemoryMode::Flat)
      makeFlat(plan, /*bytes=*/4096);
    expectAllWell(runOnFakeNccl(plan, GetParam().run()));
  }
}

TEST_P(NcclWays, TheWarmUpLeavesNothingToConnectOrToRegister) {
  FakeNcclOptions small;
  small.simpleBytes = 500; // the waves' messages are larger
  for (const TestPlan &plan : {wavesPlan(), mixedPlan(), collectivePlan()}) {
    resetFakeNccl(small);
    FakeRun how = GetParam().run();
    how.beforeRun = onceAllAreHere(plan.programs.size(), forbidFakeConnecting);
    expectAllWell(runOnFakeNccl(plan, how));
  }
}

TEST_P(NcclWays, ARankThatFailsIsHeardByAll) {
  TestPlan plan = wavesPlan();
  FakeRun how = GetParam().run();
  how.timeout = 20;
  // Its communicator takes no more groups: in the transfer, or in a capture.
  how.beforeRun = onceAllAreHere(plan.programs.size(),
                                 [] { breakFakeNccl(2, /*afterGroups=*/0); });
  Outcomes outcomes = runOnFakeNccl(plan, how);
  for (const auto &[device, outcome] : outcomes) {
    EXPECT_NE(outcome.error.find("remote process exited"), std::string::npos)
        << "device " << device << ": '" << outcome.error << "'";
    EXPECT_LT(outcome.seconds, how.timeout) << "device " << device;
  }
  if (GetParam().oneSided && !GetParam().digests)
    resetFakeGpus(); // waits that nothing ends are meant to stay
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

namespace {

/// What ranks put on streams in the transfer itself.
struct Launches {
  size_t graphs = 0, groups = 0;
};

Launches launchesOfATransfer() {
  TestPlan plan = wavesPlan();
  FakeRun how;
  how.graph = true;
  how.beforeRun = onceAllAreHere(plan.programs.size(), clearFakeGpuLaunches);
  expectAllWell(runOnFakeNccl(plan, how));
  return {launchesOf("graph"), launchesOf("group")};
}

} // namespace

TEST(NcclGraph, ATransferIsOneLaunch) {
  AllowGraphs allow;
  Launches found = launchesOfATransfer();
  EXPECT_EQ(found.graphs, 5u); // a rank each
}

/// NCCL would register the memory of captured messages at one end only.
TEST(NcclGraph, NoneIsMadeWhereNcclWouldRegisterMessages) {
  for (const char *value : {"1", ""}) {
    setenv("NCCL_GRAPH_REGISTER", value, 1);
    Launches found = launchesOfATransfer();
    EXPECT_EQ(found.graphs, 0u);
    EXPECT_EQ(found.groups, 20u); // four waves of five ranks
  }
  unsetenv("NCCL_GRAPH_REGISTER");
  EXPECT_EQ(launchesOfATransfer().graphs, 0u);
}

//===----------------------------------------------------------------------===//
// Ranks of dt-run
//===----------------------------------------------------------------------===//

namespace {

/// All ranks of a plan as dt-run starts them, which meet in a folder.
Outcomes runRanks(const PlanReader &plan, bool graph, bool oneSided) {
  std::string folder = testing::TempDir() + "/ranks-" + std::string(6, 'X');
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  Outcomes found = onDevices(plan.devices(), [&](uint32_t device) -> Status {
    NcclRunOptions options;
    options.check = true;
    const std::vector<uint32_t> &all = plan.devices();
    auto found = std::find(all.begin(), all.end(), device);
    options.rank = options.localRank = size_t(found - all.begin());
    options.store = folder;
    options.graph = graph;
    options.oneSided = oneSided;
    options.api = &fakeNccl();
    auto report = runNcclRank(plan, options);
    DTRT_RETURN_IF_ERROR(report);
    if (report->check.bytesChecked == 0 || report->check.mismatches > 0)
      return makeError(report->check.mismatches, " of ",
                       report->check.bytesChecked, " bytes are wrong");
    return report->bytesMoved > 0 ? Status() : makeError("nothing has moved");
  });
  std::filesystem::remove_all(folder);
  return found;
}

} // namespace

TEST(NcclRanks, MoveAPlanByEveryWay) {
  AllowGraphs allow;
  for (const TestPlan &test :
       {wavesPlan(), mixedPlan(), reshapePlan(), collectivePlan()}) {
    PlanReader plan = test.reader();
    expectAllWell(runRanks(plan, /*graph=*/false, /*oneSided=*/false));
    expectAllWell(runRanks(plan, /*graph=*/true, /*oneSided=*/false));
    expectAllWell(runRanks(plan, /*graph=*/false, /*oneSided=*/true));
  }
  EXPECT_GT(fakeNcclPuts(), 0);
  EXPECT_GT(launchesOf("graph"), 0u);
}

TEST(NcclRanks, OneThatThePlanHasNotIsAnError) {
  PlanReader plan = wavesPlan().reader();
  NcclRunOptions options;
  options.rank = 5;
  options.api = &fakeNccl();
  auto report = runNcclRank(plan, options);
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.status().message().find("rank 5 of a plan for 5 devices"),
            std::string::npos)
      << report.status().message();
}
