//===- Best.h - The best of several routes and schedules --------*- C++ -*-===//
//
// What suits a transition shows only when its time is predicted: several chunk
// sizes are scheduled, and several ways to pass data on are routed, as far as
// the number of moves allows. Small cases are searched:
//
//   up to kExactPairs ordered pairs     all orders of waves, one message a pair
//   up to kExactDeliveries deliveries   all sources, forwards included, too
//
// so that no schedule of these kinds is faster by the cost model.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_BEST_H
#define DT_ROUTING_BEST_H

#include "dt/Routing/Schedule.h"

namespace dt {

constexpr size_t kExactPairs = 6;
constexpr size_t kExactDeliveries = 4;

/// Schedules until `effort` moves have been scheduled or a schedule is nearly
/// as fast as its busiest port, and keeps the fastest. On failure returns
/// false; `needed` is then the staging bytes at which the widest element fits
/// and messages keep to the limits, kTooManyMessages where none is known, or 0
/// when a forward lacks its feeder.
bool scheduleBest(const std::vector<Move> &moves,
                  const std::vector<Flow> &flows, const Cluster &cluster,
                  int64_t stagingBytes, int64_t effort,
                  std::vector<ScheduledMove> &best, int64_t &needed);

/// Routes all flows as `route` does. Where there are few moves and its way to
/// forward is not near the bound, other ways are scheduled too, and the fastest
/// is taken.
bool routeBest(const std::vector<Flow> &flows, const Cluster &cluster,
               const RouterOptions &options, int64_t stagingBytes,
               Routing &routing, Hole &hole);

} // namespace dt

#endif // DT_ROUTING_BEST_H
