//===- RouterTest.cpp - Routing against element sets ----------------------===//

#include "RandomFlows.h"
#include "Solved.h"

#include "gtest/gtest.h"

#include <map>
#include <set>

using namespace dt;
using namespace dt::testing;

namespace {

using Element = std::tuple<uint32_t, int64_t, int64_t>; // flow, row, column
using Held = std::map<int64_t, std::set<Element>>;      // per device

template <typename Fn> void forEachElement(const Box &box, Fn fn) {
  for (int64_t r = box[0].lo; r < box[0].hi; ++r)
    for (int64_t c = box[1].lo; c < box[1].hi; ++c)
      fn(r, c);
}

Held heldBy(const std::vector<std::vector<Holding>> &sides) {
  Held out;
  for (uint32_t flow = 0; flow < sides.size(); ++flow)
    for (const Holding &holding : sides[flow])
      for (int64_t device : holding.devices) {
        Box box(2);
        box[0] = holding.shard.dims[0][0];
        box[1] = holding.shard.dims[1][0];
        forEachElement(box, [&](int64_t r, int64_t c) {
          out[device].insert({flow, r, c});
        });
      }
  return out;
}

TEST(Router, DeliversEveryWantedElementOnceFromAHolder) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int trial = 0; trial < 300; ++trial) {
    RandomTransition t = randomTransition(random);
    RouterOptions options;
    options.minPieceBytes = 16;
    Routing routing =
        solved(RoutingProblem(t.flows, t.cluster, 1 << 20), options);
    Held source = heldBy(t.sources), holds = source;
    Held wanted = heldBy(t.destinations), delivered;
    int64_t wire = 0;
    auto deliver = [&](uint32_t flow, int64_t device, const Box &box) {
      forEachElement(box, [&](int64_t r, int64_t c) {
        EXPECT_TRUE(delivered[device].insert({flow, r, c}).second)
            << "delivered twice";
      });
    };
    for (const LocalMove &local : routing.locals) {
      forEachElement(local.box, [&](int64_t r, int64_t c) {
        EXPECT_TRUE(source[local.device].count({local.flow, r, c}));
      });
      deliver(local.flow, local.device, local.box);
    }
    for (const Move &move : routing.moves) {
      forEachElement(move.box, [&](int64_t r, int64_t c) {
        EXPECT_TRUE(holds[move.source].count({move.flow, r, c}))
            << "sent by a device that does not have it yet";
        holds[move.destination].insert({move.flow, r, c});
      });
      deliver(move.flow, move.destination, move.box);
      wire += move.box.volume() * t.flows[move.flow].bytesPerElement;
    }
    for (auto &[device, elements] : wanted)
      EXPECT_EQ(delivered[device], elements);
    EXPECT_EQ(wire, computeBounds(t.flows, t.cluster).wireBytes);
  }
}

TEST(Router, CrossesTheNetworkOncePerNode) {
  // Device 0 has it; devices 8 to 15, one node, want it.
  Flow flow;
  flow.bytesPerElement = 2;
  flow.source = overlay(gridHoldings({64, 64}, 1, 1, 1, 0), {64, 64});
  flow.destination = overlay(gridHoldings({64, 64}, 1, 1, 8, 8), {64, 64});
  Cluster cluster;
  Routing routing = solved(RoutingProblem({flow}, cluster, 1 << 20));
  int crossings = 0;
  for (const Move &move : routing.moves)
    crossings += !cluster.sameNode(move.source, move.destination);
  EXPECT_EQ(crossings, 1);
  EXPECT_EQ(routing.moves.size(), 8u);
  EXPECT_EQ(computeBounds({flow}, cluster).interNodeBytes, 64 * 64 * 2);
}

TEST(Router, ReceiversPassOnWhatOneDeviceHolds) {
  // Device 0 has it, all devices of eight other nodes want it: no port sends
  // more than the whole once, as in a scatter and a ring all-gather after it.
  std::vector<int64_t> shape = {4096, 4096};
  Flow flow;
  flow.bytesPerElement = 4;
  flow.source = overlay(gridHoldings(shape, 1, 1, 1, 0), shape);
  flow.destination = overlay(gridHoldings(shape, 1, 1, 64, 8), shape);
  Cluster cluster;
  RouterOptions options;
  options.minPieceBytes = 1 << 16;
  Routing routing = solved(RoutingProblem({flow}, cluster, 1 << 20), options);
  std::map<int64_t, int64_t> sent; // over NICs
  for (const Move &move : routing.moves)
    if (!cluster.sameNode(move.source, move.destination))
      sent[move.source] += move.box.volume();
  for (auto [device, elements] : sent)
    EXPECT_LE(elements, 4096 * 4096 * 1.02) << "device " << device;
}

