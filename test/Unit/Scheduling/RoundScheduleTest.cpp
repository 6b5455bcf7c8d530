//===- RoundScheduleTest.cpp - Rounds from routes to waves ----------------===//

#include "dt/Scheduling/RoundSchedule.h"
#include "RandomFlows.h"
#include "Solved.h"
#include "SolvedWaves.h"
#include "dt/Routing/RoundTree.h"
#include "dt/Scheduling/RouteSchedule.h"

#include <map>
#include <random>

using namespace dt;
using namespace dt::testing;

namespace {

/// One device's data for `perNode` devices on each of `nodes` other nodes of
/// eight, and for `near` of its own.
RoutingProblem multicast(int64_t nodes, int64_t perNode, int64_t near,
                         int64_t bytes) {
  Flow flow;
  flow.bytesPerElement = 1;
  Box whole = Box::whole({bytes});
  flow.source.ownerSets = {{0}};
  flow.source.cells = {{whole, 0}};
  flow.destination.ownerSets.emplace_back();
  for (int64_t device = 1; device <= near; ++device)
    flow.destination.ownerSets[0].push_back(device);
  for (int64_t node = 1; node <= nodes; ++node)
    for (int64_t device = 0; device < perNode; ++device)
      flow.destination.ownerSets[0].push_back(8 * node + device);
  flow.destination.cells = {{whole, 0}};
  return RoutingProblem({flow}, Cluster(), int64_t(1) << 30);
}

RouterOptions inRounds() {
  RouterOptions options;
  options.forwarding = Forwarding::Rounds;
  return options;
}

int64_t ceilLog2(int64_t size) {
  int64_t out = 0;
  while (int64_t(1) << out < size)
    ++out;
  return out;
}

/// Waves of a problem in rounds, and blocks; both sides are verified.
std::pair<int64_t, int64_t> wavesAndBlocks(const RoutingProblem &problem) {
  Routing routing = solved(problem, inRounds());
  std::map<int64_t, int64_t> received;
  int64_t blocks = 0;
  for (const Move &move : routing.moves)
    blocks = std::max(blocks, ++received[move.destination]);
  WaveProblem waves = waveProblem(problem, routing.moves);
  WaveSchedule schedule = solved(waves, scheduleRounds);
  int32_t last = -1;
  for (const ScheduledMove &piece : schedule.moves)
    last = std::max(last, piece.wave);
  return {last + 1, blocks};
}

} // namespace

// What a holder sends at the end and nobody passes on names no round: that may
// cost one wave.
TEST(RoundSchedule, ABroadcastTakesTheFewestWavesOrOneMore) {
  int fewest = 0, all = 0;
  for (int64_t nodes : {1, 2, 3, 4, 5, 6, 7, 8, 11, 15, 16, 23, 31, 47, 63})
    for (int64_t bytes : {1, 1 << 16, 1 << 20, 1 << 24, 1 << 28}) {
      SCOPED_TRACE(std::to_string(nodes) + " nodes, " + std::to_string(bytes) +
                   " bytes");
      auto [waves, blocks] = wavesAndBlocks(multicast(nodes, 1, 0, bytes));
      EXPECT_GE(waves, blocks - 1 + ceilLog2(nodes + 1));
      EXPECT_LE(waves, blocks + ceilLog2(nodes + 1));
      fewest += waves == blocks - 1 + ceilLog2(nodes + 1);
      ++all;
    }
  EXPECT_GT(fewest, all * 3 / 4);
}

TEST(RoundSchedule, InsideANodeItTakesAsFew) {
  for (int64_t near = 2; near <= 7; ++near) {
    auto [waves, blocks] = wavesAndBlocks(multicast(0, 0, near, 1 << 26));
    EXPECT_GE(waves, blocks - 1 + ceilLog2(near + 1));
    EXPECT_LE(waves, blocks + ceilLog2(near + 1));
  }
}

TEST(RoundSchedule, BothLevelsShareTheirWaves) {
  for (int64_t nodes : {1, 3, 7, 15}) {
    auto [waves, blocks] = wavesAndBlocks(multicast(nodes, 8, 7, 1 << 26));
    EXPECT_LE(waves, blocks + ceilLog2(nodes + 1) + 3);
    EXPECT_GT(blocks, 10);
  }
}

