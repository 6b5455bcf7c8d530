//===- CostModelTest.cpp - Seconds, and bounds that hold ------------------===//

#include "dt/Cost/CostModel.h"
#include "SolvedWaves.h"

#include <algorithm>
#include <numeric>
#include <random>

using namespace dt;
using namespace dt::testing;

namespace {

constexpr int64_t kBytes = 25'000'000; // 1 ms on the NIC

TimedMessage message(int32_t wave, int64_t source, int64_t destination,
                     bool isCopied = false) {
  TimedMessage out;
  out.wave = wave;
  out.source = source;
  out.destination = destination;
  out.bytes = kBytes;
  out.isPacked = out.isUnpacked = isCopied;
  return out;
}

/// Latency and one message of `kBytes` on the NIC.
constexpr double kOnNic = 1e-3 + 10e-6;

TEST(CostModel, PortsOfOneDeviceRunAtOnce) {
  EXPECT_DOUBLE_EQ(
      predictSeconds({message(0, 0, 8), message(0, 0, 1), message(0, 8, 0)},
                     Cluster()),
      kOnNic);
}

TEST(CostModel, DevicesOfANicTakeTurns) {
  // 0 and 1 to two nodes, to themselves apart: at once, or one by one when the
  // senders or the receivers share a NIC.
  std::vector<TimedMessage> messages = {message(0, 0, 8), message(1, 1, 16)};
  Cluster cluster;
  EXPECT_DOUBLE_EQ(predictSeconds(messages, cluster), kOnNic);
  cluster.devicesPerNic = 2;
  EXPECT_DOUBLE_EQ(predictSeconds(messages, cluster), 2 * kOnNic);
  messages = {message(0, 0, 8), message(1, 2, 9)};
  EXPECT_DOUBLE_EQ(predictSeconds(messages, cluster), 2 * kOnNic);
  // Ports of an island stay their own.
  messages = {message(0, 0, 2), message(1, 1, 3)};
  EXPECT_LT(predictSeconds(messages, cluster), kOnNic);
}

TEST(CostModel, AGroupWaitsForTheGroupBeforeOnBothEnds) {
  // 8 -> 16 waits for 0 -> 8; 24 -> 32 meets neither.
  EXPECT_DOUBLE_EQ(
      predictSeconds({message(0, 0, 8), message(1, 8, 16), message(1, 24, 32)},
                     Cluster()),
      2 * kOnNic);
  EXPECT_DOUBLE_EQ(
      predictSeconds({message(0, 0, 8), message(1, 24, 32)}, Cluster()),
      kOnNic);
}

TEST(CostModel, PacksShowAtTheEndsOnly) {
  // 0 -> 8 three times: the first pack and the last unpack are not hidden.
  std::vector<TimedMessage> packed = {
      message(0, 0, 8, true), message(1, 0, 8, true), message(2, 0, 8, true)};
  EXPECT_NEAR(predictSeconds(packed, Cluster()),
              3 * kOnNic + 2 * Cluster().packSeconds(kBytes), 1e-12);
  std::vector<TimedMessage> direct = {message(0, 0, 8), message(1, 0, 8),
                                      message(2, 0, 8)};
  EXPECT_NEAR(predictSeconds(direct, Cluster()), 3 * kOnNic, 1e-12);
}

TEST(CostModel, ALinkSetsTheRateOfItsPairsOneWay) {
  Cluster cluster;
  cluster.links =
      std::vector<Link>{{{true, 0}, {true, 1}, 50}, {{false, 3}, {true, 1}, 5}};
  EXPECT_EQ(cluster.bytesPerSecond(0, 8), 50e9);
  EXPECT_EQ(cluster.bytesPerSecond(8, 0), 25e9);
  EXPECT_EQ(cluster.bytesPerSecond(3, 9), 5e9);
  EXPECT_EQ(cluster.bytesPerSecond(0, 1), 200e9);
  EXPECT_NEAR(predictSeconds({message(0, 0, 8)}, cluster), 0.5e-3 + 10e-6,
              1e-12);
}

TEST(CostModel, ATimelineEndsWhenPredictedAndEachLaneDoesOneThingAtATime) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int trial = 0; trial < 100; ++trial) {
    Cluster cluster;
    cluster.devicesPerNode = 4;
    cluster.devicesPerNic = 1 << random() % 3;
    cluster.latencyUs = 1 + random() % 20;
    cluster.links = std::vector<Link>{{{true, 0}, {true, 1}, 7}};
    std::vector<TimedMessage> messages;
    std::vector<int64_t> to(16);
    std::iota(to.begin(), to.end(), 0);
    for (int32_t wave = 0; wave < 12; ++wave) {
      std::shuffle(to.begin(), to.end(), random);
      for (int64_t from = 0; from < 16; ++from)
        if (to[from] != from && random() % 3)
          messages.push_back({wave, from, to[from],
                              1 + int64_t(random() % 9999), random() % 2 == 0,
                              random() % 2 == 0});
    }
    dtrt::Timeline timeline = dtrt::drawTimeline(messages, cluster);
    EXPECT_EQ(timeline.seconds, predictSeconds(messages, cluster));
    for (const auto &[device, line] : timeline.devices) {
      EXPECT_LE(line.end, timeline.seconds);
      for (const std::vector<dtrt::Span> &lane : line.lanes)
        for (size_t i = 0; i < lane.size(); ++i) {
          EXPECT_LE(lane[i].end, line.end);
          EXPECT_GE(lane[i].begin, i == 0 ? 0 : lane[i - 1].end)
              << "device " << device;
        }
    }
  }
}

