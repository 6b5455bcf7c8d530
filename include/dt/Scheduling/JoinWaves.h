//===- JoinWaves.h - Fewer waves of more messages ---------------*- C++ -*-===//
//
// Where the channels of a pair do not fill a port, waves of one message per
// port leave it idle, and each of them is launched. Here the messages of such
// waves are put, in their order, each into the first wave that has room: ports
// carry as many as fill them (Cluster::messagesPerPort), also the NIC by which
// a message leaves where that is its receiver's (PXN), a device no more than a
// kernel plan holds, no pair has two, and a forward comes after what brings it.
//
//   2 per port   wave 0          1               2        3
//   one each     0->2 1->3       0->3 1->2       0->4     1->4
//   joined       0->2 1->3 0->3 1->2             0->4 1->4
//
//===----------------------------------------------------------------------===//

#ifndef DT_SCHEDULING_JOINWAVES_H
#define DT_SCHEDULING_JOINWAVES_H

#include "dt/Scheduling/WaveProblem.h"

namespace dt {

/// `scheduled` is a solution of the problem, and so is what comes back. Nothing
/// does where ports carry one message each, or the slots of joined waves have
/// no room in staging.
std::optional<std::vector<ScheduledMove>>
joinWaves(const WaveProblem &problem,
          const std::vector<ScheduledMove> &scheduled);

} // namespace dt

#endif // DT_SCHEDULING_JOINWAVES_H
