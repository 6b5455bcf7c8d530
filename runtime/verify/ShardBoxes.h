//===- ShardBoxes.h - A shard as boxes of its family ------------*- C++ -*-===//

#ifndef DTRT_LIB_VERIFY_SHARDBOXES_H
#define DTRT_LIB_VERIFY_SHARDBOXES_H

#include "BoxList.h"
#include "Steps.h"

namespace dtrt {

/// Appends the elements of the shard that are no padding, as boxes in the
/// coordinates of the family. A flat range is rows that are whole and rows that
/// are not:
///
///   [2, 9) of 3 x 4    . . # #    row 0, columns 2 and 3
///                      # # # #    row 1
///                      # . . .    row 2, column 0
///
/// Takes a step per box, and stops when there are none.
void appendBoxes(const Family &family, const ShardRecord &shard, BoxList &out,
                 Steps &steps);

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_SHARDBOXES_H
