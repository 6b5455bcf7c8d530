//===- RoutingProblemTest.cpp - What is a routing, and what is none -------===//
//
// Nodes {0, 1} and {2, 3} in one dim of 16 elements of 4 bytes. Device 0 holds
// [0:8), device 1 holds [8:16). Devices 2 and 3 want all, device 1 wants
// [4:16).
//
//          0    4    8         16
//   0      HHHHHHHHHH
//   1           wwwwwHHHHHHHHHH      and wants what it holds
//   2      wwwwwwwwwwwwwwwwwwww
//   3      wwwwwwwwwwwwwwwwwwww
//
//===----------------------------------------------------------------------===//

#include "RandomFlows.h"
#include "Solved.h"
#include "dt/Routing/BestRoute.h"
#include "dt/Routing/ExactRoute.h"

using namespace dt;
using namespace dt::testing;

namespace {

Box box(int64_t lo, int64_t hi) { return Box::fromOffsetSize({lo}, {hi - lo}); }

Flow flow() {
  Flow out;
  out.bytesPerElement = 4;
  out.source.ownerSets = {{0}, {1}};
  out.source.cells = {{box(0, 8), 0}, {box(8, 16), 1}};
  out.destination.ownerSets = {{2, 3}, {1, 2, 3}};
  out.destination.cells = {{box(0, 4), 0}, {box(4, 16), 1}};
  return out;
}

Cluster twoPerNode() {
  Cluster cluster;
  cluster.devicesPerNode = 2;
  return cluster;
}

constexpr int64_t kStaging = 1 << 20;

RoutingProblem problemOf(std::vector<Flow> flows) {
  return RoutingProblem(std::move(flows), twoPerNode(), kStaging);
}

/// A right answer: each half enters node 1 once, at 2, which passes it on.
Routing rightRouting() {
  Routing out;
  out.locals = {{0, 1, box(8, 16)}};
  out.moves = {{0, 0, 0, 1, box(4, 8)},
               {0, 0, 0, 2, box(0, 8)},
               {0, 0, 1, 2, box(8, 16)},
               {0, 1, 2, 3, box(0, 16)}};
  return out;
}

/// Expects that a routing breaks a rule.
void expectBroken(const Routing &routing, const std::string &text) {
  auto error = problemOf({flow()}).verify(routing);
  ASSERT_TRUE(error) << "expected: " << text;
  EXPECT_EQ(*error, text);
}

/// Expects that flows are no instance.
void expectUnsound(const std::vector<Flow> &flows, const std::string &text) {
  auto error = problemOf(flows).check();
  ASSERT_TRUE(error) << "expected: " << text;
  EXPECT_EQ(*error, text);
}

} // namespace

//===----------------------------------------------------------------------===//
// Instances
//===----------------------------------------------------------------------===//

TEST(RoutingProblem, IsSound) {
  auto error = problemOf({flow()}).check();
  EXPECT_FALSE(error) << *error;
  // A state that is dropped has no width on the wire.
  Flow dropped = flow();
  dropped.bytesPerElement = 0;
  dropped.destination = {};
  EXPECT_FALSE(problemOf({flow(), dropped}).check());
  EXPECT_FALSE(problemOf({}).check());
}

TEST(RoutingProblem, NamesAHole) {
  Flow f = flow();
  f.source.cells[0].box = box(0, 6);
  expectUnsound({f}, "device 1 wants [6:8) of flow 0, which no source device "
                     "holds");
}

TEST(RoutingProblem, NamesCellsThatShareElements) {
  Flow f = flow();
  f.source.cells[1].box = box(6, 16);
  expectUnsound({flow(), f},
                "the source of flow 1 has two cells that share [6:8)");
  f = flow();
  f.destination.cells[0].box = box(0, 5);
  expectUnsound({f},
                "the destination of flow 0 has two cells that share [4:5)");
}

TEST(RoutingProblem, NamesOwnersThatAreNone) {
  for (std::vector<int64_t> owners :
       {std::vector<int64_t>{3, 2}, {2, 2}, {}, {-1, 2}}) {
    Flow f = flow();
    f.destination.ownerSets[0] = owners;
    expectUnsound({f}, "the destination of flow 0 has owners that are not one "
                       "or more devices in ascending order");
  }
  Flow f = flow();
  f.source.cells[0].owners = 2;
  expectUnsound({f}, "the source of flow 0 has a cell of owners 2, and 2 sets "
                     "of owners");
}

