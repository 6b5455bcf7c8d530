//===- FlatScheduleTest.cpp - Flat memory from problem to waves -----------===//

#include "dt/Scheduling/FlatSchedule.h"
#include "RandomStorage.h"

#include "dt/Geometry/Limits.h"

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

/// Few pieces have few blocks, however large they are: a limit for which there
/// would be more is refused before they are made.
TEST(FlatSchedule, BoundsBlocksByPieces) {
  const int64_t elements = int64_t(1) << 46;
  Shard shard; // of two devices, one after the other
  shard.dims = {{{0, elements}}};
  WaveProblem p;
  p.cluster = Cluster();
  p.stagingBytes = 4096;
  p.elementBytes = {1};
  Box box(1);
  box[0] = {0, elements};
  p.moves = {{0, 0, 0, 1, box}};
  p.storage = Storage{{FlatFlow{0, {{1, 1}}, {{1, 1}}}},
                      {{Holding{shard, {0}}}},
                      {{Holding{shard, {1}}}},
                      pageBytesFor(4096),
                      4096};
  auto fault = p.check();
  ASSERT_FALSE(fault) << *fault;
  WaveSchedule s;
  auto error = scheduleFlat(p, {}, s);
  ASSERT_TRUE(error);
  EXPECT_GT(namedLimit(*error), elements / mostFlatEffects(1)) << *error;
}