TEST(Router, BalancesSendersOverReplicas) {
  // Four replicas on one node, four receivers on another, one quarter each.
  std::vector<int64_t> shape = {4096, 1024};
  Flow flow;
  flow.bytesPerElement = 4;
  flow.source = overlay(gridHoldings(shape, 1, 1, 4, 0), shape);
  flow.destination = overlay(gridHoldings(shape, 4, 1, 1, 8), shape);
  Routing routing = solved(RoutingProblem({flow}, Cluster(), 1 << 20));
  std::map<int64_t, int64_t> sent;
  for (const Move &move : routing.moves)
    sent[move.source] += move.box.volume() * 4;
  ASSERT_EQ(sent.size(), 4u);
  for (auto [device, bytes] : sent)
    EXPECT_EQ(bytes, 4096 * 1024);
}

TEST(Router, TakesItFromWhosePortHasTime) {
  // Three nodes hold it, another wants it. What goes beside leaves 0 and 8 less
  // time than 16.
  std::vector<int64_t> shape = {4096, 1024};
  Flow flow;
  flow.bytesPerElement = 4;
  std::vector<Holding> holders = gridHoldings(shape, 1, 1, 1, 0);
  holders.front().devices = {0, 8, 16};
  flow.source = overlay(holders, shape);
  flow.destination = overlay(gridHoldings(shape, 1, 1, 1, 24), shape);
  std::vector<TimedMessage> around = {{0, 0, 40, 16 << 20},
                                      {0, 8, 48, 16 << 20}};
  RouterOptions options;
  options.around = &around;
  Routing routing = solved(RoutingProblem({flow}, Cluster(), 1 << 20), options);
  std::map<int64_t, int64_t> sent;
  for (const Move &move : routing.moves)
    sent[move.source] += move.box.volume() * 4;
  EXPECT_GT(sent[16], 10 << 20);
  EXPECT_LT(sent[0], 4 << 20);
  EXPECT_LT(sent[8], 4 << 20);
}

TEST(Router, LeavesOutWhatNobodyHolds) {
  std::vector<int64_t> shape = {8, 8};
  std::vector<Holding> half = gridHoldings(shape, 2, 1, 1, 0);
  half.pop_back();
  Flow flow;
  flow.bytesPerElement = 1;
  flow.source = overlay(half, shape);
  flow.destination = overlay(gridHoldings(shape, 1, 1, 1, 3), shape);
  RoutingProblem problem({flow}, Cluster(), 1 << 20);
  ASSERT_TRUE(problem.hole());
  EXPECT_EQ(problem.hole()->device, 3);
  EXPECT_EQ(toString(problem.hole()->box), "[4:8)x[0:8)");
  // What there is goes its way.
  Routing routing;
  ASSERT_FALSE(routeGreedily(problem, {}, routing));
  ASSERT_EQ(routing.moves.size(), 1u);
  EXPECT_EQ(toString(routing.moves[0].box), "[0:4)x[0:8)");
}

TEST(SplitBox, CoversTheBoxInOrderWithinTheLimit) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    Box box(3);
    for (unsigned d = 0; d < 3; ++d) {
      int64_t lo = random() % 5;
      box[d] = {lo, lo + 1 + int64_t(random() % 6)};
    }
    int64_t limit = 1 + random() % 40, volume = 0;
    std::vector<Box> pieces = splitBox(box, limit);
    for (size_t i = 0; i < pieces.size(); ++i) {
      EXPECT_LE(pieces[i].volume(), limit);
      EXPECT_TRUE(box.contains(pieces[i]));
      volume += pieces[i].volume();
      if (i > 0) {
        EXPECT_TRUE(pieces[i - 1] < pieces[i]);
      }
    }
    EXPECT_EQ(volume, box.volume());
  }
}

} // namespace