TEST(RoutingProblem, NamesWidthsBelowOne) {
  Flow f = flow();
  f.bytesPerElement = 0;
  expectUnsound({flow(), f},
                "flow 1 has 0 bytes per element, expected at least 1");
  f.destination = {};
  f.bytesPerElement = -1;
  expectUnsound({f}, "flow 0 has -1 bytes per element, expected at least 0");
}

TEST(RoutingProblem, NamesBoxesThatAreNone) {
  Flow f = flow();
  f.source.cells[0].box = box(8, 8);
  expectUnsound({f}, "the source of flow 0 has an empty cell, [8:8)");
  f.source.cells[0].box = Box::fromOffsetSize({0, 0}, {8, 1});
  expectUnsound({f}, "the source of flow 0 has a cell of 2 dims, expected 1");
}

TEST(RoutingProblem, NamesBytesBeyondTheLimit) {
  // 2^61 elements of 4 bytes are 2^63; of 3 bytes they fit, on one device.
  Flow f;
  f.source.ownerSets = {{0}};
  f.destination.ownerSets = {{1}};
  f.source.cells = f.destination.cells = {{box(0, int64_t(1) << 61), 0}};
  f.bytesPerElement = 4;
  expectUnsound({f}, "the source of flow 0 has bytes beyond the limit of 2^63");
  f.bytesPerElement = 3;
  EXPECT_FALSE(problemOf({f}).check());
  expectUnsound({f, f},
                "the source of flow 1 has bytes beyond the limit of 2^63");
  // What devices want counts for each of them.
  f.destination.ownerSets = {{1, 2}};
  expectUnsound({f},
                "the destination of flow 0 has bytes beyond the limit of 2^63");
}

TEST(RoutingProblem, NamesWhatIsNoMachine) {
  EXPECT_EQ(*RoutingProblem({flow()}, twoPerNode(), 0).check(),
            "staging has 0 bytes, expected at least 1");
  Cluster cluster = twoPerNode();
  cluster.devicesPerNode = 0;
  EXPECT_EQ(*RoutingProblem({flow()}, cluster, kStaging).check(),
            "the cluster has 0 devices per node, expected at least 1");
}

//===----------------------------------------------------------------------===//
// Solutions
//===----------------------------------------------------------------------===//

TEST(RoutingProblem, AcceptsARightRouting) {
  auto error = problemOf({flow()}).verify(rightRouting());
  EXPECT_FALSE(error) << *error;
}

TEST(RoutingProblem, WantsEverythingOnce) {
  Routing r = rightRouting();
  r.moves.pop_back();
  expectBroken(r, "does not bring [0:4) of flow 0 to device 3, which wants it");
  r = rightRouting();
  r.locals.clear();
  expectBroken(r, "does not bring [8:16) of flow 0 to device 1, which wants "
                  "it");
  r = rightRouting();
  r.moves.push_back({0, 1, 2, 3, box(3, 5)});
  expectBroken(r, "brings [3:5) of flow 0 to device 3 twice, expected once");
  r = rightRouting();
  r.locals.push_back({0, 1, box(9, 10)});
  expectBroken(r, "brings [9:10) of flow 0 to device 1 twice, expected once");
  r = rightRouting();
  r.moves[0].box = box(2, 8);
  expectBroken(r, "brings [2:4) of flow 0 to device 1, which does not want it");
}

TEST(RoutingProblem, WantsNothingSentToAHolder) {
  Routing r = rightRouting();
  r.locals.clear();
  r.moves[0].box = box(4, 16);
  expectBroken(r, "sends [8:16) of flow 0 to device 1, which holds it");
}

TEST(RoutingProblem, WantsCopiesAndFirstHopsFromHolders) {
  Routing r = rightRouting();
  r.moves.erase(r.moves.begin());
  r.locals.push_back({0, 1, box(4, 8)});
  expectBroken(r, "copies [4:8) of flow 0 on device 1, which does not hold it");
  r = rightRouting();
  r.moves[1].source = 1;
  expectBroken(r, "sends [0:8) of flow 0 from device 1 at hop 0, which does "
                  "not hold it");
}