// Rails take as many waves as their rounds, or few more: what holders send is
// not named.
TEST(RoundSchedule, RailsTakeAsFewWavesAsTheirRounds) {
  for (int64_t nodes : {1, 2, 3, 7, 15})
    for (int64_t holders : {1, 8}) {
      SCOPED_TRACE(std::to_string(nodes) + " nodes, " +
                   std::to_string(holders) + " holders");
      RoutingProblem problem = multicast(nodes, 8, 8 - holders, 1 << 26);
      if (holders == 8) {
        std::vector<Flow> flows = problem.flows();
        flows[0].source.ownerSets = {{0, 1, 2, 3, 4, 5, 6, 7}};
        problem = RoutingProblem(flows, Cluster(), int64_t(1) << 30);
      }
      RouterOptions options;
      options.forwarding = Forwarding::Rails;
      Routing routing = solved(problem, options);
      uint32_t rounds = 0;
      for (const Move &move : routing.moves)
        rounds = std::max(rounds, move.hop + 1);
      WaveProblem waves = waveProblem(problem, routing.moves);
      WaveSchedule schedule = solved(waves, scheduleRounds);
      EXPECT_LE(schedule.moves.back().wave, int32_t(rounds) + 1);
      EXPECT_GT(rounds, 10u);
    }
}

TEST(RoundSchedule, RandomRailsAreRight) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  RouterOptions options;
  options.forwarding = Forwarding::Rails;
  int onRails = 0;
  for (int trial = 0; trial < 600; ++trial) {
    RandomTransition t = randomTransition(random);
    t.cluster.devicesPerNic =
        t.cluster.devicesPerNode % 2 ? 1 : random() % 2 + 1;
    RoutingProblem problem(t.flows, t.cluster, int64_t(1) << 20);
    Routing routing;
    if (routeGreedily(problem, options, routing))
      continue;
    ++onRails;
    auto broken = problem.verify(routing);
    ASSERT_FALSE(broken) << *broken;
    solved(waveProblem(problem, routing.moves), scheduleRounds);
  }
  EXPECT_GT(onRails, 30);
}

TEST(RoundSchedule, RandomRoutesAreRight) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int rounds = 0;
  for (int trial = 0; trial < 300; ++trial) {
    RandomTransition t = randomTransition(random);
    RoutingProblem problem(t.flows, t.cluster, int64_t(1) << 20);
    Routing routing = solved(problem, inRounds());
    int64_t wire = 0;
    for (const Move &move : routing.moves) {
      wire += move.box.volume() * t.flows[move.flow].bytesPerElement;
      rounds += move.hop > 0;
    }
    ASSERT_EQ(wire, problem.bounds().wireBytes);
    solved(waveProblem(problem, routing.moves), scheduleRounds);
  }
  EXPECT_GT(rounds, 100);
}

TEST(RoundSchedule, SaysWhatStagingItNeeds) {
  RoutingProblem problem = multicast(3, 1, 0, 1 << 20);
  Routing routing = solved(problem, inRounds());
  WaveProblem waves = waveProblem(problem, routing.moves);
  waves.stagingBytes = 1 << 10;
  WaveSchedule schedule;
  auto error = scheduleRounds(waves, {}, schedule);
  ASSERT_TRUE(error);
  EXPECT_NE(error->find("more than the limit of 1024"), std::string::npos)
      << *error;
}

// An all-gather of four nodes of eight: what holders send to another node has
// messages as long as what goes inside beside them.
TEST(RoundSchedule, AnAllGatherHasBothLevelsBusyAtOnce) {
  constexpr int64_t kNodes = 4, kDevices = 8 * kNodes;
  constexpr int64_t kPart = int64_t(1) << 23;
  Flow flow;
  flow.bytesPerElement = 1;
  flow.destination.ownerSets.emplace_back();
  for (int64_t device = 0; device < kDevices; ++device) {
    Box part = Box::whole({kPart});
    part[0] = {device * kPart, (device + 1) * kPart};
    flow.source.ownerSets.push_back({device});
    flow.source.cells.push_back({part, uint32_t(device)});
    flow.destination.ownerSets[0].push_back(device);
  }
  flow.destination.cells = {{Box::whole({kDevices * kPart}), 0}};
  Cluster cluster;
  cluster.packGBps = 1e9;
  cluster.packLaunchUs = 0;
  RoutingProblem problem({flow}, cluster, int64_t(1) << 30);
  RouterOptions options;
  options.forwarding = Forwarding::Rails;
  options.mostRoundMoves = 1 << 17;
  WaveProblem waves = waveProblem(problem, solved(problem, options).moves);
  WaveSchedule schedule = solved(waves, scheduleRoundsApart);
  double between = double((kNodes - 1) * kPart) / 25e9;
  double lastExchange = double(7 * kPart) / 200e9;
  // Seven rounds of the first parts, and three for each exchange.
  EXPECT_EQ(schedule.moves.back().wave + 1, 7 + 3 * (kNodes - 1));
  EXPECT_LT(waves.seconds(schedule.moves),
            between + lastExchange + 16 * cluster.waveSeconds() + 1e-6);
}
