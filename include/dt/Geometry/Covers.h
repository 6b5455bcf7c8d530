//===- Covers.h - What lists of boxes leave out or have twice ---*- C++ -*-===//
//
// The questions that checkers ask: is anything there twice, is everything
// there. Time as for overlappingPairs. Boxes have one rank and are not empty.
//
//===----------------------------------------------------------------------===//

#ifndef DT_GEOMETRY_COVERS_H
#define DT_GEOMETRY_COVERS_H

#include "dt/Geometry/Overlaps.h"

#include <optional>

namespace dt {

/// What two boxes of a list share, of the pair with the lowest numbers; nullopt
/// when boxes are disjoint.
std::optional<Box> firstTwice(const std::vector<Box> &boxes);

/// What a box of `a` and one of `b` share, of the pair with the lowest numbers;
/// nullopt when none meet.
std::optional<Box> firstShared(const std::vector<Box> &a,
                               const std::vector<Box> &b);

/// A part of the first of `boxes` that `cover` does not cover; nullopt when it
/// covers all of them. The boxes of `cover` must be disjoint.
std::optional<Box> firstUncovered(const std::vector<Box> &boxes,
                                  const std::vector<Box> &cover);

} // namespace dt

#endif // DT_GEOMETRY_COVERS_H
