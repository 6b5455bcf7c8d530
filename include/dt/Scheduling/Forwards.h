//===- Forwards.h - What is sent on as soon as it has come ------*- C++ -*-===//
//
// The cost model asks of each message whether it passes on what its sender's
// group before brought: that has to be unpacked first, and cannot be packed
// beside that group (dtrt/cost/Simulation.h).
//
//===----------------------------------------------------------------------===//

#ifndef DT_SCHEDULING_FORWARDS_H
#define DT_SCHEDULING_FORWARDS_H

#include "dt/Geometry/Box.h"
#include "dt/Geometry/Parallel.h"
#include "dt/Scheduling/PlanMessage.h"

#include <vector>

namespace dt {

/// A piece of a message.
struct CarriedPiece {
  uint32_t flow = 0;
  uint32_t readFrom = 0;  // the flow as which it came to a forwarder
  bool isForward = false; // its sender had to get it first
  const Box *box = nullptr;
};

/// Per message, whether it has an element that its sender's group before
/// brought. Messages are sorted by wave; `pieces` are what their `first` and
/// `last` count.
std::vector<bool> findForwards(const std::vector<PlanMessage> &messages,
                               const std::vector<CarriedPiece> &pieces,
                               const ParallelFor &parallel = serialFor);

} // namespace dt

#endif // DT_SCHEDULING_FORWARDS_H