/// `shape` rows over `sources` devices from 0 on, to the same number from
/// `first` on.
Flow shifted(int64_t devices, int64_t first) {
  std::vector<int64_t> shape = {devices, kBytes};
  Flow flow;
  flow.bytesPerElement = 1;
  flow.source = overlay(gridHoldings(shape, devices, 1, 1, 0), shape);
  flow.destination = overlay(gridHoldings(shape, devices, 1, 1, first), shape);
  return flow;
}

TEST(Bounds, SeeTheOneSlowLink) {
  // 3 -> 11 alone takes 5 ms; all other pairs take 1 ms.
  Cluster cluster;
  EXPECT_NEAR(computeBounds({shifted(8, 8)}, cluster).seconds, kOnNic, 1e-12);
  cluster.links = std::vector<Link>{{{false, 3}, {false, 11}, 5}};
  EXPECT_NEAR(computeBounds({shifted(8, 8)}, cluster).seconds, 5e-3 + 10e-6,
              1e-12);
}

TEST(Bounds, CountNicsAndNotDevices) {
  Cluster cluster;
  for (int64_t devices : {1, 2, 8}) {
    cluster.devicesPerNic = devices;
    EXPECT_NEAR(computeBounds({shifted(8, 8)}, cluster).seconds,
                devices * 1e-3 + 10e-6, 1e-12);
  }
}

TEST(Bounds, HoldWithUnequalLinksAndSharedNics) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int trial = 0; trial < 300; ++trial) {
    RandomTransition t = randomTransition(random);
    for (unsigned i = random() % 6; i > 0; --i)
      t.cluster.links.push_back({{random() % 2 == 0, int64_t(random() % 4)},
                                 {random() % 2 == 0, int64_t(random() % 4)},
                                 double(1 + random() % 400) * 1e9});
    if (random() % 2)
      t.cluster.devicesPerNic = t.cluster.devicesPerNode;
    RoutingProblem problem(t.flows, t.cluster, 1 << 20);
    WaveProblem waves = waveProblem(problem, solved(problem).moves);
    for (ChunkBytes chunks : candidateChunks(waves)) {
      std::vector<ScheduledMove> scheduled = scheduledWith(waves, chunks);
      int64_t sent = 0, wanted = 0;
      for (const ScheduledMove &s : scheduled)
        sent += s.move.box.volume();
      for (const Move &move : waves.moves)
        wanted += move.box.volume();
      EXPECT_EQ(sent, wanted);
      EXPECT_GE(waves.seconds(scheduled) * (1 + 1e-9), problem.lowerBound());
    }
  }
}

} // namespace
