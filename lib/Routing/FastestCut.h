//===- FastestCut.h - How rails are best cut --------------------*- C++ -*-===//

#ifndef DT_LIB_ROUTING_FASTESTCUT_H
#define DT_LIB_ROUTING_FASTESTCUT_H

#include "NodeExchange.h"
#include "dt/Routing/RailTree.h"

namespace dt {

/// What `secondsOf` says least of: all teams that are worth trying, and up to
/// `mostBlocks` blocks while `stepsOf` a cut is no more than `mostSteps`; one
/// block may take more. The first of those that are equal.
template <typename CutInto, typename StepsOf, typename SecondsOf>
RailCut fastestCut(int64_t rails, int64_t mostBlocks, int64_t mostSteps,
                   CutInto cutInto, StepsOf stepsOf, SecondsOf secondsOf) {
  RailCut best;
  double least = 0;
  for (const std::vector<int64_t> &teams : teamsWorthTrying(rails))
    for (int64_t blocks = 1; blocks <= mostBlocks; ++blocks) {
      RailCut cut = cutInto(blocks, teams);
      if (blocks > 1 && stepsOf(cut) > mostSteps)
        break;
      double seconds = secondsOf(cut);
      if (!best.teams.empty() && seconds >= least)
        continue;
      best = cut;
      least = seconds;
    }
  return best;
}

} // namespace dt

#endif // DT_LIB_ROUTING_FASTESTCUT_H
