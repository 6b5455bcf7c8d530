//===- WaveProblemTest.cpp - What is a schedule, and what is none ---------===//
//
// Nodes {0, 1} and {2, 3}, one flow of 128 bytes per element: a slot each.
//
//   hop 0   0 -> 1 [0:4)    0 -> 2 [0:8)    1 -> 2 [8:16)
//   hop 1   2 -> 3 [0:16)
//   copies  1 [8:16)
//
//===----------------------------------------------------------------------===//

#include "SolvedWaves.h"
#include "dt/Scheduling/BestSchedule.h"
#include "dt/Scheduling/ExactSchedule.h"
#include "dt/Scheduling/FlatSchedule.h"

#include <atomic>
#include <thread>

using namespace dt;
using namespace dt::testing;

namespace {

Box box(int64_t lo, int64_t hi) { return Box::fromOffsetSize({lo}, {hi - lo}); }

WaveProblem rightProblem() {
  WaveProblem out;
  out.moves = {{0, 0, 0, 1, box(0, 4)},
               {0, 0, 0, 2, box(0, 8)},
               {0, 0, 1, 2, box(8, 16)},
               {0, 1, 2, 3, box(0, 16)}};
  out.copies = {{0, 1, box(8, 16)}};
  out.elementBytes = {128};
  out.cluster.devicesPerNode = 2;
  out.stagingBytes = 1 << 20;
  return out;
}

/// The forward follows in two parts what it waits for.
WaveSchedule rightSchedule() {
  WaveSchedule out;
  out.copies = {{{0, 1, box(8, 16)}, 0}};
  out.moves = {{{0, 0, 0, 1, box(0, 4)}, 1},
               {{0, 0, 0, 2, box(0, 8)}, 1},
               {{0, 0, 1, 2, box(8, 16)}, 2},
               {{0, 1, 2, 3, box(0, 8)}, 2},
               {{0, 1, 2, 3, box(8, 16)}, 3}};
  return out;
}

std::string errorOf(const std::optional<std::string> &error) {
  return error.value_or("no error");
}

void expectBroken(const WaveProblem &problem, const WaveSchedule &schedule,
                  const std::string &text) {
  auto error = problem.verify(schedule);
  ASSERT_TRUE(error) << "expected: " << text;
  EXPECT_EQ(*error, text);
}
void expectBroken(const WaveSchedule &schedule, const std::string &text) {
  expectBroken(rightProblem(), schedule, text);
}

void expectUnsound(const WaveProblem &problem, const std::string &text) {
  auto error = problem.check();
  ASSERT_TRUE(error) << "expected: " << text;
  EXPECT_EQ(*error, text);
}

} // namespace

//===----------------------------------------------------------------------===//
// Instances
//===----------------------------------------------------------------------===//

TEST(WaveProblem, IsSound) {
  auto error = rightProblem().check();
  EXPECT_FALSE(error) << *error;
  // What does not move may have no width: a state that is dropped.
  WaveProblem p = rightProblem();
  p.elementBytes.push_back(0);
  EXPECT_FALSE(p.check());
}

TEST(WaveProblem, NamesMovesThatAreNone) {
  WaveProblem p = rightProblem();
  p.moves[1].flow = 1;
  expectUnsound(p, "move 1 is of flow 1, and there are 1");
  p = rightProblem();
  p.elementBytes = {0};
  expectUnsound(p, "move 0 is of flow 0, which has 0 bytes per element, "
                   "expected at least 1");
  p = rightProblem();
  p.moves[2].box = box(8, 8);
  expectUnsound(p, "move 2 is empty, [8:8)");
  p = rightProblem();
  p.moves[2].box = Box::fromOffsetSize({8, 0}, {8, 1});
  expectUnsound(p, "move 2 has 2 dims, expected the 1 of flow 0");
  p = rightProblem();
  p.moves[0].destination = 0;
  expectUnsound(p, "move 0 goes from device 0 to device 0, expected two "
                   "devices");
  p = rightProblem();
  p.moves[0].source = -1;
  expectUnsound(p, "move 0 goes from device -1 to device 1, expected two "
                   "devices");
  p = rightProblem();
  p.copies[0].device = -1;
  expectUnsound(p, "copy 0 is on device -1, expected 0 or more");
  p = rightProblem();
  p.copies[0].box = box(9, 9);
  expectUnsound(p, "copy 0 is empty, [9:9)");
}

TEST(WaveProblem, NamesHopsOutOfOrder) {
  WaveProblem p = rightProblem();
  std::swap(p.moves[2], p.moves[3]);
  expectUnsound(p, "move 3 has hop 0 and stands after one of hop 1, expected "
                   "by hop");
}

TEST(WaveProblem, NamesWhatComesTwice) {
  WaveProblem p = rightProblem();
  p.moves[2].box = box(6, 16);
  expectUnsound(p, "[6:8) of flow 0 comes to device 2 twice, expected once");
  p = rightProblem();
  p.moves[0].box = box(0, 9);
  expectUnsound(p, "[8:9) of flow 0 comes to device 1 twice, expected once");
}

