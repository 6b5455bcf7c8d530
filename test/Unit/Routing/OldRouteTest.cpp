//===- OldRouteTest.cpp - What of an old route is right still -------------===//

#include "OldMoves.h"
#include "RandomFlows.h"
#include "Solved.h"
#include "dt/Routing/Reroute.h"

using namespace dt;
using namespace dt::testing;

namespace {

Box span(int64_t lo, int64_t hi) {
  Box box(1);
  box[0] = {lo, hi};
  return box;
}

OldMove oldMove(int64_t from, int64_t to, Box box, int32_t wave = 0) {
  return {{0, 0, from, to, box}, wave};
}

/// Nodes of two devices.
Cluster pairsOfDevices() {
  Cluster cluster;
  cluster.devicesPerNode = 2;
  return cluster;
}

/// What is kept of how [0:8) went from holders to wanters, by node.
OldRoute::Kept kept(const std::vector<OldMove> &old,
                    const std::vector<int64_t> &holders,
                    const std::vector<std::vector<int64_t>> &wanters) {
  OldRoute route(old, {span(0, 8)});
  return route.keep(0, {holders, wanters}, pairsOfDevices());
}

TEST(OldRoute, JoinsWhatWavesHaveCut) {
  auto found = kept({oldMove(0, 2, span(0, 3)), oldMove(0, 2, span(3, 8), 1)},
                    {0}, {{2}});
  ASSERT_EQ(found.moves.size(), 1u);
  EXPECT_EQ(found.moves[0].box, span(0, 8));
  EXPECT_EQ(found.moves[0].hop, 0u);
  EXPECT_EQ(found.served, std::vector<bool>{true});
}

TEST(OldRoute, KeepsForwardsBehindTheirFeeders) {
  auto found = kept({oldMove(0, 2, span(0, 8)), oldMove(2, 3, span(0, 8), 1),
                     oldMove(3, 4, span(0, 8), 2)},
                    {0}, {{2, 3}, {4}});
  ASSERT_EQ(found.moves.size(), 3u);
  EXPECT_EQ(found.moves[1].hop, 1u);
  EXPECT_EQ(found.moves[2].hop, 2u);
  EXPECT_EQ(found.served, (std::vector<bool>{true, true}));
}

TEST(OldRoute, DropsANodeThatLacksAPart) {
  auto found = kept({oldMove(0, 2, span(0, 7)), oldMove(0, 4, span(0, 8))}, {0},
                    {{2}, {4}});
  EXPECT_EQ(found.served, (std::vector<bool>{false, true}));
  ASSERT_EQ(found.moves.size(), 1u);
  EXPECT_EQ(found.moves[0].destination, 4);
}

TEST(OldRoute, DropsWhatComesTwice) {
  auto found =
      kept({oldMove(0, 2, span(0, 5)), oldMove(0, 2, span(4, 7))}, {0}, {{2}});
  EXPECT_TRUE(found.moves.empty());
}

TEST(OldRoute, DropsWhatItsSenderHasNoMore) {
  // 4 got it from 2, which got it from 1, which holds it no more.
  auto found = kept({oldMove(1, 2, span(0, 8)), oldMove(2, 4, span(0, 8), 1)},
                    {0}, {{2}, {4}});
  EXPECT_TRUE(found.moves.empty());
  EXPECT_EQ(found.served, (std::vector<bool>{false, false}));
}

TEST(OldRoute, DropsWhatIsSentBeforeItHasCome) {
  auto found =
      kept({oldMove(0, 2, span(0, 8), 1), oldMove(2, 4, span(0, 8), 1)}, {0},
           {{2}, {4}});
  EXPECT_EQ(found.served, (std::vector<bool>{true, false}));
}

TEST(OldRoute, DropsWhatEntersANodeWithoutNeed) {
  // 3 stands beside 2, which holds it now.
  EXPECT_TRUE(kept({oldMove(0, 3, span(0, 8))}, {0, 2}, {{3}}).moves.empty());
  // 2 and 3 both get it from outside.
  EXPECT_TRUE(kept({oldMove(0, 2, span(0, 8)), oldMove(0, 3, span(0, 8))}, {0},
                   {{2, 3}})
                  .moves.empty());
}

TEST(OldRoute, KeepsAllOfARouteThatIsRight) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    RandomTransition t = randomTransition(random);
    RoutingProblem problem(t.flows, t.cluster, 1 << 20);
    RouterOptions options;
    options.minPieceBytes = 16;
    Routing first = solved(problem, options);
    OldMoves old = oldMovesOf(first.moves, t.flows.size());
    options.old = &old;
    EXPECT_EQ(bytesAsBefore(solved(problem, options).moves, old, t.flows),
              bytesOf(first.moves, t.flows));
  }
}

TEST(OldRoute, IsRightAfterAnyOtherRoute) {
  std::mt19937 random(2);
  int64_t numKept = 0;
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(trial);
    RandomTransition before = randomTransition(random), t = before;
    for (Flow &flow : t.flows)
      replaceDevice(flow.destination, random);
    RouterOptions options;
    options.minPieceBytes = 16;
    Routing first =
        solved(RoutingProblem(before.flows, before.cluster, 1 << 20), options);
    OldMoves old = oldMovesOf(first.moves, t.flows.size());
    options.old = &old;
    RoutingProblem problem(t.flows, t.cluster, 1 << 20);
    numKept += bytesAsBefore(solved(problem, options).moves, old, t.flows);
    solved(problem, options, reroute);
  }
  EXPECT_GT(numKept, 0);
}

} // namespace
