//===- NodeScatter.h - Units from a device to all of its node ---*- C++ -*-===//
//
// One device of a node has units of data, which all others of it want, and some
// need before the others: they send them on to other nodes. In a round a device
// sends one unit and receives one.
//
// The holder sends a new unit in each round, to who needs it first. Who else
// needs it gets it in the next rounds, and all others as ports are free: in
// each round as many messages as can be (a matching), of the newest units. So
// units are passed on at once, and the rounds in which they come can be told
// from that. All takes a few rounds more than there are units, as a broadcast
// in the fewest rounds does (Circulant.h), but there the devices that have a
// unit early differ from unit to unit.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_ROUTING_NODESCATTER_H
#define DT_LIB_ROUTING_NODESCATTER_H

#include <cstdint>
#include <vector>

namespace dt {

struct ScatterStep {
  int64_t round = 0, unit = 0;
  int64_t from = 0, to = 0;
};

/// All that is sent, by round. Device 0 has the units; `first`: who needs each
/// before others, in this order.
std::vector<ScatterStep>
scatterUnits(int64_t devices, const std::vector<std::vector<int64_t>> &first);

} // namespace dt

#endif // DT_LIB_ROUTING_NODESCATTER_H