TEST(WaveProblem, NamesForwardsThatNothingFeeds) {
  WaveProblem p = rightProblem();
  p.moves[2].box = box(8, 15);
  expectUnsound(p, "device 2 forwards [15:16) of flow 0 at hop 1, which no "
                   "move brings there at a lower hop");
  // At the same hop is too late.
  p = rightProblem();
  p.moves[1].hop = 1;
  std::swap(p.moves[1], p.moves[2]);
  expectUnsound(p, "device 0 forwards [0:8) of flow 0 at hop 1, which no move "
                   "brings there at a lower hop");
}

TEST(WaveProblem, NamesBytesBeyondTheLimit) {
  WaveProblem p;
  p.moves = {{0, 0, 0, 1, box(0, int64_t(1) << 61)}};
  p.elementBytes = {4};
  p.stagingBytes = 1024;
  expectUnsound(p, "moves and copies have bytes beyond the limit of 2^63");
  p.elementBytes = {3};
  EXPECT_FALSE(p.check());
  p.copies = {{0, 0, box(0, int64_t(1) << 61)}};
  expectUnsound(p, "moves and copies have bytes beyond the limit of 2^63");
}

TEST(WaveProblem, NamesWhatIsNoMachine) {
  WaveProblem p = rightProblem();
  p.stagingBytes = 0;
  expectUnsound(p, "staging has 0 bytes, expected at least 1");
  p = rightProblem();
  p.cluster.devicesPerNic = 3;
  expectUnsound(p, "the cluster has 3 devices per NIC, expected a divisor of "
                   "the 2 devices per node");
}

//===----------------------------------------------------------------------===//
// Solutions
//===----------------------------------------------------------------------===//

TEST(WaveProblem, AcceptsARightSchedule) {
  auto error = rightProblem().verify(rightSchedule());
  EXPECT_FALSE(error) << *error;
}

TEST(WaveProblem, WantsWavesInOrder) {
  WaveSchedule s = rightSchedule();
  std::swap(s.moves[1], s.moves[2]);
  expectBroken(s, "wave 1 stands after wave 2, expected ascending from 0");
  s = rightSchedule();
  for (ScheduledMove &piece : s.moves)
    piece.wave -= 2;
  expectBroken(s, "wave -1 stands after wave 0, expected ascending from 0");
  s = rightSchedule();
  s.copies = {{{0, 1, box(8, 12)}, 5}, {{0, 1, box(12, 16)}, 4}};
  expectBroken(s, "copies of wave 4 stand after those of wave 5, expected "
                  "ascending from 0");
}

TEST(WaveProblem, CopiesGoBesideMessagesOrAlone) {
  WaveSchedule s = rightSchedule();
  for (int32_t wave : {2, 9}) {
    s.copies[0].wave = wave;
    EXPECT_FALSE(rightProblem().verify(s));
  }
}

TEST(WaveProblem, WantsOneMessagePerPairAndWave) {
  WaveSchedule s = rightSchedule();
  s.moves[1].move.box = box(0, 6);
  s.moves.insert(s.moves.begin(), {{0, 0, 0, 2, box(6, 8)}, 1});
  expectBroken(s, "wave 1 has two messages from device 0 to device 2, expected "
                  "one");
  // Beside the other piece it is in the same message.
  std::swap(s.moves[0], s.moves[1]);
  EXPECT_FALSE(rightProblem().verify(s));
}

TEST(WaveProblem, WantsOneMessageEachWayPerPort) {
  // Two into the NIC of device 2.
  WaveSchedule s = rightSchedule();
  s.moves[2].wave = 1;
  s.moves[3].wave = 2;
  expectBroken(s, "wave 1 has two messages into the NIC of device 2, with "
                  "devices 0 and 1, expected one");
  // Two out of the island port of device 0, and two into that of device 2.
  WaveProblem p = wavesOf({{0, 0, 0, 1, box(0, 4)}, {0, 0, 0, 2, box(0, 4)}});
  s.moves = {{p.moves[0], 0}, {p.moves[1], 0}};
  s.copies.clear();
  expectBroken(p, s,
               "wave 0 has two messages out of the island port of device 0, "
               "with devices 1 and 2, expected one");
  p = wavesOf({{0, 0, 0, 2, box(0, 4)}, {0, 0, 1, 2, box(4, 8)}});
  s.moves = {{p.moves[0], 0}, {p.moves[1], 0}};
  expectBroken(p, s,
               "wave 0 has two messages into the island port of device 2, with "
               "devices 0 and 1, expected one");
  // Both ways at once, and both levels, is what ports are for.
  p = wavesOf({{0, 0, 0, 1, box(0, 4)},
               {0, 0, 0, 8, box(0, 4)},
               {0, 0, 1, 0, box(4, 8)},
               {0, 0, 8, 0, box(8, 9)}});
  s.moves = {
      {p.moves[0], 0}, {p.moves[1], 0}, {p.moves[2], 0}, {p.moves[3], 0}};
  EXPECT_FALSE(p.verify(s));
}

