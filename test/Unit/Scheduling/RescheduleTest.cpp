//===- RescheduleTest.cpp - Around the waves of an old plan ---------------===//

#include "dt/Scheduling/Reschedule.h"
#include "OldMoves.h"
#include "SolvedWaves.h"
#include "dt/Routing/Reroute.h"
#include "dt/Scheduling/BestSchedule.h"

#include "gtest/gtest.h"

#include <algorithm>

using namespace dt;
using namespace dt::testing;

namespace {

OldMoves oldMovesOf(const std::vector<ScheduledMove> &scheduled,
                    size_t numFlows) {
  OldMoves out(numFlows);
  for (const ScheduledMove &piece : scheduled)
    out[piece.move.flow].push_back({piece.move, piece.wave});
  return out;
}

KeptSchedule rescheduled(const WaveProblem &problem, const OldMoves &old) {
  auto fault = problem.check();
  EXPECT_FALSE(fault) << *fault;
  WaveOptions options;
  options.old = &old;
  KeptSchedule kept;
  auto error = reschedule(problem, options, kept);
  EXPECT_FALSE(error) << *error;
  auto broken = problem.verify(kept.schedule);
  EXPECT_FALSE(broken) << *broken;
  return kept;
}

int64_t bytesOf(const WaveProblem &problem) {
  int64_t bytes = 0;
  for (const Move &move : problem.moves)
    bytes += move.box.volume() * problem.elementBytes[move.flow];
  return bytes;
}

Box elements(int64_t lo, int64_t hi) {
  Box box(1);
  box[0] = {lo, hi};
  return box;
}

/// Around messages that stay.
void rescheduleAround(const WaveProblem &problem, const OldMoves &old,
                      const WavesAround &around, KeptSchedule &kept) {
  WaveOptions options;
  options.old = &old;
  options.around = &around;
  auto error = reschedule(problem, options, kept);
  ASSERT_FALSE(error) << *error;
}

TEST(Reschedule, KeepsAllWavesOfWhatHasNotChanged) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 100; ++trial) {
    SCOPED_TRACE(trial);
    WaveProblem problem = randomWaves(randomTransition(random), 1 << 20);
    auto before = solved(problem, scheduleBest).moves;
    auto kept =
        rescheduled(problem, oldMovesOf(before, problem.elementBytes.size()));
    EXPECT_EQ(kept.bytesInWave, bytesOf(problem));
    EXPECT_NEAR(problem.seconds(kept.schedule.moves), problem.seconds(before),
                1e-12);
  }
}

TEST(Reschedule, IsRightWhenDevicesHaveBeenReplaced) {
  std::mt19937 random(4);
  int64_t inWave = 0;
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    RandomTransition t = randomTransition(random);
    WaveProblem problem = randomWaves(t, 1 << 20);
    OldMoves old = oldMovesOf(solved(problem, scheduleBest).moves,
                              problem.elementBytes.size());
    for (Flow &flow : t.flows)
      replaceDevice(flow.destination, random);
    RouterOptions options;
    options.minPieceBytes = 64;
    options.old = &old;
    RoutingProblem changed(t.flows, t.cluster, 1 << 20);
    problem = waveProblem(changed, dt::testing::solved(changed, options).moves);
    inWave += rescheduled(problem, old).bytesInWave;
  }
  EXPECT_GT(inWave, 0);
}

TEST(Reschedule, FreesOneOfTwoMessagesThatMeetAtAPort) {
  // 0 -> 1 and 2 -> 3 were in one wave; 3 has got the place of 1.
  Cluster cluster;
  cluster.devicesPerNode = 1;
  WaveProblem problem = wavesOf(
      {{0, 0, 0, 3, elements(0, 1 << 20)}, {1, 0, 2, 3, elements(0, 1 << 20)}},
      cluster);
  OldMoves old = {{{problem.moves[0], 0}}, {{problem.moves[1], 0}}};
  EXPECT_EQ(rescheduled(problem, old).bytesInWave, 1 << 20);
}

TEST(Reschedule, FreesAForwardWhoseFeederComesLater) {
  Cluster cluster;
  cluster.devicesPerNode = 1;
  WaveProblem problem = wavesOf(
      {{0, 0, 0, 1, elements(0, 1 << 20)}, {0, 1, 1, 2, elements(0, 1 << 20)}},
      cluster);
  OldMoves old = {{{problem.moves[0], 1}, {problem.moves[1], 0}}};
  EXPECT_EQ(rescheduled(problem, old).bytesInWave, 1 << 20);
}

