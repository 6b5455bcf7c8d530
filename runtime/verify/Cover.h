//===- Cover.h - Is every element of a shard written once? ------*- C++ -*-===//
//
// How often boxes hold an element is a function of the element. Taken to its
// differences, dim by dim, a box is nothing but its corners: +1 and -1. Boxes
// hold every element of a shard once exactly when their corners and those of
// the shard, which count the other way, cancel. So there is nothing to search,
// however the boxes lie: n boxes that are cut in d dims have n 2^d corners.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_VERIFY_COVER_H
#define DTRT_LIB_VERIFY_COVER_H

#include "BoxList.h"
#include "Steps.h"

namespace dtrt {

/// An element of a shard that boxes hold another number of times than once.
struct CoverFault {
  std::vector<int64_t> element; // as boxes name it, leading dims first
  int64_t times = 0;
};

/// The first such element in row-major order of the shard's local tensor.
/// Every box lies inside the shard. Nothing, too, when the steps are used up.
std::optional<CoverFault> findCoverFault(const Family &family,
                                         const ShardRecord &shard,
                                         const BoxList &boxes, Steps &steps);

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_COVER_H