TEST(WaveProblem, WantsSharedNicsToTakeTurns) {
  // 2 -> 8 and 3 -> 12 share no device.
  WaveProblem p = wavesOf({{0, 0, 2, 8, box(0, 4)}, {0, 0, 3, 12, box(0, 4)}});
  WaveSchedule s;
  s.moves = {{p.moves[0], 0}, {p.moves[1], 0}};
  EXPECT_FALSE(p.verify(s));
  p.cluster.devicesPerNic = 2;
  expectBroken(p, s,
               "wave 0 has two messages out of the NIC of device 2, with "
               "devices 8 and 12, expected one");
  s.moves[1].wave = 1;
  EXPECT_FALSE(p.verify(s));
  // 0 -> 8 and 2 -> 9 meet at the receivers.
  p.moves = {{0, 0, 0, 8, box(0, 4)}, {0, 0, 2, 9, box(0, 4)}};
  s.moves = {{p.moves[0], 0}, {p.moves[1], 0}};
  expectBroken(p, s,
               "wave 0 has two messages into the NIC of device 8, with devices "
               "0 and 2, expected one");
}

TEST(WaveProblem, WantsNoMoreMessagesOfADeviceThanAKernelRuns) {
  // Two out and two in per port: eight of device 0.
  Cluster cluster;
  cluster.channelsPerPeer = 1;
  cluster.intraChannelGBps = 100;
  cluster.interChannelGBps = 12.5;
  std::vector<Move> moves;
  for (int64_t other : {1, 2, 8, 16}) {
    int64_t at = 2 * int64_t(moves.size());
    moves.push_back({0, 0, 0, other, box(at, at + 2)});
    moves.push_back({0, 0, other, 0, box(at + 2, at + 4)});
  }
  WaveProblem p = wavesOf(moves, cluster);
  WaveSchedule s;
  for (const Move &move : p.moves)
    s.moves.push_back({move, 0});
  expectBroken(p, s, "wave 0 has 8 messages of device 0, expected at most 7");
  s.moves.back().wave = 1;
  EXPECT_FALSE(p.verify(s));
}

TEST(WaveProblem, WantsMovesCutExactly) {
  WaveSchedule s = rightSchedule();
  s.moves.pop_back();
  expectBroken(s, "device 2 sends device 3 at hop 1 no [8:16) of flow 0, which "
                  "a move has");
  s = rightSchedule();
  s.moves[4].move.box = box(7, 16);
  expectBroken(s, "device 2 sends device 3 at hop 1 [7:8) of flow 0 twice, "
                  "expected once");
  s = rightSchedule();
  s.moves[4].move.box = box(8, 17);
  expectBroken(s, "device 2 sends device 3 at hop 1 [16:17) of flow 0, which "
                  "no move has");
  s = rightSchedule();
  s.moves[0].move.hop = 1;
  expectBroken(s, "device 0 sends device 1 at hop 0 no [0:4) of flow 0, which "
                  "a move has");
  s = rightSchedule();
  s.moves.push_back({{0, 0, 3, 0, box(0, 1)}, 4});
  expectBroken(s, "device 3 sends device 0 at hop 0 [0:1) of flow 0, which no "
                  "move has");
  s = rightSchedule();
  s.moves[0].move.flow = 1;
  WaveProblem p = rightProblem();
  p.elementBytes = {128, 128};
  expectBroken(p, s, "there is a piece [0:4) of flow 1, which no move has");
  s = rightSchedule();
  s.moves[0].move.box = box(2, 2);
  expectBroken(s, "there is a piece [2:2) of flow 0, which no move has");
}

TEST(WaveProblem, WantsFlowsThatThereAre) {
  WaveSchedule s = rightSchedule();
  s.moves[0].move.flow = 1;
  expectBroken(s, "there is a piece of flow 1, and there are 1 flows");
  s = rightSchedule();
  s.copies[0].move.flow = 7;
  expectBroken(s, "there is a copy of flow 7, and there are 1 flows");
}

TEST(WaveProblem, WantsCopiesCutExactly) {
  WaveSchedule s = rightSchedule();
  s.copies.clear();
  expectBroken(s, "device 1 copies no [8:16) of flow 0, which a move has");
  s = rightSchedule();
  s.copies.push_back({{0, 1, box(8, 9)}, 0});
  expectBroken(s, "device 1 copies [8:9) of flow 0 twice, expected once");
  s = rightSchedule();
  s.copies[0].move.device = 2;
  expectBroken(s, "device 1 copies no [8:16) of flow 0, which a move has");
  s = rightSchedule();
  s.copies.push_back({{0, 2, box(8, 9)}, 0});
  expectBroken(s, "device 2 copies [8:9) of flow 0, which no move has");
}

TEST(WaveProblem, WantsForwardsInLaterWaves) {
  WaveSchedule s = rightSchedule();
  s.moves[4].wave = 2; // one message with the other part
  expectBroken(s, "wave 2 forwards [8:16) of flow 0 from device 2, where not "
                  "all of it has come in an earlier wave");
  s = rightSchedule();
  s.moves[3].wave = 1;
  std::swap(s.moves[2], s.moves[3]);
  expectBroken(s, "wave 1 forwards [0:8) of flow 0 from device 2, where not "
                  "all of it has come in an earlier wave");
  // The first elements of a part are not enough.
  s = rightSchedule();
  s.moves[3].move.box = box(0, 9);
  s.moves[4].move.box = box(9, 16);
  expectBroken(s, "wave 2 forwards [0:9) of flow 0 from device 2, where not "
                  "all of it has come in an earlier wave");
}

