//===- JoinWavesTest.cpp - Waves whose ports carry several messages -------===//

#include "SolvedWaves.h"

#include "dt/Scheduling/BestSchedule.h"
#include "dt/Scheduling/JoinWaves.h"
#include "dt/Scheduling/RoundSchedule.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <random>

using namespace dt;
using namespace dt::testing;

namespace {

/// A NIC of 25 GB/s that two pairs fill, and an island port that one does.
Cluster halfNics() {
  Cluster cluster;
  cluster.channelsPerPeer = 1;
  cluster.intraChannelGBps = 200;
  cluster.interChannelGBps = 12.5;
  return cluster;
}

Box elements(int64_t first, int64_t count) {
  return Box::fromOffsetSize({first}, {count});
}

std::vector<int32_t> wavesIn(const std::vector<ScheduledMove> &scheduled) {
  std::vector<int32_t> waves;
  for (const ScheduledMove &piece : scheduled)
    waves.push_back(piece.wave);
  return waves;
}

/// What comes of them, verified.
std::optional<std::vector<ScheduledMove>>
joined(const WaveProblem &problem, const std::vector<ScheduledMove> &waves) {
  WaveSchedule schedule;
  auto moves = joinWaves(problem, waves);
  if (!moves)
    return moves;
  schedule.moves = *moves;
  auto broken = problem.verify(schedule);
  EXPECT_FALSE(broken) << *broken;
  EXPECT_GE(problem.seconds(*moves) * (1 + 1e-9), problem.lowerBound());
  return moves;
}

TEST(JoinWaves, APortCarriesAsManyMessagesAsFillIt) {
  WaveProblem problem = wavesOf({{0, 0, 0, 8, elements(0, 512)},
                                 {0, 0, 0, 16, elements(512, 512)},
                                 {0, 0, 0, 24, elements(1024, 512)},
                                 {0, 0, 0, 1, elements(1536, 512)},
                                 {0, 0, 0, 2, elements(2048, 512)}},
                                halfNics());
  auto waves = joined(problem, scheduledWith(problem, {512, 512}));
  ASSERT_TRUE(waves);
  // Three by the NIC, two at once; two by the island port, one at a time.
  EXPECT_EQ(wavesIn(*waves), (std::vector<int32_t>{0, 0, 0, 1, 1}));
}

TEST(JoinWaves, WhereAPairFillsItsPortNothingIsJoined) {
  std::vector<Move> moves = {{0, 0, 0, 8, elements(0, 512)},
                             {0, 0, 0, 16, elements(512, 512)}};
  Cluster cluster = halfNics();
  for (int64_t channels : {0, 2}) {
    cluster.channelsPerPeer = channels;
    WaveProblem problem = wavesOf(moves, cluster);
    EXPECT_FALSE(joined(problem, scheduledWith(problem, {512, 512})));
  }
}

TEST(JoinWaves, ANicThatDevicesShareCarriesAsManyAsFillIt) {
  // 0 and 1 by one NIC, 8 and 16 by two.
  Cluster cluster = halfNics();
  cluster.devicesPerNic = 2;
  WaveProblem problem = wavesOf({{0, 0, 0, 8, elements(0, 512)},
                                 {0, 0, 1, 16, elements(512, 512)},
                                 {0, 0, 1, 24, elements(1024, 512)}},
                                cluster);
  auto waves = joined(problem, scheduledWith(problem, {512, 512}));
  ASSERT_TRUE(waves);
  EXPECT_EQ(wavesIn(*waves), (std::vector<int32_t>{0, 0, 1}));
}

TEST(JoinWaves, WithPxnADeviceSendsByTwoNicsAtOnce) {
  Cluster cluster = halfNics();
  cluster.pxn = true;
  WaveProblem problem = wavesOf({{0, 0, 0, 9, elements(0, 512)},
                                 {0, 0, 0, 10, elements(512, 512)},
                                 {0, 0, 0, 11, elements(1024, 512)}},
                                cluster);
  auto waves = joined(problem, scheduledWith(problem, {512, 512}));
  ASSERT_TRUE(waves);
  EXPECT_EQ(wavesIn(*waves), (std::vector<int32_t>{0, 0, 1}));
}

TEST(JoinWaves, WithPxnTheNicOfAPlaceCarriesAsManyAsFillIt) {
  // All are to the first place of their nodes, so by the first NIC.
  Cluster cluster = halfNics();
  cluster.pxn = true;
  WaveProblem problem = wavesOf({{0, 0, 0, 8, elements(0, 512)},
                                 {0, 0, 1, 16, elements(512, 512)},
                                 {0, 0, 2, 24, elements(1024, 512)}},
                                cluster);
  auto waves = joined(problem, scheduledWith(problem, {512, 512}));
  ASSERT_TRUE(waves);
  EXPECT_EQ(wavesIn(*waves), (std::vector<int32_t>{0, 0, 1}));
}

TEST(JoinWaves, WithPxnSendersOfOneNicTakeTurnsToo) {
  // 0 and 1 share the first NIC, whose messages leave by three others.
  Cluster cluster = halfNics();
  cluster.pxn = true;
  cluster.devicesPerNic = 2;
  WaveProblem problem = wavesOf({{0, 0, 0, 10, elements(0, 512)},
                                 {0, 0, 0, 12, elements(512, 512)},
                                 {0, 0, 1, 14, elements(1024, 512)}},
                                cluster);
  auto waves = joined(problem, scheduledWith(problem, {512, 512}));
  ASSERT_TRUE(waves);
  EXPECT_EQ(wavesIn(*waves), (std::vector<int32_t>{0, 0, 1}));
}

TEST(JoinWaves, AForwardComesAfterWhatBringsIt) {
  WaveProblem problem = wavesOf({{0, 0, 0, 8, elements(0, 512)},
                                 {0, 1, 8, 16, elements(0, 512)},
                                 {0, 1, 8, 24, elements(0, 512)}},
                                halfNics());
  auto waves = joined(problem, scheduledWith(problem, {512, 512}));
  ASSERT_TRUE(waves);
  EXPECT_EQ(wavesIn(*waves), (std::vector<int32_t>{0, 1, 1}));
}

TEST(JoinWaves, NoPairHasTwoMessagesInAWave) {
  WaveProblem problem = wavesOf({{0, 0, 0, 8, elements(0, 2048)}}, halfNics());
  std::vector<ScheduledMove> apart = scheduledWith(problem, {512, 512});
  auto waves = joined(problem, apart);
  ASSERT_TRUE(waves);
  EXPECT_EQ(wavesIn(*waves), wavesIn(apart));
}

TEST(JoinWaves, SlotsFitStagingOrNothingIsJoined) {
  WaveProblem problem = wavesOf(
      {{0, 0, 0, 8, elements(0, 512)}, {0, 0, 0, 16, elements(512, 512)}},
      halfNics());
  // Two slots of 512 bytes in each of the four areas.
  problem.stagingBytes = 4096;
  EXPECT_TRUE(joined(problem, scheduledWith(problem, {0, 512})));
  --problem.stagingBytes;
  EXPECT_FALSE(joined(problem, scheduledWith(problem, {0, 512})));
}

TEST(JoinWaves, WavesOfRandomTransitionsKeepTheRules) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int fewer = 0;
  for (int trial = 0; trial < 300; ++trial) {
    RandomTransition t = randomTransition(random);
    t.cluster.channelsPerPeer = int64_t(1 + random() % 4);
    t.cluster.intraChannelGBps = t.cluster.intraNodeGBps / 3;
    t.cluster.interChannelGBps = t.cluster.interNodeGBps / 2;
    if (random() % 3 == 0)
      t.cluster.devicesPerNic = t.cluster.devicesPerNode;
    t.cluster.pxn = random() % 3 == 0;
    WaveProblem problem = randomWaves(t, 2048 + random() % 8192);
    std::vector<ChunkBytes> candidates = candidateChunks(problem);
    std::vector<ScheduledMove> apart =
        scheduledWith(problem, candidates[random() % candidates.size()]);
    auto waves = joined(problem, apart);
    if (!waves || waves->empty())
      continue;
    // With PXN, waves apart may have more messages by one NIC than fill it.
    EXPECT_TRUE(t.cluster.pxn || waves->back().wave <= apart.back().wave);
    fewer += waves->back().wave < apart.back().wave;
  }
  EXPECT_GT(fewer, 0);
}

