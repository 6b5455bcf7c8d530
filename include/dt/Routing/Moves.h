//===- Moves.h - What goes from one device to another -----------*- C++ -*-===//

#ifndef DT_ROUTING_MOVES_H
#define DT_ROUTING_MOVES_H

#include "dt/Geometry/Cells.h"

#include <vector>

namespace dt {

/// One param and the states of it that have one layout on both sides: routed as
/// one.
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
};

} // namespace dt

#endif // DT_ROUTING_MOVES_H
