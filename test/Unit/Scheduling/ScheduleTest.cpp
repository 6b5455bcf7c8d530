//===- ScheduleTest.cpp - Waves: ports, order, completeness ---------------===//

#include "SolvedWaves.h"

#include "gtest/gtest.h"

#include <map>
#include <numeric>
#include <random>
#include <set>
#include <thread>

using namespace dt;
using namespace dt::testing;

namespace {

/// Every port has at most one message per direction in a wave.
void expectPortsAreFree(const std::vector<ScheduledMove> &scheduled,
                        const Cluster &cluster) {
  using Pair = std::pair<int64_t, int64_t>;
  std::map<std::tuple<int32_t, int64_t, bool, bool>, Pair> pairs;
  for (const ScheduledMove &s : scheduled) {
    bool inter = !cluster.sameNode(s.move.source, s.move.destination);
    Pair own = {s.move.source, s.move.destination};
    int64_t from = cluster.port(own.first, inter);
    int64_t to = cluster.port(own.second, inter);
    EXPECT_EQ(
        pairs.try_emplace({s.wave, from, false, inter}, own).first->second,
        own);
    EXPECT_EQ(pairs.try_emplace({s.wave, to, true, inter}, own).first->second,
              own);
  }
}

using Element = std::tuple<uint32_t, int64_t, int64_t>;
std::vector<Element> elementsOf(const Move &move) {
  std::vector<Element> out;
  for (int64_t r = move.box[0].lo; r < move.box[0].hi; ++r)
    for (int64_t c = move.box[1].lo; c < move.box[1].hi; ++c)
      out.push_back({move.flow, r, c});
  return out;
}

TEST(Schedule, MovesEverythingOnceOnFreePortsAfterItsFeeders) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int trial = 0; trial < 300; ++trial) {
    RandomTransition t = randomTransition(random);
    if (random() % 2)
      t.cluster.devicesPerNic = t.cluster.devicesPerNode;
    WaveProblem problem = randomWaves(t, 2048 + random() % 8192);
    std::vector<ChunkBytes> candidates = candidateChunks(problem);
    ChunkBytes chunks = candidates[random() % candidates.size()];
    if (!chunks.isWhole && random() % 2) {
      chunks.hasShortEnds = true;
      // Else copies this small do not count.
      t.cluster.latencyUs = problem.cluster.latencyUs = 1e-3;
    }
    chunks.endsSoon = !chunks.isWhole && random() % 2;
    std::vector<ScheduledMove> scheduled = scheduledWith(problem, chunks);
    expectPortsAreFree(scheduled, t.cluster);

    std::map<int64_t, std::map<Element, int32_t>> arrived; // wave
    std::map<std::tuple<int32_t, int64_t, int64_t>, int64_t> bytes;
    for (const ScheduledMove &s : scheduled) {
      bytes[{s.wave, s.move.source, s.move.destination}] +=
          s.move.box.volume() * t.flows[s.move.flow].bytesPerElement;
      for (const Element &e : elementsOf(s.move)) {
        EXPECT_TRUE(arrived[s.move.destination].emplace(e, s.wave).second);
        if (s.move.hop == 0)
          continue;
        auto fed = arrived[s.move.source].find(e);
        ASSERT_NE(fed, arrived[s.move.source].end());
        EXPECT_LT(fed->second, s.wave);
      }
    }
    for (const Move &move : problem.moves)
      for (const Element &e : elementsOf(move))
        EXPECT_TRUE(arrived[move.destination].count(e));
    for (auto &[key, size] : bytes)
      EXPECT_LE(size, t.cluster.sameNode(std::get<1>(key), std::get<2>(key))
                          ? chunks.intra
                          : chunks.inter);
  }
}

/// All-to-all among n devices of one node, `bytes` per pair.
std::vector<Move> allToAll(int64_t n, int64_t bytes) {
  std::vector<Move> moves;
  for (int64_t s = 0; s < n; ++s)
    for (int64_t d = 0; d < n; ++d)
      if (s != d)
        moves.push_back(
            {0, 0, s, d, Box::fromOffsetSize({(s * n + d) * bytes}, {bytes})});
  return moves;
}

