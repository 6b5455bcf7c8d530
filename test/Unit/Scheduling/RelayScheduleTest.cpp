//===- RelayScheduleTest.cpp - Messages that go over a third device -------===//

#include "dt/Scheduling/RelaySchedule.h"
#include "SolvedWaves.h"
#include "dt/Scheduling/BestSchedule.h"
#include "dt/Scheduling/Relays.h"
#include "dt/Scheduling/Staging.h"

#include <set>

using namespace dt;
using namespace dt::testing;

namespace {

Box rows(int64_t lo, int64_t hi) {
  return Box::fromOffsetSize({lo}, {hi - lo});
}

/// Three nodes of one device at 10 GB/s, 0 -> 2 at 0.1: 10 MB, 100 ms.
WaveProblem slowPair() {
  WaveProblem out;
  out.moves = {{0, 0, 0, 2, rows(0, 10000)}};
  out.elementBytes = {1000};
  out.cluster.devicesPerNode = 1;
  out.cluster.interNodeGBps = 10;
  out.cluster.links = {{{false, 0}, {false, 2}, 0.1}};
  out.stagingBytes = 100 << 20;
  return out;
}

WaveSchedule bestOf(const WaveProblem &problem) {
  WaveSchedule out;
  auto error = scheduleBest(problem, {}, out);
  EXPECT_FALSE(error) << *error;
  return out;
}

/// [0:8) over device 1 in two parts.
WaveSchedule twoParts() {
  WaveSchedule out;
  out.moves = {{{0, 0, 0, 1, rows(0, 4)}, 0, RelayHop::In},
               {{0, 0, 0, 1, rows(4, 8)}, 1, RelayHop::In},
               {{0, 0, 1, 2, rows(0, 4)}, 1, RelayHop::Out},
               {{0, 0, 1, 2, rows(4, 8)}, 2, RelayHop::Out}};
  return out;
}

WaveProblem smallPair() {
  WaveProblem out = slowPair();
  out.moves[0].box = rows(0, 8);
  return out;
}

std::string verdict(const WaveSchedule &schedule) {
  return smallPair().verify(schedule).value_or("");
}

} // namespace

TEST(Relays, AreAMoveInTwoHops) {
  EXPECT_EQ(verdict(twoParts()), "");
  std::vector<PlanMessage> messages =
      formMessages(twoParts().moves, {Flow{0, 1000, {}, {}}});
  std::vector<RelayedPair> pairs;
  ASSERT_FALSE(pairRelays(twoParts().moves, messages, pairs));
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0].in, 0u);
  EXPECT_EQ(pairs[0].out, 2u);
  RelaySlots slots = placeRelays(messages, pairs);
  // In wave 1 one part comes and the other one goes.
  EXPECT_EQ(slots.offsets, (std::vector<int64_t>{0, 4096}));
  EXPECT_EQ(slots.bytes, (std::map<int64_t, int64_t>{{1, 8192}}));
}

TEST(Relays, GoOnInALaterWave) {
  WaveSchedule s = twoParts();
  s.moves[2].wave = 0;
  sortByMessage(s.moves);
  EXPECT_EQ(verdict(s), "the message from device 1 to device 2 of wave 0 is "
                        "relayed before it has come");
}

TEST(Relays, GoOn) {
  WaveSchedule s = twoParts();
  s.moves.pop_back();
  EXPECT_EQ(verdict(s), "the message from device 0 to device 1 of wave 1 comes "
                        "to a relay, which never sends it on");
}

TEST(Relays, GoOnAsTheyCame) {
  WaveSchedule s = twoParts();
  s.moves[3].move.box = rows(4, 7);
  EXPECT_EQ(verdict(s), "the message from device 1 to device 2 of wave 2 is "
                        "relayed before it has come");
}

TEST(Relays, TravelAlone) {
  WaveSchedule s = twoParts();
  s.moves.insert(s.moves.begin() + 1, {{0, 0, 0, 1, rows(8, 9)}, 0});
  EXPECT_EQ(
      verdict(s),
      "the message from device 0 to device 1 of wave 0 is relayed in part");
}

TEST(Relays, AreAllOfAMoveOnce) {
  WaveSchedule s = twoParts();
  s.moves.erase(s.moves.begin() + 3);
  s.moves.erase(s.moves.begin() + 1);
  EXPECT_EQ(verdict(s), "device 0 sends device 2 at hop 0 no [4:8) of flow 0, "
                        "which a move has");
  s.moves.insert(s.moves.begin(), {{0, 0, 0, 2, rows(0, 8)}, 0});
  sortByMessage(s.moves);
  EXPECT_NE(verdict(s), "");
}

