//===- CutPrefix.h - The first elements of a box ----------------*- C++ -*-===//

#ifndef DT_LIB_SCHEDULING_CUTPREFIX_H
#define DT_LIB_SCHEDULING_CUTPREFIX_H

#include "dt/Geometry/Box.h"

#include <vector>

namespace dt {

/// Cuts a prefix of at most `elements` off `box`, which becomes the rest; what
/// lies between (when a slice is cut) goes to `between`, in order. Slices are
/// cut only when `cutSlices`. False: nothing fits.
bool takePrefix(Box &box, int64_t elements, bool cutSlices, Box &prefix,
                std::vector<Box> &between);

} // namespace dt

#endif // DT_LIB_SCHEDULING_CUTPREFIX_H