/// Each device sends one box to the next, which passes it on, and one far away:
/// more pairs meet in a wave than a thread fills the messages of.
TEST(Schedule, ManyPairsFillTheirMessagesOnThreadsAsWithout) {
  constexpr int64_t kDevices = 700;
  std::vector<Move> moves;
  for (uint32_t hop : {0, 1})
    for (int64_t from = 0; from < kDevices; ++from)
      moves.push_back({uint32_t(from), hop, (from + hop) % kDevices,
                       (from + hop + 1) % kDevices,
                       Box::whole({100 + from % 7})});
  for (int64_t from = 0; from < kDevices; ++from)
    moves.insert(moves.begin(), {uint32_t(kDevices + from), 0, from,
                                 (from + 350) % kDevices, Box::whole({80})});
  WaveProblem p = wavesOf(moves);
  auto threaded = [](size_t n, const auto &body) {
    std::vector<std::thread> threads;
    for (size_t i = n; i-- > 0;)
      threads.emplace_back(body, i);
    for (std::thread &thread : threads)
      thread.join();
  };
  auto tied = [](const ScheduledMove &s) {
    return std::tie(s.wave, s.move.flow, s.move.hop, s.move.source,
                    s.move.destination, s.move.box);
  };
  for (bool holdsForwards : {false, true}) {
    ChunkBytes chunks = {64, 64};
    chunks.holdsForwards = holdsForwards;
    auto alone = scheduledWith(p, chunks);
    auto beside = schedule(p, chunks, kMaxPieces, threaded);
    EXPECT_GT(alone.size(), moves.size());
    EXPECT_TRUE(std::is_sorted(
        alone.begin(), alone.end(), [](const auto &a, const auto &b) {
          return std::tie(a.wave, a.move.source, a.move.destination) <
                 std::tie(b.wave, b.move.source, b.move.destination);
        }));
    ASSERT_EQ(alone.size(), beside.size());
    for (size_t i = 0; i < alone.size(); ++i)
      EXPECT_EQ(tied(alone[i]), tied(beside[i])) << i;
  }
}

TEST(Schedule, NonPowerOfTwoWorldsPayNothing) {
  // n - 1 messages per port fit n - 1 waves, whatever n is; XOR rounds would
  // need the next power of two minus one.
  Cluster cluster;
  cluster.devicesPerNode = 1000;
  for (int64_t n : {3, 5, 6, 7, 12, 24, 33, 96}) {
    std::vector<Move> moves = allToAll(n, 128);
    std::vector<ScheduledMove> scheduled =
        scheduledWith(wavesOf(moves, cluster), {128, 128});
    ASSERT_EQ(scheduled.size(), moves.size());
    EXPECT_EQ(scheduled.back().wave + 1, n - 1) << n << " devices";
  }
}

/// Four devices have two messages each, for four others that want two each: a
/// ring, so that two waves of four are enough. In the first one 0 takes 4, 1
/// takes 6, 2 takes 7, and 3 finds both of its receivers taken: 2 gives way to
/// it, and 1 to 2.
TEST(Schedule, ASenderThatGivesWayGetsAnotherReceiver) {
  constexpr int64_t kBytes = 64 << 20;
  std::vector<Move> moves;
  for (auto [from, to] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 4}, {1, 6}, {2, 6}, {2, 7}, {3, 7}, {3, 4}, {0, 5}, {1, 5}})
    moves.push_back(
        {0, 0, from, to,
         Box::fromOffsetSize({int64_t(moves.size()) * kBytes}, {kBytes})});
  std::vector<ScheduledMove> scheduled =
      scheduledWith(wavesOf(moves), {kBytes, kBytes});
  EXPECT_EQ(scheduled.size(), moves.size());
  EXPECT_EQ(scheduled.back().wave + 1, 2);
}

/// Seconds that the schedule needs, over those of its busiest port.
double loss(const WaveProblem &problem, ChunkBytes chunks) {
  std::vector<TimedMessage> messages =
      problem.messages(scheduledWith(problem, chunks));
  PortSeconds busiest = busiestPorts(messages, problem.cluster);
  return predictSeconds(messages, problem.cluster) /
         std::max(busiest.nic, busiest.island);
}

