//===- BestScheduleTest.cpp - Trials, one after the other or not ----------===//

#include "dt/Scheduling/BestSchedule.h"
#include "SolvedWaves.h"

#include "gtest/gtest.h"

#include <random>

using namespace dt;
using namespace dt::testing;

namespace {

/// Whatever order threads take.
void backwards(size_t n, const std::function<void(size_t)> &body) {
  for (size_t i = n; i-- > 0;)
    body(i);
}

using Piece = std::tuple<int32_t, uint32_t, int64_t, int64_t, Box>;
std::vector<Piece> piecesOf(const ChunkChoice &choice) {
  std::vector<Piece> out;
  for (const ScheduledMove &s : choice.moves)
    out.push_back(
        {s.wave, s.move.flow, s.move.source, s.move.destination, s.move.box});
  return out;
}

TEST(BestSchedule, DoesNotDependOnHowManyTrialsAreMadeAtATime) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int wasted = 0;
  for (int trial = 0; trial < 100; ++trial) {
    RandomTransition t = randomTransition(random);
    WaveProblem problem = randomWaves(t, 2048 + random() % 8192);
    std::vector<ChunkBytes> candidates = candidateChunks(problem);
    double enough = random() % 2 ? 1.005 : 2;
    WaveOptions options;
    options.effort = random() % 200;
    ChunkChoice one = fastestOf(problem, candidates, options, enough);
    options.parallel = backwards;
    for (size_t atOnce : {2, 3, 64}) {
      options.trialsAtOnce = atOnce;
      ChunkChoice other = fastestOf(problem, candidates, options, enough);
      EXPECT_EQ(piecesOf(other), piecesOf(one));
      EXPECT_EQ(other.seconds, one.seconds);
      EXPECT_EQ(other.candidate, one.candidate);
    }
    options.effort = INT64_MAX;
    options.trialsAtOnce = 1;
    ChunkChoice most = fastestOf(problem, candidates, options, /*enough=*/0);
    wasted += most.candidate != one.candidate;
  }
  EXPECT_GT(wasted, 0); // some would have gone on
}

} // namespace