TEST(WaveProblem, WantsSlotsThatFit) {
  // Device 2 receives 8 slots in its groups 0 and 1, and sends 8 in groups 1
  // and 2: areas of 8 for {receive} x {even, odd} and {send} x {odd, even}.
  WaveProblem p = rightProblem();
  p.stagingBytes = 32 * 128;
  EXPECT_FALSE(p.verify(rightSchedule()));
  p.stagingBytes -= 1;
  expectBroken(
      p, rightSchedule(),
      "slots of device 2 take 4096 bytes, more than the limit of 4095");
  // Slots are whole: two elements of 65 bytes take 256.
  p = wavesOf({{0, 0, 0, 1, box(0, 2)}});
  p.elementBytes = {65};
  p.stagingBytes = 255;
  WaveSchedule s;
  s.moves = {{p.moves[0], 0}};
  expectBroken(p, s,
               "slots of device 0 take 256 bytes, more than the limit of 255");
}

//===----------------------------------------------------------------------===//
// Storage
//===----------------------------------------------------------------------===//

namespace {

Holding holding(std::vector<int64_t> devices, int64_t lo, int64_t hi) {
  Holding out;
  out.shard.dims = {{{lo, hi}}};
  out.devices = std::move(devices);
  return out;
}

/// Devices 0 and 1 swap the halves of 8 elements of 4 bytes, page by page of an
/// element; both keep a tensor of 4 elements as it is.
WaveProblem swapProblem(int64_t limit) {
  WaveProblem out;
  out.moves = {{0, 0, 0, 1, box(0, 4)}, {0, 0, 1, 0, box(4, 8)}};
  out.copies = {{1, 0, box(0, 4)}, {1, 1, box(0, 4)}};
  out.elementBytes = {4, 4};
  out.stagingBytes = 1 << 20;
  Storage &storage = out.storage.emplace();
  storage.flows = {{0, {{4, 1}}, {{4, 1}}, 0}, {0, {{4, 1}}, {{4, 1}}, 1}};
  storage.source = {{holding({0}, 0, 4), holding({1}, 4, 8)},
                    {holding({0, 1}, 0, 4)}};
  storage.destination = {{holding({0}, 4, 8), holding({1}, 0, 4)},
                         {holding({0, 1}, 0, 4)}};
  storage.pageBytes = 4;
  storage.limitBytes = limit;
  return out;
}

/// Copies in `steps` waves, then both halves in `steps` waves.
WaveSchedule swapSchedule(int64_t steps) {
  WaveSchedule out;
  int64_t part = 4 / steps;
  for (int64_t i = 0; i < steps; ++i)
    for (int64_t device : {0, 1})
      out.copies.push_back(
          {{1, device, box(i * part, i * part + part)}, int32_t(i)});
  for (int64_t i = 0; i < steps; ++i)
    for (int64_t device : {0, 1}) {
      int64_t lo = 4 * device + i * part;
      out.moves.push_back(
          {{0, 0, device, 1 - device, box(lo, lo + part)}, int32_t(steps + i)});
    }
  return out;
}

} // namespace

TEST(WaveStorage, CountsPagesByWave) {
  // A half, or a quarter, of 16 bytes beside 32, and a slot each way; with more
  // than one wave of messages, slots of two groups.
  for (auto [steps, bytes, slots] :
       {std::tuple(1, 16, 256), std::tuple(2, 8, 512), std::tuple(4, 4, 512)}) {
    SCOPED_TRACE(steps);
    WaveProblem p = swapProblem(bytes + slots);
    auto fault = p.check();
    ASSERT_FALSE(fault) << *fault;
    auto error = p.verify(swapSchedule(steps));
    EXPECT_FALSE(error) << *error;
    --p.storage->limitBytes;
    error = p.verify(swapSchedule(steps));
    ASSERT_TRUE(error);
    EXPECT_EQ(*error, "device 0 holds " + std::to_string(32 + bytes + slots) +
                          " bytes in wave 0, " + std::to_string(bytes + slots) +
                          " above the larger of its source and its "
                          "destination, more than the limit of " +
                          std::to_string(bytes + slots - 1));
  }
}

TEST(WaveStorage, CreatesForAllCopiesOfAWaveBeforeAnyFrees) {
  WaveProblem p = swapProblem(1 << 20);
  p.moves.clear();
  p.storage->flows[0].source = p.storage->flows[0].destination = {};
  WaveSchedule s = swapSchedule(4);
  s.moves.clear();
  p.storage->limitBytes = 4;
  EXPECT_FALSE(p.verify(s));
  for (ScheduledCopy &copy : s.copies)
    copy.wave /= 2; // two quarters at once
  expectBroken(p, s,
               "device 0 holds 24 bytes in wave 0, 8 above the larger of its "
               "source and its destination, more than the limit of 4");
}

