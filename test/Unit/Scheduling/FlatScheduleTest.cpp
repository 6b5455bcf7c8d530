//===- FlatScheduleTest.cpp - Flat memory from problem to waves -----------===//

#include "dt/Scheduling/FlatSchedule.h"
#include "RandomStorage.h"

#include "dt/Geometry/Limits.h"
#include "dt/Scheduling/BestSchedule.h"

#include <set>

using namespace dt;
using namespace dt::testing;

namespace {

/// The limit that an error names; 0: it names none.
int64_t namedLimit(const std::string &error) {
  const std::string before = "the smallest limit that works is ";
  size_t at = error.find(before);
  return at == std::string::npos ? 0
                                 : std::stoll(error.substr(at + before.size()));
}

} // namespace

TEST(FlatSchedule, KeepsToItsLimitOrNamesOneThatItKeepsTo) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int refused = 0, withCopies = 0, steps = 0;
  for (int trial = 0; trial < 100; ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial));
    WaveProblem p = randomStorageProblem(random);
    // The random limits are hardly ever too small.
    if (trial % 10 == 0)
      p.storage->limitBytes = p.stagingBytes = 1;
    auto fault = p.check();
    ASSERT_FALSE(fault) << *fault;
    WaveSchedule s;
    if (auto error = scheduleFlat(p, {}, s)) {
      int64_t limit = namedLimit(*error);
      ASSERT_GT(limit, p.storage->limitBytes) << *error;
      p.storage->limitBytes = p.stagingBytes = limit;
      p.storage->pageBytes = pageBytesFor(limit);
      ++refused;
    }
    s = solved(p, scheduleFlat);
    std::set<int32_t> waves;
    for (const ScheduledCopy &copy : s.copies)
      waves.insert(copy.wave);
    withCopies += !waves.empty();
    steps += waves.size() > 1;
    // No number is left out.
    for (const ScheduledMove &piece : s.moves)
      waves.insert(piece.wave);
    ASSERT_EQ(*waves.rbegin() + 1, int32_t(waves.size()));
  }
  EXPECT_GE(refused, 10);
  EXPECT_GT(withCopies, 30);
  EXPECT_GT(steps, 0) << "copies never waited for each other";
}

/// Less staging than the half of the limit that slots may have.
TEST(FlatSchedule, KeepsToStagingToo) {
  std::mt19937 random(3);
  int tight = 0;
  for (int trial = 0; trial < 60; ++trial) {
    WaveProblem p = randomStorageProblem(random);
    p.storage->limitBytes = 1 << 16;
    p.storage->pageBytes = pageBytesFor(1 << 16);
    p.stagingBytes = 1024;
    if (!p.moves.empty()) {
      WaveSchedule s = solved(p, scheduleFlat);
      tight += s.moves.size() > p.moves.size();
    }
  }
  EXPECT_GT(tight, 5);
}

namespace {

/// `elements` bytes go from device 0 to device 1 and, where they are swapped,
/// as many from 1 to 0, under a limit of 4 KiB.
WaveProblem movedBytes(int64_t elements, bool isSwapped) {
  Shard shard;
  shard.dims = {{{0, elements}}};
  Box box(1);
  box[0] = {0, elements};
  WaveProblem p;
  p.cluster = Cluster();
  p.stagingBytes = 4096;
  p.storage = Storage{{}, {}, {}, pageBytesFor(4096), 4096};
  for (uint32_t flow = 0; flow <= uint32_t(isSwapped); ++flow) {
    int64_t from = flow, to = 1 - from;
    p.elementBytes.push_back(1);
    p.moves.push_back({flow, 0, from, to, box});
    p.storage->flows.push_back(FlatFlow{0, {{1, 1}}, {{1, 1}}, flow});
    p.storage->source.push_back({Holding{shard, {from}}});
    p.storage->destination.push_back({Holding{shard, {to}}});
  }
  return p;
}

int32_t countWaves(const WaveSchedule &schedule) {
  return schedule.moves.back().wave + 1;
}

} // namespace

/// Where devices only give or only take, storage needs nothing of the limit,
/// so that slots have all of it, as where nobody frees anything.
TEST(FlatSchedule, IsThatOfOtherMemoryWhereNobodyGivesAndTakes) {
  WaveProblem p = movedBytes(1 << 20, /*isSwapped=*/false);
  WaveSchedule flat = solved(p, scheduleFlat), other;
  WaveProblem unfreed = p;
  unfreed.storage.reset();
  auto error = scheduleBest(unfreed, {}, other);
  ASSERT_FALSE(error) << *error;
  EXPECT_EQ(countWaves(flat), countWaves(other));
  EXPECT_EQ(flat.moves.size(), other.moves.size());
  // Swapped, they have half of it, and as many bytes in turn.
  WaveSchedule swapped = solved(movedBytes(1 << 20, true), scheduleFlat);
  EXPECT_GT(countWaves(swapped), countWaves(flat));
}

/// What may all be on both sides at once takes its part of the limit.
TEST(FlatSchedule, HasOnePhaseWhereAllIsOnBothSidesAtOnce) {
  for (int64_t elements : {2048, 2049}) {
    WaveProblem p = movedBytes(elements, /*isSwapped=*/true);
    WaveSchedule s = solved(p, scheduleFlat);
    int64_t slots = 0;
    for (auto [device, bytes] : arenaBytes(p.messages(s.moves)))
      slots = std::max(slots, bytes);
    EXPECT_LE(slots, 2048) << elements;
  }
}

/// Few pieces have few blocks, however large they are: a limit for which there
/// would be more is refused before they are made.
TEST(FlatSchedule, BoundsBlocksByPieces) {
  const int64_t elements = int64_t(1) << 46;
  WaveProblem p = movedBytes(elements, /*isSwapped=*/true);
  auto fault = p.check();
  ASSERT_FALSE(fault) << *fault;
  WaveSchedule s;
  auto error = scheduleFlat(p, {}, s);
  ASSERT_TRUE(error);
  EXPECT_GT(namedLimit(*error), elements / mostFlatEffects(2)) << *error;
}