// What is relayed stays in its slot: device 1 sends the same rows from its own
// shard without waiting for it, and a relay waits for no unpack.
TEST(Relays, BringNothingThatIsForwarded) {
  std::vector<ScheduledMove> moves = {
      {{0, 0, 3, 1, rows(0, 8)}, 0},
      {{0, 0, 0, 1, rows(0, 8)}, 1, RelayHop::In},
      {{0, 1, 1, 4, rows(0, 8)}, 2},
      {{0, 1, 1, 2, rows(0, 8)}, 3, RelayHop::Out}};
  std::vector<TimedMessage> messages = smallPair().messages(moves);
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_FALSE(messages[2].isForward);
  EXPECT_FALSE(messages[3].isForward);
  // It is one where the rows come to stay.
  moves[1].relay = RelayHop::None;
  EXPECT_TRUE(smallPair().messages(moves)[2].isForward);
}

TEST(Relays, HaveRoomInStaging) {
  WaveProblem problem = smallPair();
  // Device 1 has two slots, and nothing else.
  problem.stagingBytes = 8192;
  EXPECT_FALSE(problem.verify(twoParts()));
  problem.stagingBytes = 8191;
  EXPECT_EQ(problem.verify(twoParts()).value_or(""),
            "slots of device 0 take 8192 bytes, more than the limit of 8191");
}

TEST(Relays, NeedTwoFastHops) {
  WaveProblem problem = slowPair();
  WaveSchedule schedule = bestOf(problem);
  EXPECT_NEAR(problem.seconds(schedule.moves), 100e-3, 1e-3);
  auto gain = relayMessages(problem, {}, {0, 1, 2}, schedule);
  ASSERT_TRUE(gain);
  EXPECT_EQ(gain->bytes, 10000000);
  EXPECT_FALSE(problem.verify(schedule)) << *problem.verify(schedule);
  EXPECT_DOUBLE_EQ(gain->secondsWith, problem.seconds(schedule.moves));
  EXPECT_LT(gain->secondsWith, 1.5e-3); // 1 ms in each hop, in parts
  problem.cluster.links.push_back({{false, 0}, {false, 1}, 0.1});
  schedule = bestOf(problem);
  EXPECT_FALSE(relayMessages(problem, {}, {0, 1, 2}, schedule));
  EXPECT_FALSE(relayMessages(problem, {}, {0, 2}, schedule));
}

TEST(Relays, GainAClearMargin) {
  WaveProblem problem = slowPair();
  problem.cluster.links[0].GBps = 9;
  WaveSchedule schedule = bestOf(problem);
  EXPECT_FALSE(relayMessages(problem, {}, {0, 1, 2}, schedule));
}

TEST(Relays, LeaveWhatIsPassedOn) {
  WaveProblem problem = slowPair();
  problem.moves.push_back({0, 1, 2, 3, rows(0, 10000)});
  WaveSchedule schedule = bestOf(problem);
  EXPECT_FALSE(relayMessages(problem, {}, {0, 1, 2, 3}, schedule));
}

// Schedules with relays are solutions, gain what they say, and are no faster
// than can be.
TEST(Relays, OfRandomTransitions) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int relayed = 0;
  for (int trial = 0; trial < 150; ++trial) {
    RandomTransition t = randomTransition(random);
    t.cluster.relays = true;
    t.cluster.latencyUs = t.cluster.packLaunchUs = 1e-3; // for few bytes
    std::set<int64_t> all;
    for (const auto *sides : {&t.sources, &t.destinations})
      for (const std::vector<Holding> &side : *sides)
        for (const Holding &holding : side)
          all.insert(holding.devices.begin(), holding.devices.end());
    std::vector<int64_t> devices(all.begin(), all.end());
    for (size_t links = random() % 12; links > 0; --links)
      t.cluster.links.push_back({{false, devices[random() % devices.size()]},
                                 {false, devices[random() % devices.size()]},
                                 0.02 * double(1 + random() % 50)});
    RoutingProblem routes(t.flows, t.cluster, int64_t(1) << 20);
    WaveProblem problem = waveProblem(routes, solved(routes).moves);
    WaveSchedule schedule = bestOf(problem);
    double without = problem.seconds(schedule.moves);
    auto gain = relayMessages(problem, {}, devices, schedule);
    double seconds = problem.seconds(schedule.moves);
    auto error = problem.verify(schedule);
    ASSERT_FALSE(error) << *error;
    EXPECT_GE(seconds * (1 + 1e-9), computeBounds(t.flows, t.cluster).seconds);
    if (!gain) {
      EXPECT_EQ(seconds, without);
      continue;
    }
    ++relayed;
    EXPECT_DOUBLE_EQ(gain->secondsWithout, without);
    EXPECT_LE(seconds, 0.95 * without);
    int64_t bytes = 0;
    for (const ScheduledMove &piece : schedule.moves)
      if (piece.relay == RelayHop::Out)
        bytes +=
            piece.move.box.volume() * problem.elementBytes[piece.move.flow];
    EXPECT_EQ(gain->bytes, bytes);
  }
  EXPECT_GT(relayed, 0);
}