TEST(WaveStorage, CopiesBesideMessagesAreThereWithThem) {
  // As in CountsPagesByWave, in one wave: 16 bytes that are copied, 16 that
  // come, and slots of one group.
  WaveProblem p = swapProblem(32 + 256);
  WaveSchedule s = swapSchedule(1);
  for (ScheduledCopy &copy : s.copies)
    copy.wave = 1;
  auto error = p.verify(s);
  EXPECT_FALSE(error) << *error;
  --p.storage->limitBytes;
  expectBroken(p, s,
               "device 0 holds 320 bytes in wave 1, 288 above the larger of "
               "its source and its destination, more than the limit of 287");
  std::vector<dtrt::TimedCopy> timed = p.timedCopies(s);
  ASSERT_EQ(timed.size(), 2u);
  EXPECT_TRUE(timed[0].isBeside);
  EXPECT_EQ(timed[0].wave, 1);
  // A device without messages copies by itself.
  s.moves.clear();
  EXPECT_FALSE(p.timedCopies(s)[0].isBeside);
}

TEST(WaveStorage, RoundsToPagesOfEachBuffer) {
  // Pages of two elements: a quarter is created a half at a time.
  WaveProblem p = swapProblem(8 + 512);
  p.storage->pageBytes = 8;
  EXPECT_FALSE(p.verify(swapSchedule(4)));
  p.storage->limitBytes = 8 + 511;
  EXPECT_TRUE(p.verify(swapSchedule(4)));
  // Two states of 2 bytes take as much as one of 4, in pages of four elements.
  p.storage->limitBytes = 16 + 512;
  for (FlatFlow &flow : p.storage->flows)
    flow.source = flow.destination = {{2, 2}};
  EXPECT_FALSE(p.verify(swapSchedule(4)));
  p.storage->limitBytes = 16 + 511;
  EXPECT_TRUE(p.verify(swapSchedule(4)));
}

TEST(WaveStorage, FreesWhatNobodyReadsFirst) {
  // Device 0 gives up a tensor that nobody wants, and gets another as large.
  WaveProblem p;
  p.moves = {{0, 0, 1, 0, box(0, 4)}};
  p.elementBytes = {4, 0};
  p.stagingBytes = 1 << 20;
  Storage &storage = p.storage.emplace();
  storage.flows = {{0, {{4, 1}}, {{4, 1}}, 0}, {0, {{4, 1}}, {}, 1}};
  storage.source = {{holding({1}, 0, 4)}, {holding({0}, 0, 4)}};
  storage.destination = {{holding({0}, 0, 4)}, {}};
  storage.pageBytes = 64;
  storage.limitBytes = 128; // a slot
  auto fault = p.check();
  ASSERT_FALSE(fault) << *fault;
  WaveSchedule s;
  s.moves = {{p.moves[0], 0}};
  auto error = p.verify(s);
  EXPECT_FALSE(error) << *error;
}

TEST(WaveStorage, CountsWhatStaysOnce) {
  // As in CountsPagesByWave, but that the tensor that both keep is not copied.
  WaveProblem p = swapProblem(16 + 256);
  p.copies.clear();
  p.storage->flows[1].staying = {0, 1};
  auto fault = p.check();
  ASSERT_FALSE(fault) << *fault;
  WaveSchedule s = swapSchedule(1);
  s.copies.clear();
  auto error = p.verify(s);
  EXPECT_FALSE(error) << *error;
  --p.storage->limitBytes;
  error = p.verify(s);
  ASSERT_TRUE(error);
  EXPECT_EQ(*error, "device 0 holds 304 bytes in wave 1, 272 above the larger "
                    "of its source and its destination, more than the limit "
                    "of 271");
}

TEST(WaveStorage, NamesWhatDoesNotStay) {
  WaveProblem p = swapProblem(0);
  p.storage->flows[1].staying = {1};
  expectUnsound(p, "flow 1 stays on device 1, and some of it comes there");
  p.storage->flows[1].staying = {1, 0};
  expectUnsound(p, "flow 1 stays on devices that do not ascend");
  p.copies.clear();
  p.storage->flows[1].staying.clear();
  p.storage->flows[0].staying = {0};
  expectUnsound(p, "flow 0 stays on device 0, which does not hold the same of "
                   "it on both sides");
}

TEST(WaveStorage, CountsMembersOneByOne) {
  // Two layers; only the second moves, in a wave of its own.
  WaveProblem p;
  auto layer = [](int64_t i) { return Box::fromOffsetSize({i, 0}, {1, 4}); };
  p.moves = {{0, 0, 0, 1, layer(2)}, {0, 0, 0, 1, layer(5)}};
  p.elementBytes = {4};
  p.stagingBytes = 1 << 20;
  Storage &storage = p.storage.emplace();
  storage.flows = {{1, {{4, 1}}, {{4, 1}}, 0}};
  Holding held;
  held.shard.dims = {{{2, 3}, {5, 6}}, {{0, 4}}};
  held.shard.numLeading = 1;
  held.devices = {0};
  storage.source = {{held}};
  held.devices = {1};
  storage.destination = {{held}};
  // Device 1 comes to hold what it will hold; 0 never more than it did.
  storage.pageBytes = 1;
  storage.limitBytes = 256;
  auto fault = p.check();
  ASSERT_FALSE(fault) << *fault;
  WaveSchedule s;
  s.moves = {{p.moves[0], 0}, {p.moves[1], 1}};
  auto error = p.verify(s);
  EXPECT_FALSE(error) << *error;
  // A copy beside it that is not done before.
  p.copies = {{0, 1, layer(0)}};
  expectUnsound(p, "[0:1)x[0:4) of flow 0 is in no single shard that device 1 "
                   "holds at the source");
}

