//===- BestRouteTest.cpp - All-gathers in the faster of two ways ----------===//

#include "dt/Routing/BestRoute.h"
#include "Solved.h"
#include "dt/Routing/Router.h"
#include "dt/Scheduling/RouteSchedule.h"

#include <random>

using namespace dt;
using namespace dt::testing;

namespace {

/// All of the first nodes have a part of so many bytes, which all others want.
RoutingProblem allGather(const Cluster &cluster, int64_t nodes, int64_t part) {
  int64_t devices = nodes * cluster.devicesPerNode;
  Flow flow;
  flow.bytesPerElement = 1;
  flow.destination.ownerSets.emplace_back();
  for (int64_t device = 0; device < devices; ++device) {
    Box own = Box::whole({part});
    own[0] = {device * part, (device + 1) * part};
    flow.source.ownerSets.push_back({device});
    flow.source.cells.push_back({own, uint32_t(device)});
    flow.destination.ownerSets[0].push_back(device);
  }
  flow.destination.cells = {{Box::whole({devices * part}), 0}};
  return RoutingProblem({flow}, cluster, int64_t(1) << 30);
}

/// Rails are taken wherever they are faster.
RouterOptions timed(const RoutingProblem &problem) {
  RouterOptions options;
  options.railPart = 1;
  options.seconds = [&](const std::vector<Move> &moves) {
    return routeSeconds(problem, moves);
  };
  return options;
}

/// Of one way to go on rails, as many moves as that takes.
double railSeconds(const RoutingProblem &problem, Forwarding forwarding) {
  RouterOptions options = timed(problem);
  options.forwarding = forwarding;
  options.mostRoundMoves = 131072;
  return options.seconds(solved(problem, options).moves);
}

double bestSeconds(const RoutingProblem &problem) {
  RouterOptions options = timed(problem);
  return options.seconds(solved(problem, options, routeBest).moves);
}

} // namespace

// But where another way is within 1 % of the bound already.
TEST(BestRoute, AnAllGatherIsAsFastAsTheFasterOfBothWays) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  auto number = [&](int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random);
  };
  for (int trial = 0; trial < 20; ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial));
    Cluster cluster;
    cluster.devicesPerNode = number(2, 8);
    cluster.latencyUs = double(number(2, 30));
    RoutingProblem problem =
        allGather(cluster, number(2, 4), int64_t(1) << number(10, 22));
    double rails = railSeconds(problem, Forwarding::Rails);
    double blocks = railSeconds(problem, Forwarding::RailBlocks);
    double least =
        std::max(std::min(rails, blocks), 1.01 * problem.lowerBound());
    EXPECT_LE(bestSeconds(problem), least * (1 + 1e-9));
  }
}

// Either is faster somewhere: few nodes of many devices and a long latency, and
// eight nodes of eight.
TEST(BestRoute, BothWaysAreTaken) {
  Cluster cluster;
  cluster.packGBps = 1e9;
  cluster.packLaunchUs = 0;
  RoutingProblem square = allGather(cluster, 8, int64_t(1) << 22);
  EXPECT_LT(railSeconds(square, Forwarding::Rails),
            railSeconds(square, Forwarding::RailBlocks));
  cluster.devicesPerNode = 16;
  cluster.latencyUs = 15;
  RoutingProblem wide = allGather(cluster, 6, 223052);
  double blocks = railSeconds(wide, Forwarding::RailBlocks);
  EXPECT_LT(blocks, railSeconds(wide, Forwarding::Rails));
  EXPECT_LE(bestSeconds(wide), blocks * (1 + 1e-9));
}

// Where there is no all-gather there is no second way.
TEST(BestRoute, BlocksAreOfAllGathersOnly) {
  Cluster cluster;
  RoutingProblem one = allGather(cluster, 1, int64_t(1) << 20);
  RouterOptions options;
  options.forwarding = Forwarding::RailBlocks;
  Routing routing;
  auto error = routeGreedily(one, options, routing);
  ASSERT_TRUE(error);
  EXPECT_EQ(*error,
            "has no all-gather of several devices on each of several nodes");
}
