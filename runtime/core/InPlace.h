//===- InPlace.h - Buffers that a program leaves as they are ----*- C++ -*-===//

#ifndef DTRT_LIB_CORE_INPLACE_H
#define DTRT_LIB_CORE_INPLACE_H

#include "dtrt/core/Storage.h"

#include <vector>

namespace dtrt {

/// A buffer of a destination shard that is one of a source shard, in the same
/// state.
struct SharedBuffer {
  uint32_t destination = 0, source = 0; // shards of the program
  unsigned state = 0;
  int64_t member = 0, sourceMember = 0; // of the shards
};

/// Which of the buffers the program does not leave as they are. Both have to be
/// of one tensor and alike, so that an element lies at one place in both, and
/// all that the program writes there has to be copied from that very place:
/// then nothing is written, no one who reads the source sees a change, and
/// after a failure the source is whole.
std::vector<bool> findMoved(const LocalStorage &storage,
                            const std::vector<SharedBuffer> &buffers);

} // namespace dtrt

#endif // DTRT_LIB_CORE_INPLACE_H