TEST(WaveStorage, NamesWhatIsNoStorage) {
  WaveProblem p = swapProblem(0);
  p.storage->pageBytes = 0;
  expectUnsound(p, "storage has pages of 0 bytes and a limit of 0 bytes, "
                   "expected at least 1 and 0");
  p = swapProblem(0);
  p.storage->flows.pop_back();
  expectUnsound(p, "storage is of 1 flows, expected 2");
  p = swapProblem(0);
  p.storage->flows[1].readsFrom = 2;
  expectUnsound(p, "flow 1 reads from flow 2, and there are 2");
  p = swapProblem(0);
  p.storage->flows[1].source[0].width = 0;
  expectUnsound(p, "flow 1 stores 1 states of 0 bytes per element, expected at "
                   "least 1 of each");
  p = swapProblem(0);
  p.storage->flows[0].numLeading = 1;
  expectUnsound(p, "flow 0 has a shard of 0 leading dims, expected 1");
  p = swapProblem(0);
  p.storage->source[1][0].devices = {1, 0};
  expectUnsound(p, "flow 1 has a shard whose devices are not one or more in "
                   "ascending order");
  p = swapProblem(0);
  p.storage->destination[0].pop_back();
  expectUnsound(p, "[0:4) of flow 0 is in no single shard that device 1 holds "
                   "at the destination");
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

namespace {

constexpr int64_t kBytes = 25'000'000; // 1 ms on the NIC, 0.125 in the island
constexpr double kLatency = 10e-6;

} // namespace

TEST(WaveBound, CountsALatencyPerMessageOfAPort) {
  // 0 sends three devices of other nodes a ms each.
  WaveProblem p = wavesOf({{0, 0, 0, 8, box(0, kBytes)},
                           {0, 0, 0, 16, box(0, kBytes)},
                           {0, 0, 0, 24, box(0, kBytes)}});
  EXPECT_DOUBLE_EQ(p.lowerBound(), 3 * (1e-3 + kLatency));
  // Several moves of a pair may be one message, unless staging is too small.
  p = wavesOf(
      {{0, 0, 0, 8, box(0, kBytes)}, {0, 0, 0, 8, box(kBytes, 2 * kBytes)}});
  EXPECT_DOUBLE_EQ(p.lowerBound(), 2e-3 + kLatency);
  p.stagingBytes = kBytes;
  EXPECT_DOUBLE_EQ(p.lowerBound(), 2e-3 + 2 * kLatency);
  p.stagingBytes = kBytes - 1;
  EXPECT_DOUBLE_EQ(p.lowerBound(), 2e-3 + 3 * kLatency);
}

TEST(WaveBound, CountsPortsByLevelWayAndNic) {
  WaveProblem p = wavesOf({{0, 0, 0, 1, box(0, kBytes)},
                           {0, 0, 0, 8, box(0, kBytes)},
                           {0, 0, 8, 0, box(kBytes, 2 * kBytes)}});
  EXPECT_DOUBLE_EQ(p.lowerBound(), 1e-3 + kLatency);
  p = wavesOf({{0, 0, 0, 8, box(0, kBytes)}, {0, 0, 1, 9, box(0, kBytes)}});
  EXPECT_DOUBLE_EQ(p.lowerBound(), 1e-3 + kLatency);
  p.cluster.devicesPerNic = 2;
  EXPECT_DOUBLE_EQ(p.lowerBound(), 2 * (1e-3 + kLatency));
}

TEST(WaveBound, CountsWhatForwardsWaitFor) {
  // 0 -> 8 -> 16 -> 24: each may begin when one element has come.
  WaveProblem p = wavesOf({{0, 0, 0, 8, box(0, kBytes)},
                           {0, 1, 8, 16, box(0, kBytes)},
                           {0, 2, 16, 24, box(0, kBytes)}});
  double element = 1 / 25e9;
  EXPECT_DOUBLE_EQ(p.lowerBound(), 1e-3 + kLatency + 2 * (element + kLatency));
  // What feeds it first counts, at its own rate.
  p = wavesOf({{0, 0, 0, 8, box(0, 1)},
               {0, 0, 9, 8, box(1, kBytes)},
               {0, 1, 8, 16, box(0, kBytes)}});
  EXPECT_DOUBLE_EQ(p.lowerBound(), 1e-3 + kLatency + 1 / 200e9 + kLatency);
}

TEST(WaveBound, HoldsForWhatIsExact) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int compared = 0, tight = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    RandomTransition t = randomTransition(random);
    if (random() % 2)
      t.cluster.devicesPerNic = t.cluster.devicesPerNode;
    WaveProblem p = randomWaves(t, int64_t(1) << 30);
    // Copies are what the bound leaves out.
    WaveSchedule s;
    if (scheduleExactly(p, {}, s))
      continue;
    ASSERT_FALSE(p.verify(s));
    std::vector<TimedMessage> messages = p.messages(s.moves);
    for (TimedMessage &message : messages)
      message.isPacked = message.isUnpacked = false;
    double seconds = predictSeconds(messages, p.cluster);
    EXPECT_GE(seconds * (1 + 1e-9), p.lowerBound());
    tight += seconds <= p.lowerBound() * 1.001;
    ++compared;
  }
  EXPECT_GT(compared, 20);
  EXPECT_GT(tight, compared / 4);
}

