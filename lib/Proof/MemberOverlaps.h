//===- MemberOverlaps.h - Which ranges of storage meet ----------*- C++ -*-===//
//
// Of boxes that name members of a shard, by their leading dims, and a range of
// elements of each, in the last. All have one rank. What is empty meets
// nothing.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_PROOF_MEMBEROVERLAPS_H
#define DT_LIB_PROOF_MEMBEROVERLAPS_H

#include "dt/Geometry/Overlaps.h"

namespace dt {

/// Pairs (index in `a`, index in `b`) of boxes that meet, in no order. Each
/// takes one of the limit; what exceeds it is not said. Boxes of few members
/// are looked up by member, in O((a + b) log a + pairs); then a pair is said
/// once for each member that both name. Others as by overlappingPairs, and so
/// are those of which a lookup passes many that it does not find.
std::vector<IndexPair> memberOverlaps(BoxList a, BoxList b, WorkLimit &limit);

/// Whether no two boxes meet, looked up by member in O(n log n). "No" of boxes
/// of many members, or of which some are empty, says nothing.
bool areApart(BoxList boxes);

} // namespace dt

#endif // DT_LIB_PROOF_MEMBEROVERLAPS_H
