//===- Rebalance.h - Whether moving layers pays -----------------*- C++ -*-===//
//
// A running pipeline whose layers no longer take what they took: which layers
// to move to which stage, if any. A change is proposed only when the steps up
// to a horizon gain more than the change costs, and more than measurements can
// tell apart, so that noise moves nothing.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ADVISE_REBALANCE_H
#define DT_ADVISE_REBALANCE_H

#include "dt/Advise/StagePartition.h"

namespace dt::advise {

struct RebalanceProblem {
  /// Work as measured. `moveBytes` stays empty: it follows from the below.
  StageProblem stages;
  double secondsPerUnit = 1;       // of slowness x work
  std::vector<int64_t> today;      // layers per stage
  std::vector<int64_t> stateBytes; // per layer, what moves with it
  int64_t microBatches = 1;        // of a step
  double bytesPerSecond = 25e9;    // of one stage's devices, each way
  double switchSeconds = 0;        // of any change, however little it moves
  int64_t horizon = 1000;          // steps
  /// Part of a step that has to be gained at least.
  double leastGain = 0.01;
};

struct Rebalance {
  bool pays = false;
  StagePartition partition; // the best found; today's where nothing is better
  double stepBefore = 0, stepAfter = 0; // seconds
  double slowestBefore = 0, slowestAfter = 0;
  /// Of the fastest slowest stage that any partition has.
  double slowestBest = 0;
  double transition = 0; // seconds
  /// Steps after which the change has paid; none: never.
  std::optional<int64_t> paysAfterSteps;
};

bool check(const RebalanceProblem &problem, std::string &error);

/// Of the partitions that move the fewest bytes within several slacks of the
/// fastest, the one with the largest gain up to the horizon.
std::optional<Rebalance> rebalance(const RebalanceProblem &problem,
                                   std::string &error);

} // namespace dt::advise

#endif // DT_ADVISE_REBALANCE_H
