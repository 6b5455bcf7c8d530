//===- Router.h - Who sends what to whom ------------------------*- C++ -*-===//
//
// Chooses, for every destination element, the device that it comes from: the
// device itself; else a device of the same node; else across the network, once
// per node that wants the data, balanced over all devices that have it. A
// device that has received a region may forward it (a later hop), so that one
// copy leaves the source and the wanted bytes spread as a tree; forwards are
// used where the sources' ports would otherwise become the bottleneck.
//
// Loads are kept per port (NIC and island, in and out) in seconds over all
// params. Pieces that few devices hold are routed first, of these the largest
// (longest processing time first, Graham 1969): what many hold fills the gaps.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_ROUTER_H
#define DT_ROUTING_ROUTER_H

#include "dt/Geometry/Cells.h"
#include "dt/Routing/Cluster.h"

#include <vector>

namespace dt {

/// One param and the states of it that lie alike on both sides: what is routed
/// as one.
struct Flow {
  uint32_t param = 0;          // caller's index
  int64_t bytesPerElement = 0; // sent, sum over the states
  CellSet source;
  CellSet destination;
  /// Bytes per element as stored, where dtypes change in flight.
  int64_t sourceBytes = 0, destinationBytes = 0;
  /// Whether a side stores what travels in another dtype.
  bool sourceConverts = false, destinationConverts = false;
};

/// A box that travels from `source` to `destination`.
struct Move {
  uint32_t flow = 0;
  uint32_t hop = 0; // 0: from a source holder; k: from a receiver of hop k - 1
  int64_t source = 0;
  int64_t destination = 0;
  Box box;
};

/// A box that a device already holds.
struct LocalMove {
  uint32_t flow = 0;
  int64_t device = 0;
  Box box;
  int32_t before = 0; // done before this wave
};

struct Routing {
  std::vector<Move> moves; // a forward stands after the move that feeds it
  std::vector<LocalMove> locals;
};

/// A box of flow `flow` that devices want and no source device holds.
struct Hole {
  uint32_t flow = 0;
  int64_t device = 0; // one that wants it
  Box box;
};

/// How receivers of one piece pass it on, once their node's holder or the
/// source has no time left for all of them.
enum class Forwarding {
  Spread, // each piece enters at another device, which sends it to the others
  Chain,  // each device sends it to one other: long data, few devices
  Tree,   // all that have it send it at once: short data
};

struct RouterOptions {
  /// Pieces with a choice of route are cut until none is larger than the
  /// busiest device's traffic divided by this, so that loads can be balanced.
  int64_t balanceParts = 64;
  /// No piece is cut below this many bytes for balance.
  int64_t minPieceBytes = 1 << 20;
  Forwarding forwarding = Forwarding::Spread;
};

/// Routes all flows. On holes in the source returns false and sets `hole`.
bool route(const std::vector<Flow> &flows, const Cluster &cluster,
           const RouterOptions &options, Routing &routing, Hole &hole);

/// Cuts a box into row-major consecutive boxes of at most `maxElements`
/// elements each (at least one element), outer dims first so that pieces stay
/// contiguous.
std::vector<Box> splitBox(const Box &box, int64_t maxElements);

} // namespace dt

#endif // DT_ROUTING_ROUTER_H