/// Each device of one node sends a row to each of another.
WaveProblem allToAll(const Cluster &cluster) {
  std::vector<Move> moves;
  int64_t at = 0;
  for (int64_t from = 0; from < 8; ++from)
    for (int64_t to = 8; to < 16; ++to, at += 25'000'000)
      moves.push_back({0, 0, from, to, elements(at, 25'000'000)});
  return wavesOf(moves, cluster);
}

TEST(JoinWaves, TheBestScheduleFillsPortsThatOnePairDoesNot) {
  // 8 ms by each NIC at its full rate, and twice that by one pair at a time.
  WaveProblem problem = allToAll(halfNics());
  WaveSchedule schedule = solved(problem, scheduleBest);
  EXPECT_LT(problem.seconds(schedule.moves), 1.05 * 8e-3);
}

/// However NICs are shared.
TEST(JoinWaves, TheBestScheduleFillsNicsThatDevicesShare) {
  for (bool pxn : {false, true}) {
    Cluster cluster = halfNics();
    cluster.pxn = pxn;
    cluster.devicesPerNic = 2;
    WaveProblem problem = allToAll(cluster);
    WaveSchedule schedule = solved(problem, scheduleBest);
    EXPECT_LT(problem.seconds(schedule.moves), 1.05 * 16e-3) << pxn;
  }
}

TEST(JoinWaves, RoundsAreJoinedToo) {
  // 0 sends 8 a block in each round, which 8 sends on in the next: to 16
  // and 24.
  std::vector<Move> moves;
  auto block = [](int64_t number) {
    return elements(number * 25'000'000, 25'000'000);
  };
  for (int64_t number = 0; number < 4; ++number)
    moves.push_back({0, 0, 0, 8, block(number)});
  for (int64_t number = 0; number < 4; ++number)
    for (int64_t to : {16, 24})
      moves.push_back({0, uint32_t(1 + number), 8, to, block(number)});
  WaveProblem problem = wavesOf(moves, halfNics());
  WaveSchedule rounds;
  ASSERT_FALSE(scheduleRounds(problem, {}, rounds));
  auto waves = joined(problem, rounds.moves);
  ASSERT_TRUE(waves);
  EXPECT_LT(problem.seconds(*waves), 0.8 * problem.seconds(rounds.moves));
  EXPECT_LE(problem.seconds(solved(problem, scheduleBest).moves),
            problem.seconds(*waves) * (1 + 1e-9));
}

TEST(JoinWaves, WhereLaunchesCostThereAreFewerWaves) {
  Cluster cluster = halfNics();
  auto waves = [&](double launchUs) {
    cluster.launchUs = launchUs;
    WaveProblem problem = allToAll(cluster);
    return solved(problem, scheduleBest).moves.back().wave + 1;
  };
  EXPECT_LT(waves(5000), waves(0));
}

} // namespace