TEST(Reschedule, GoesFromZeroWhereSlotsDoNotFit) {
  Cluster cluster;
  cluster.devicesPerNode = 1;
  WaveProblem problem = wavesOf({{0, 0, 0, 1, elements(0, 1 << 20)}}, cluster);
  OldMoves old = {{{problem.moves[0], 0}}};
  problem.stagingBytes = 1 << 18;
  EXPECT_EQ(rescheduled(problem, old).bytesInWave, 0);
}

/// Moves without forwards, all of them one way.
WaveProblem withoutForwards(WaveProblem problem) {
  std::vector<Move> moves;
  for (const Move &move : problem.moves)
    if (move.hop == 0)
      moves.push_back(move);
  problem.moves = std::move(moves);
  return problem;
}

TEST(Reschedule, GoesAroundMessagesThatStay) {
  std::random_device seeds;
  unsigned seed = seeds();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  int64_t inWave = 0;
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    WaveProblem all =
        withoutForwards(randomWaves(randomTransition(random), 1 << 20));
    if (all.moves.empty())
      continue;
    // What goes to one device goes to a new one now; the rest stays.
    int64_t lost = all.moves[random() % all.moves.size()].destination;
    int64_t heir = 64 + int64_t(random() % 4);
    WavesAround around;
    around.firstWave = [](const Move &) { return 0; };
    around.isPassedOn = [](const Move &) { return false; };
    around.isLoose = trial % 2 == 1;
    WaveProblem rest = all;
    rest.moves.clear();
    OldMoves old(all.elementBytes.size());
    std::vector<ScheduledMove> before = solved(all, scheduleBest).moves;
    std::vector<ScheduledMove> staying;
    for (ScheduledMove piece : before) {
      around.numWaves = std::max(around.numWaves, piece.wave + 1);
      if (piece.move.destination != lost) {
        staying.push_back(piece);
        continue;
      }
      piece.move.destination = heir;
      old[piece.move.flow].push_back({piece.move, piece.wave});
    }
    around.messages = all.messages(staying);
    for (Move &move : all.moves)
      if (move.destination == lost) {
        move.destination = heir;
        rest.moves.push_back(move);
      }
    WaveOptions options;
    options.old = &old;
    options.around = &around;
    KeptSchedule kept;
    auto error = reschedule(rest, options, kept);
    ASSERT_FALSE(error) << *error;
    inWave += kept.bytesInWave;
    // All of it together is right.
    WaveSchedule whole;
    whole.moves = staying;
    whole.moves.insert(whole.moves.end(), kept.schedule.moves.begin(),
                       kept.schedule.moves.end());
    sortByMessage(whole.moves);
    all.stagingBytes *= 2; // areas are each as large as their largest group
    auto broken = all.verify(whole);
    EXPECT_FALSE(broken) << *broken;
  }
  EXPECT_GT(inWave, 0);
}

TEST(Reschedule, SendsNothingBeforeItHasCome) {
  Cluster cluster;
  cluster.devicesPerNode = 1;
  WaveProblem problem = wavesOf({{0, 0, 0, 1, elements(0, 1 << 20)}}, cluster);
  OldMoves old = {{{problem.moves[0], 1}}};
  WavesAround around;
  around.messages = {{4, 2, 3, 4 << 20}};
  around.numWaves = 5;
  around.firstWave = [](const Move &) { return 3; };
  around.isPassedOn = [](const Move &) { return false; };
  KeptSchedule kept;
  ASSERT_NO_FATAL_FAILURE(rescheduleAround(problem, old, around, kept));
  EXPECT_EQ(kept.bytesInWave, 0);
  ASSERT_EQ(kept.schedule.moves.size(), 1u);
  EXPECT_EQ(kept.schedule.moves[0].wave, 4);
}

TEST(Reschedule, LeavesNoPortIdleThatHasNoTimeToLose) {
  // Each of some devices sends each of as many others a message in one of as
  // many waves. Of these waves only the lengths are left.
  constexpr int64_t kBytes = 1 << 20;
  std::random_device seeds;
  unsigned seed = seeds();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 50; ++trial) {
    SCOPED_TRACE(trial);
    auto count = int64_t(3 + random() % 8);
    std::vector<int64_t> receivers(count);
    for (int64_t i = 0; i < count; ++i)
      receivers[i] = count + i;
    std::shuffle(receivers.begin(), receivers.end(), random);
    Cluster cluster;
    cluster.devicesPerNode = 1;
    WavesAround around;
    around.firstWave = [](const Move &) { return 0; };
    around.isPassedOn = [](const Move &) { return false; };
    around.isLoose = true;
    std::vector<Move> moves;
    auto flow = uint32_t(0);
    for (int64_t wave = 0; wave < count; ++wave) {
      around.messages.push_back(
          {int32_t(wave), 2 * count, 2 * count + 1, kBytes});
      for (int64_t i = 0; i < count; ++i)
        moves.push_back(
            {flow++, 0, i, receivers[(i + wave) % count], elements(0, kBytes)});
    }
    around.numWaves = int32_t(count);
    std::shuffle(moves.begin(), moves.end(), random);
    WaveProblem problem = wavesOf(moves, cluster);
    OldMoves old(problem.elementBytes.size());
    KeptSchedule kept;
    ASSERT_NO_FATAL_FAILURE(rescheduleAround(problem, old, around, kept));
    auto broken = problem.verify(kept.schedule);
    EXPECT_FALSE(broken) << *broken;
    EXPECT_EQ(kept.schedule.moves.back().wave + 1, around.numWaves);
    EXPECT_EQ(kept.schedule.moves.size(), moves.size());
  }
}

