//===- CostModel.h - How long messages take ---------------------*- C++ -*-===//
//
// The cost model is the simulation that also draws plans
// (dtrt/cost/Simulation.h).
//
//===----------------------------------------------------------------------===//

#ifndef DT_COST_COSTMODEL_H
#define DT_COST_COSTMODEL_H

#include "dt/Cost/Cluster.h"
#include "dtrt/cost/Simulation.h"

namespace dt {

using dtrt::busiestPorts;
using dtrt::PortSeconds;
using dtrt::predictSeconds;
using dtrt::TimedMessage;

} // namespace dt

#endif // DT_COST_COSTMODEL_H
