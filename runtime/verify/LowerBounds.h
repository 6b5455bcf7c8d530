//===- LowerBounds.h - What no schedule can go below ------------*- C++ -*-===//
//
// Follows from the two layouts of a plan and its cluster alone. The bytes hold
// for all algorithms, the seconds for all that meet both byte bounds: that
// bring no byte to a device that does not want it and none twice into a node.
// A state that the source lacks counts as sent, though a device that wants what
// it is made from might make it.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_VERIFY_LOWERBOUNDS_H
#define DTRT_LIB_VERIFY_LOWERBOUNDS_H

#include "LayoutCells.h"

namespace dtrt {

struct LowerBounds {
  /// Bytes that devices want and do not hold.
  uint64_t wireBytes = 0;
  /// Per node, the union of the bytes that its devices want and none holds.
  uint64_t interNodeBytes = 0;
  /// One latency, when anything moves, and the largest of:
  ///   - per device: what its node holds and it lacks, over its island port;
  ///     what the node lacks and no device on another NIC of it wants, over
  ///     its NIC;
  ///   - per node: what it lacks, over the NICs of the devices that want some;
  ///   - per set of devices that alone hold some bytes: what other nodes lack
  ///     of them, once, over the NICs of the set; what devices of their own
  ///     node lack, over their island ports;
  ///   - with unequal links, the same as seconds for which ports are busy: each
  ///     byte that a device receives over the fastest link from a device that
  ///     holds it or lacks it too, what a set sends over the fastest link to
  ///     one that lacks it; what a site lacks (see dtrt/cost/Sites.h) comes
  ///     from without once, over the NICs of those of it who want some.
  /// But for the last, a port's rate is that of its fastest link on that level,
  /// to or from a device that lacks something or that holds what another one
  /// lacks.
  ///
  /// Where messages may be relayed none of this holds, but: what a device lacks
  /// comes by its two ports, what a node lacks by its NICs, what a set of
  /// devices alone has leaves by their ports, each at the rate of its level or,
  /// where that is more, of the fastest link that names it.
  double seconds = 0;
};

/// Fails where there are too many links to look at.
Result<LowerBounds> lowerBounds(const LayoutCells &cells,
                                const Cluster &cluster);

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_LOWERBOUNDS_H