TEST(Reschedule, KeepsTheWaveOfWhatIsPassedOn) {
  // 1 passes on in wave 3 what comes to it in wave 1; all else is loose.
  Cluster cluster;
  cluster.devicesPerNode = 1;
  WaveProblem problem = wavesOf(
      {{0, 0, 0, 1, elements(0, 1 << 20)}, {1, 0, 0, 2, elements(0, 1 << 20)}},
      cluster);
  OldMoves old = {{{problem.moves[0], 1}}, {{problem.moves[1], 2}}};
  WavesAround around;
  around.messages = {{0, 4, 5, 1 << 20}, {3, 1, 3, 1 << 20}};
  around.numWaves = 4;
  around.firstWave = [](const Move &) { return 0; };
  around.isPassedOn = [](const Move &move) { return move.destination == 1; };
  around.isLoose = true;
  KeptSchedule kept;
  ASSERT_NO_FATAL_FAILURE(rescheduleAround(problem, old, around, kept));
  ASSERT_EQ(kept.schedule.moves.size(), 2u);
  EXPECT_EQ(kept.schedule.moves[0].wave, 0);
  EXPECT_EQ(kept.schedule.moves[0].move.destination, 2);
  EXPECT_EQ(kept.schedule.moves[1].wave, 1);
  EXPECT_EQ(kept.bytesInWave, 1 << 20);
}

/// Three waves in each of which device 4 sends so many bytes to device 5.
WavesAround threeOfAnotherPair(int64_t bytes) {
  WavesAround around;
  for (int32_t wave : {0, 1, 2})
    around.messages.push_back({wave, 4, 5, bytes});
  around.numWaves = 3;
  around.firstWave = [](const Move &) { return 0; };
  around.isPassedOn = [](const Move &) { return false; };
  return around;
}

TEST(Reschedule, SendsOnBesideWhatStays) {
  // 0 -> 1 -> 2 finds two of the waves of 4 -> 5, one after the other.
  Cluster cluster;
  cluster.devicesPerNode = 1;
  WaveProblem problem = wavesOf(
      {{0, 0, 0, 1, elements(0, 1 << 20)}, {0, 1, 1, 2, elements(0, 1 << 20)}},
      cluster);
  OldMoves old(1);
  WavesAround around = threeOfAnotherPair(1 << 20);
  KeptSchedule kept;
  ASSERT_NO_FATAL_FAILURE(rescheduleAround(problem, old, around, kept));
  auto broken = problem.verify(kept.schedule);
  EXPECT_FALSE(broken) << *broken;
  ASSERT_EQ(kept.schedule.moves.size(), 2u);
  EXPECT_EQ(kept.schedule.moves[0].wave, 0);
  EXPECT_EQ(kept.schedule.moves[1].wave, 1);
}

TEST(Reschedule, SendsOnWhatHasComeOfWhatIsStillToCome) {
  // 0 -> 1 fills the waves of 4 -> 5, and a quarter is left. 1 -> 2 has the
  // first two behind them in the same waves.
  constexpr int64_t kPart = 1 << 20;
  Cluster cluster;
  cluster.devicesPerNode = 1;
  WaveProblem problem = wavesOf({{0, 0, 0, 1, elements(0, 4 * kPart)},
                                 {0, 1, 1, 2, elements(0, 4 * kPart)}},
                                cluster);
  OldMoves old(1);
  WavesAround around = threeOfAnotherPair(kPart);
  KeptSchedule kept;
  ASSERT_NO_FATAL_FAILURE(rescheduleAround(problem, old, around, kept));
  auto broken = problem.verify(kept.schedule);
  EXPECT_FALSE(broken) << *broken;
  std::vector<int32_t> early;
  for (const ScheduledMove &piece : kept.schedule.moves)
    if (piece.move.source == 1 && piece.wave < around.numWaves) {
      early.push_back(piece.wave);
      EXPECT_EQ(piece.move.box,
                elements((piece.wave - 1) * kPart, piece.wave * kPart));
    }
  EXPECT_EQ(early, (std::vector<int32_t>{1, 2}));
}

} // namespace
