//===- SpliceGaps.h - No wave in which nothing is sent ----------*- C++ -*-===//
//
// Programs that are copied keep the numbers of their waves. What a changed
// device sent alone in a wave may now go elsewhere: then a message from behind
// goes there.
//
//   wave     0        1        2        3
//   before   0 -> 1   2 -> 3   0 -> 1             3 has lost its place to 4
//   spliced  0 -> 1            0 -> 1   2 -> 4
//   here     0 -> 1   2 -> 4   0 -> 1
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_PASSES_SPLICEGAPS_H
#define DT_LIB_PASSES_SPLICEGAPS_H

#include "SpliceRoute.h"

#include <functional>

namespace dt {

struct FilledGaps {
  bool hasMoved = false; // any message
  bool someLeft = false; // as far as is known
};

/// Moves messages into waves where nothing else is known to be sent. Where
/// `isUsed` knows not all, some of these are no gaps, which does no harm; and
/// some gaps may stay, for the verifier to see.
FilledGaps fillGaps(std::vector<bool> isUsed,
                    const std::function<int32_t(const Move &)> &firstWave,
                    std::vector<ScheduledMove> &moves);

} // namespace dt

#endif // DT_LIB_PASSES_SPLICEGAPS_H