/// A sum of random permutations with random weights: every port is full from
/// start to end, and no two pairs have as much to send.
WaveProblem unequalMessages() {
  constexpr int64_t kDevices = 24;
  std::mt19937 random(7);
  Cluster cluster;
  cluster.devicesPerNode = 1;
  std::vector<Move> moves;
  int64_t at = 0;
  for (int i = 0; i < 40; ++i) {
    std::vector<int64_t> to(kDevices);
    std::iota(to.begin(), to.end(), 0);
    std::shuffle(to.begin(), to.end(), random);
    int64_t bytes = (1 + int64_t(random() % 100)) << 20;
    for (int64_t from = 0; from < kDevices; ++from, at += bytes)
      moves.push_back({0, 0, from, kDevices + to[from],
                       Box::fromOffsetSize({at}, {bytes})});
  }
  return wavesOf(moves, cluster);
}

TEST(Schedule, UnequalMessagesKeepFullPortsBusy) {
  constexpr int64_t kChunk = 32 << 20;
  EXPECT_LT(loss(unequalMessages(), {kChunk, kChunk}), 1.03);
}

/// Waves that are as long as what they cost make most of their time, but they
/// are many.
TEST(Schedule, EndsInFewerWavesWhereItShall) {
  WaveProblem problem = unequalMessages();
  ChunkBytes chunks = {32 << 20, 32 << 20}, few = chunks;
  few.endsSoon = true;
  std::vector<ScheduledMove> many = scheduledWith(problem, chunks),
                             soon = scheduledWith(problem, few);
  EXPECT_LT(soon.back().wave, many.back().wave);
  EXPECT_LT(soon.size(), many.size());
  EXPECT_LT(loss(problem, few), 1.03);
}

TEST(Schedule, FirstAndLastWaveAreShortWhereCopiesShow) {
  // 4 GiB inside an island: a chunk is copied in a fifth of its wire time.
  constexpr int64_t kChunk = 256 << 20, kBytes = int64_t(4) << 30;
  WaveProblem problem =
      wavesOf({{0, 0, 0, 1, Box::fromOffsetSize({0}, {kBytes})}});
  auto run = [&](int64_t chunk, bool hasShortEnds) {
    return scheduledWith(problem, {chunk, 0, /*isWhole=*/false, hasShortEnds});
  };
  auto seconds = [&](const std::vector<ScheduledMove> &scheduled) {
    return problem.seconds(scheduled);
  };
  std::vector<ScheduledMove> even = run(kChunk, false),
                             ends = run(kChunk, true);
  EXPECT_EQ(even.front().move.box.volume(), kChunk);
  EXPECT_LT(ends.front().move.box.volume(), kChunk / 4);
  EXPECT_LT(ends.back().move.box.volume(), kChunk / 4);
  EXPECT_LT(seconds(ends), seconds(even) - Cluster().packSeconds(kChunk));
  // A copy of 4 us is less than what another wave costs.
  EXPECT_EQ(run(4 << 20, true).size(), run(4 << 20, false).size());
}

TEST(Schedule, WhatOthersWaitForGoesFirst) {
  // Device 8 has its own data for device 16 and passes on what device 0 sends
  // it last in the list: forwarded late, that would double the time.
  constexpr int64_t kBytes = 64 << 20;
  auto box = [](int64_t i) { return Box::fromOffsetSize({i}, {kBytes}); };
  std::vector<Move> moves;
  for (int64_t i = 0; i < 8; ++i)
    moves.push_back({0, 0, 0, 8, box(i * kBytes)});
  moves.push_back({0, 0, 0, 8, box(8 * kBytes)});
  for (int64_t i = 0; i < 8; ++i)
    moves.push_back({0, 0, 8, 16, box((16 + i) * kBytes)});
  moves.push_back({0, 1, 8, 24, box(8 * kBytes)});
  EXPECT_LT(loss(wavesOf(moves), {8 << 20, 8 << 20}), 1.06);
}