// Rows of a shard are one run, columns are none, and two pieces are none.
TEST(WaveProblem, SortsMessagesInFewWavesAndInMany) {
  for (int32_t apart : {1, 1 << 30}) {
    std::vector<ScheduledMove> moves = {
        {{0, 0, 1, 0, box(0, 1)}, apart},  {{0, 0, 0, 2, box(1, 2)}, apart},
        {{0, 0, 0, 1, box(2, 3)}, apart},  {{0, 0, 3, 0, box(3, 4)}, -apart},
        {{0, 0, 0, 1, box(4, 5)}, apart},  {{0, 0, 2, 1, box(5, 6)}, 0},
        {{0, 0, 0, 1, box(6, 7)}, -apart}, {{0, 0, 0, 1, box(7, 8)}, apart}};
    sortByMessage(moves);
    std::vector<int64_t> order;
    for (const ScheduledMove &each : moves)
      order.push_back(each.move.box[0].lo);
    EXPECT_EQ(order, (std::vector<int64_t>{6, 3, 5, 2, 4, 7, 1, 0}));
  }
}

TEST(WaveProblem, RunsAreNotPacked) {
  std::vector<Holding> whole = gridHoldings({64, 64}, 1, 1, 1, 0);
  std::vector<Holding> other = gridHoldings({64, 64}, 1, 1, 1, 1);
  StoredFlows stored;
  stored.flows.push_back({});
  stored.source.add(0, whole);
  stored.destination.add(0, other);
  Box rows = Box::fromOffsetSize({0, 0}, {32, 64});
  Box columns = Box::fromOffsetSize({0, 0}, {64, 32});
  WaveProblem p = wavesOf({{0, 0, 0, 1, rows}});
  auto ends = [&](std::vector<ScheduledMove> scheduled) {
    TimedMessage message = p.messages(scheduled).front();
    return std::make_pair(message.isPacked, message.isUnpacked);
  };
  ScheduledMove run = {{0, 0, 0, 1, rows}, 0};
  EXPECT_EQ(ends({run}), std::make_pair(true, true));
  p.stored = &stored;
  EXPECT_EQ(ends({run}), std::make_pair(false, false));
  EXPECT_EQ(ends({{{0, 0, 0, 1, columns}, 0}}), std::make_pair(true, true));
  ScheduledMove rest = run;
  rest.move.box[0] = {32, 64};
  EXPECT_EQ(ends({run, rest}), std::make_pair(true, true));
  stored.flows[0].sourceConverts = true;
  EXPECT_EQ(ends({run}), std::make_pair(true, false));
}

//===----------------------------------------------------------------------===//
// Solvers
//===----------------------------------------------------------------------===//

TEST(WaveSolver, EverySolverAnswersRandomProblems) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int exact = 0;
  // Few are small enough for the exact one.
  for (int trial = 0; trial < 50 || (exact == 0 && trial < 400); ++trial) {
    RandomTransition t = randomTransition(random);
    if (random() % 2)
      t.cluster.devicesPerNic = t.cluster.devicesPerNode;
    for (unsigned i = random() % 3; i > 0; --i)
      t.cluster.links.push_back({{random() % 2 == 0, int64_t(random() % 4)},
                                 {random() % 2 == 0, int64_t(random() % 4)},
                                 double(1 + random() % 100)});
    RoutingProblem routes(t.flows, t.cluster, 2048 + int64_t(random() % 8192));
    RouterOptions options;
    options.minPieceBytes = 64;
    options.forwarding = random() % 2 ? Forwarding::Tree : Forwarding::Spread;
    Routing routing = solved(routes, options);
    WaveProblem p = waveProblem(routes, routing.moves);
    p.copies = routing.locals;
    double greedy = p.seconds(solved(p, scheduleGreedily).moves);
    double best = p.seconds(solved(p, scheduleBest).moves);
    EXPECT_LE(best, greedy * (1 + 1e-9));
    WaveSchedule s;
    if (scheduleExactly(p, {}, s))
      continue;
    auto broken = p.verify(s);
    EXPECT_FALSE(broken) << *broken;
    EXPECT_LE(best, p.seconds(s.moves) * (1 + 1e-9));
    ++exact;
  }
  EXPECT_GT(exact, 0);
}