TEST(RoutingProblem, WantsForwardsAfterWhatFeedsThem) {
  Routing r = rightRouting();
  r.moves[2].hop = 1;
  r.moves[2].source = 1; // a holder that does not get what it sends
  expectBroken(r, "forwards [8:16) of flow 0 from device 1 at hop 1, which "
                  "does not get it at a lower hop");
  r = rightRouting();
  r.moves[1] = {0, 1, 3, 2, box(0, 8)};
  expectBroken(r, "forwards [0:8) of flow 0 from device 2 at hop 1, which does "
                  "not get it at a lower hop");
}

TEST(RoutingProblem, WantsNodesEnteredOnce) {
  Routing r = rightRouting();
  r.moves[3] = {0, 1, 2, 3, box(0, 8)};
  r.moves.push_back({0, 0, 1, 3, box(8, 16)});
  expectBroken(r, "brings [8:16) of flow 0 to node 1 twice, expected once");
  // Node 0 has [4:8), which goes to 1 from outside: 3 sends it back.
  r = rightRouting();
  r.moves[0] = {0, 2, 3, 1, box(4, 8)};
  expectBroken(r, "brings [4:8) of flow 0 to node 0, which has it");
}

TEST(RoutingProblem, WantsFlowsDevicesAndBoxesThatThereAre) {
  Routing r = rightRouting();
  r.moves[0].flow = 1;
  expectBroken(r, "names flow 1, and there are 1");
  r = rightRouting();
  r.locals[0].device = -1;
  expectBroken(r, "names a device below 0");
  r = rightRouting();
  r.moves[0].box = Box::fromOffsetSize({4, 0}, {4, 1});
  expectBroken(r, "moves [4:8)x[0:1) of flow 0, which has no such box");
}

//===----------------------------------------------------------------------===//
// Bounds and solvers
//===----------------------------------------------------------------------===//

TEST(RoutingProblem, BoundsCountEveryByteOnce) {
  RoutingProblem problem = problemOf({flow()});
  // 4 elements to device 1, 16 to 2 and 3 each; 16 enter node 1.
  EXPECT_EQ(problem.bounds().wireBytes, (4 + 16 + 16) * 4);
  EXPECT_EQ(problem.bounds().interNodeBytes, 16 * 4);
  // Device 0 and device 1 each send half of it over a NIC; node 1 takes it in
  // over two.
  EXPECT_DOUBLE_EQ(problem.lowerBound(), 8 * 4 / 25e9 + 10e-6);
}

TEST(RoutingProblem, EverySolverAnswersRandomProblems) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int trial = 0; trial < 200; ++trial) {
    RandomTransition t = randomTransition(random);
    RoutingProblem problem(t.flows, t.cluster, kStaging);
    RouterOptions options;
    options.minPieceBytes = 1 + int64_t(random() % 64);
    for (Forwarding forwarding :
         {Forwarding::Spread, Forwarding::Chain, Forwarding::Tree}) {
      options.forwarding = forwarding;
      solved(problem, options);
    }
    // Any way to time routes will do; this one is cheap.
    options.seconds = [](const std::vector<Move> &moves) {
      return double(moves.size());
    };
    Routing best = solved(problem, options, routeBest);
    Routing exact;
    if (!routeExactly(problem, options, exact)) {
      auto broken = problem.verify(exact);
      EXPECT_FALSE(broken) << *broken;
      EXPECT_LE(best.moves.size(), exact.moves.size());
    }
  }
}

TEST(RoutingSolver, ExactSaysWhatIsTooLarge) {
  RoutingProblem problem = problemOf({flow(), flow()});
  RouterOptions options;
  Routing routing;
  EXPECT_EQ(*routeExactly(problem, options, routing),
            "has nothing to time routes by, which the solver 'exact' needs");
  options.seconds = [](const std::vector<Move> &) { return 1.0; };
  EXPECT_EQ(*routeExactly(problem, options, routing),
            "has 14 deliveries, more than the limit of 4 for all routes");
}

TEST(RoutingSolver, HasNames) {
  EXPECT_EQ(findRoutingSolver("greedy"), &routeGreedily);
  EXPECT_EQ(findRoutingSolver("exact"), &routeExactly);
  EXPECT_EQ(findRoutingSolver("best"), &routeBest);
  EXPECT_EQ(findRoutingSolver("flat"), nullptr);
  EXPECT_EQ(routingSolverNames(), "greedy, exact, best");
}