TEST(Schedule, AForwardWaitsForAllThatFeedsIt) {
  // Device 8 gets the halves of what it passes on from two devices, in turns.
  auto box = [](int64_t at, int64_t size) {
    return Box::fromOffsetSize({at}, {size});
  };
  std::vector<ScheduledMove> scheduled =
      scheduledWith(wavesOf({{0, 0, 0, 8, box(0, 4)},
                             {0, 0, 1, 8, box(4, 4)},
                             {0, 1, 8, 16, box(0, 8)}}),
                    {64, 64});
  ASSERT_EQ(scheduled.size(), 3u);
  EXPECT_EQ(scheduled.back().move.hop, 1u);
  EXPECT_EQ(scheduled.back().wave, 2);
}

TEST(Schedule, AForwardOfAPartGoesOutOnce) {
  // Device 8 passes on the first quarter of what comes to it in four messages:
  // those after the first bring nothing more of that.
  std::vector<ScheduledMove> scheduled =
      scheduledWith(wavesOf({{0, 0, 0, 8, Box::fromOffsetSize({0}, {256})},
                             {0, 1, 8, 16, Box::fromOffsetSize({0}, {64})}}),
                    {64, 64});
  EXPECT_EQ(scheduled.size(), 5u);
}

TEST(Schedule, SaysHowMuchStagingAnElementNeeds) {
  WaveProblem problem = wavesOf({{0, 0, 0, 1, Box::fromOffsetSize({0}, {4})}});
  problem.elementBytes = {4096};
  EXPECT_EQ(stagingNeeded(problem), 4 * 4096);
  problem.stagingBytes = 4 * 4096;
  EXPECT_EQ(scheduledWith(problem, candidateChunks(problem).front()).size(),
            4u);
  --problem.stagingBytes;
  EXPECT_TRUE(candidateChunks(problem).empty());
  WaveSchedule schedule;
  EXPECT_EQ(*scheduleGreedily(problem, {}, schedule),
            "needs at least 16384 bytes of staging per device, more than the "
            "limit of 16383 (memory.staging)");
}

TEST(Schedule, LeavesEachLevelItsWidestElement) {
  // The NIC carries one element of 4 KiB, the island a thousand times as much.
  WaveProblem problem = wavesOf({{0, 0, 0, 1, Box::fromOffsetSize({0}, {4000})},
                                 {1, 0, 0, 8, Box::fromOffsetSize({0}, {4})}});
  problem.elementBytes = {1000, 4096};
  problem.stagingBytes = stagingNeeded(problem);
  EXPECT_EQ(problem.stagingBytes, 4 * (1024 + 4096));
  for (ChunkBytes chunks : candidateChunks(problem))
    scheduledWith(problem, chunks);
  --problem.stagingBytes;
  EXPECT_TRUE(candidateChunks(problem).empty());
}

TEST(Schedule, NoPortIsCutMoreOftenThanTheLimit) {
  // Four slots of 256 bytes: 2^16 cuts make 2^16 + 1 messages.
  constexpr int64_t kMost = ((1 << 16) + 1) * 256;
  WaveProblem problem =
      wavesOf({{0, 0, 0, 1, Box::fromOffsetSize({0}, {kMost})}});
  problem.stagingBytes = 4 * 256;
  EXPECT_FALSE(candidateChunks(problem).empty());
  problem.moves[0].box = Box::fromOffsetSize({0}, {kMost + 1});
  EXPECT_TRUE(candidateChunks(problem).empty());
}

TEST(Schedule, OnlySlowLinksHaveShorterMessages) {
  constexpr int64_t kChunk = 1 << 30, kBytes = int64_t(1) << 35;
  Cluster cluster;
  cluster.devicesPerNode = 1;
  cluster.interNodeGBps = 25;
  auto largest = [&](double rate) {
    cluster.links = {{{false, 0}, {false, 1}, rate}};
    return largestMessage(0, 1, kBytes, {kChunk, kChunk}, cluster);
  };
  EXPECT_EQ(largest(25), kChunk);
  EXPECT_EQ(largest(50), kChunk);
  EXPECT_EQ(largest(12.5), kChunk / 2);
  // At most 1,024 messages.
  EXPECT_EQ(largest(1e-3), kBytes / 1024);
  // A chunk times 10^12 is more than 2^63 bytes.
  cluster.interNodeGBps = 1e-6;
  EXPECT_EQ(largest(1e6), kChunk);
}

} // namespace
