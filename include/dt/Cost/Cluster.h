//===- Cluster.h - The machine that a plan is made for ----------*- C++ -*-===//
//
// The plan file's own struct, from the request on.
//
//===----------------------------------------------------------------------===//

#ifndef DT_COST_CLUSTER_H
#define DT_COST_CLUSTER_H

#include "dtrt/cost/Cluster.h"
#include "dtrt/cost/Compression.h"

namespace dt {

using dtrt::Cluster;
using dtrt::Link;
using dtrt::LinkEnd;

} // namespace dt

#endif // DT_COST_CLUSTER_H
