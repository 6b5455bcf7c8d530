//===- SolvedWaves.h - Schedules that are verified --------------*- C++ -*-===//

#ifndef DT_TEST_UNIT_SCHEDULING_SOLVEDWAVES_H
#define DT_TEST_UNIT_SCHEDULING_SOLVEDWAVES_H

#include "RandomFlows.h"
#include "Solved.h"
#include "dt/Scheduling/RouteSchedule.h"
#include "dt/Scheduling/Schedule.h"

namespace dt::testing {

/// What a solver answers to a problem; both are checked, and that no answer is
/// faster than the bound.
inline WaveSchedule solved(const WaveProblem &problem, WaveSolver solver,
                           const WaveOptions &options = {}) {
  auto fault = problem.check();
  EXPECT_FALSE(fault) << *fault;
  WaveSchedule schedule;
  if (fault)
    return schedule;
  auto error = solver(problem, options, schedule);
  EXPECT_FALSE(error) << *error;
  if (!error) {
    auto broken = problem.verify(schedule);
    EXPECT_FALSE(broken) << *broken;
    EXPECT_GE(problem.seconds(schedule.moves) * (1 + 1e-9),
              problem.lowerBound());
  }
  return schedule;
}

/// The same with messages of these lengths.
inline std::vector<ScheduledMove> scheduledWith(const WaveProblem &problem,
                                                ChunkBytes chunks) {
  auto fault = problem.check();
  EXPECT_FALSE(fault) << *fault;
  WaveSchedule schedule;
  schedule.moves = dt::schedule(problem, chunks);
  auto broken = problem.verify(schedule);
  EXPECT_FALSE(broken) << *broken;
  EXPECT_GE(problem.seconds(schedule.moves) * (1 + 1e-9), problem.lowerBound());
  return std::move(schedule.moves);
}

/// Moves of flows of one byte per element, with staging for anything.
inline WaveProblem wavesOf(std::vector<Move> moves, Cluster cluster = {}) {
  WaveProblem problem;
  for (const Move &move : moves)
    problem.elementBytes.resize(
        std::max<size_t>(problem.elementBytes.size(), move.flow + 1), 1);
  problem.moves = std::move(moves);
  problem.cluster = std::move(cluster);
  problem.stagingBytes = int64_t(8) << 30;
  return problem;
}

/// A random transition's routes, of pieces of 64 bytes or more, as waves.
inline WaveProblem randomWaves(const RandomTransition &t,
                               int64_t stagingBytes) {
  RouterOptions options;
  options.minPieceBytes = 64;
  RoutingProblem problem(t.flows, t.cluster, stagingBytes);
  return waveProblem(problem, solved(problem, options).moves);
}

} // namespace dt::testing

#endif // DT_TEST_UNIT_SCHEDULING_SOLVEDWAVES_H