TEST(WaveSolver, BestAnswersOnThreadsAsWithout) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::atomic<int> pairs = 0; // of sizes beside each other
  thread_local int depth = 0; // of loops: solvers, sizes, what one size takes
  WaveOptions threaded;
  threaded.parallel = [&](size_t n, const auto &body) {
    pairs += depth == 1 && n == 2;
    std::vector<std::thread> threads;
    for (size_t i = n; i-- > 0;)
      threads.emplace_back([&body, i, inside = depth + 1] {
        depth = inside;
        body(i);
      });
    for (std::thread &thread : threads)
      thread.join();
  };
  for (int trial = 0; trial < 30 || pairs == 0; ++trial) {
    WaveProblem p = randomWaves(randomTransition(random), 8192);
    auto alone = solved(p, scheduleBest).moves;
    auto beside = solved(p, scheduleBest, threaded).moves;
    auto tied = [](const ScheduledMove &s) {
      return std::tie(s.wave, s.move.flow, s.move.hop, s.move.source,
                      s.move.destination, s.move.box);
    };
    EXPECT_TRUE(std::equal(
        alone.begin(), alone.end(), beside.begin(), beside.end(),
        [&](const auto &a, const auto &b) { return tied(a) == tied(b); }));
  }
}

TEST(WaveSolver, BestPutsALongMessageBesideALaterOne) {
  // 3 -> 7 takes 200 us, a forward inside the node little more than latency;
  // there are too many pairs to try all waves.
  Cluster cluster;
  cluster.devicesPerNode = 4;
  cluster.links = std::vector<Link>{{{false, 3}, {false, 7}, 5}};
  constexpr int64_t kShort = 4096, kLong = 1000000;
  WaveProblem p = wavesOf({{0, 0, 0, 4, box(0, kShort)},
                           {1, 0, 1, 5, box(0, kLong)},
                           {2, 0, 2, 6, box(0, kLong)},
                           {3, 0, 3, 7, box(0, kLong)},
                           {0, 1, 4, 5, box(0, kShort)},
                           {0, 1, 4, 6, box(0, kShort)},
                           {0, 2, 5, 7, box(0, kShort)}},
                          cluster);
  WaveSchedule best = solved(p, scheduleBest);
  std::map<int64_t, int32_t> wave; // of what comes to 7, by sender
  for (const ScheduledMove &s : best.moves)
    if (s.move.destination == 7)
      wave[s.move.source] = s.wave;
  EXPECT_EQ(wave.at(3), wave.at(5));
  // One latency, not two, and copies before and after.
  EXPECT_LT(p.seconds(best.moves), 200e-6 + 10e-6 + 2 * 6.1e-6);
}

TEST(WaveSolver, SayWhatTheyCannotDo) {
  WaveProblem p = swapProblem(1 << 20);
  WaveSchedule s;
  for (WaveSolver solver : {scheduleGreedily, scheduleExactly, scheduleBest})
    EXPECT_EQ(errorOf(solver(p, {}, s)),
              "limits storage, which only the solver 'flat' looks at");
  p.storage.reset();
  EXPECT_EQ(errorOf(scheduleFlat(p, {}, s)), "has no storage part, which "
                                             "the solver 'flat' is for");
  p.stagingBytes = 127;
  for (WaveSolver solver : {scheduleGreedily, scheduleBest})
    EXPECT_EQ(errorOf(solver(p, {}, s)),
              "needs at least 512 bytes of staging per "
              "device, more than the limit of 127 (memory.staging)");
  EXPECT_EQ(errorOf(scheduleExactly(p, {}, s)),
            "needs at least 512 bytes of staging "
            "per device, more than the limit of "
            "127 (memory.staging)");
}

TEST(WaveSolver, ExactSaysWhatIsTooLarge) {
  std::vector<Move> moves;
  for (int64_t to = 1; to <= 7; ++to)
    moves.push_back({0, 0, 0, to, box(0, 4)});
  WaveSchedule s;
  EXPECT_EQ(errorOf(scheduleExactly(wavesOf(moves), {}, s)),
            "has 7 pairs of devices, more than the limit of 6 for all "
            "orders of waves");
  moves.clear();
  for (int64_t i = 0; i < 65; ++i)
    moves.push_back({0, 0, 0, 1, box(i, i + 1)});
  EXPECT_EQ(errorOf(scheduleExactly(wavesOf(moves), {}, s)),
            "has 65 moves, more than the limit of 64 for all orders of "
            "waves");
  // A ring of three, each passing on what comes to it: no message is first.
  moves.clear();
  for (uint32_t hop : {0, 1})
    for (int64_t from : {0, 1, 2}) {
      int64_t of = (from + 3 - hop) % 3; // who had it
      moves.push_back({0, hop, from, (from + 1) % 3, box(4 * of, 4 * of + 4)});
    }
  EXPECT_FALSE(wavesOf(moves).check());
  EXPECT_EQ(
      errorOf(scheduleExactly(wavesOf(moves), {}, s)),
      "has pairs of devices that wait for parts of each other's messages, "
      "which whole messages do not give");
}

TEST(WaveSolver, HaveNames) {
  EXPECT_EQ(findWaveSolver("greedy"), &scheduleGreedily);
  EXPECT_EQ(findWaveSolver("exact"), &scheduleExactly);
  EXPECT_EQ(findWaveSolver("best"), &scheduleBest);
  EXPECT_EQ(findWaveSolver("flat"), &scheduleFlat);
  EXPECT_EQ(findWaveSolver(""), nullptr);
  EXPECT_EQ(waveSolverNames(), "greedy, exact, rounds, best, flat");
}
