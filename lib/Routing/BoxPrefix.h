//===- BoxPrefix.h - The first part of a box --------------------*- C++ -*-===//

#ifndef DT_LIB_ROUTING_BOXPREFIX_H
#define DT_LIB_ROUTING_BOXPREFIX_H

#include "dt/Geometry/Box.h"

namespace dt {

/// Cuts a prefix of at most `elements` off `box`, which becomes the rest; what
/// lies between (when a slice is cut) goes to `between`, in order. Slices are
/// cut only when `cutSlices`. False: nothing fits.
bool takePrefix(Box &box, int64_t elements, bool cutSlices, Box &prefix,
                std::vector<Box> &between);

} // namespace dt

#endif // DT_LIB_ROUTING_BOXPREFIX_H
