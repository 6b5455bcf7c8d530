//===- CutPrefix.h - The first elements of a box ----------------*- C++ -*-===//

#ifndef DT_LIB_SCHEDULING_CUTPREFIX_H
#define DT_LIB_SCHEDULING_CUTPREFIX_H

#include "dt/Routing/Moves.h"

#include <vector>

namespace dt {

/// Less than this part of a message is left empty rather than filled by cutting
/// a slice of a box in two.
constexpr int64_t kEmptyFraction = 64;

/// Cuts a prefix of at most `elements` off `box`, which becomes the rest; what
/// lies between (when a slice is cut) goes to `between`, in order. Slices are
/// cut only when `cutSlices`. False: nothing fits.
bool takePrefix(Box &box, int64_t elements, bool cutSlices, Box &prefix,
                std::vector<Box> &between);

/// Pieces of one pair that travel together.
struct CutMoves {
  std::vector<Move> pieces;
  int64_t bytes = 0;
};

/// Cuts moves, in their order, into parts of at most `most` bytes, which hold
/// an element of each flow. `elementBytes` by flow.
std::vector<CutMoves> cutMoves(const std::vector<Move> &moves,
                               const std::vector<int64_t> &elementBytes,
                               int64_t most);

} // namespace dt

#endif // DT_LIB_SCHEDULING_CUTPREFIX_H
