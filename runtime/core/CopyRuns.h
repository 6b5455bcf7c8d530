//===- CopyRuns.h - Inner loops of strided copies ---------------*- C++ -*-===//

#ifndef DTRT_LIB_CORE_COPYRUNS_H
#define DTRT_LIB_CORE_COPYRUNS_H

#include "dtrt/core/Packing.h"

namespace dtrt {

/// Copies of fewer bytes go through the cache.
constexpr int64_t kStreamBytes = 64 << 10;

/// How a copy goes past the cache, which saves reading the destination first.
struct Streaming {
  bool avx512; ///< a line of 64 bytes is one store, or else four of SSE2
  /// Of a later run, only the first lines are asked for ahead. Intel's
  /// processors go on by themselves; there it takes half as long again to ask
  /// for every line, past the caches, which is what AMD's are best with.
  bool asksFirst;
};

/// What this processor is best with.
const Streaming &bestStreaming();

/// Copies `dim.size` runs; through the cache without `streaming`. With it,
/// `finishStreaming` must follow before another thread may read the bytes.
void copyRuns(std::byte *to, const std::byte *from, const StridedCopy::Dim &dim,
              int64_t run, const Streaming *streaming);
void finishStreaming();

} // namespace dtrt

#endif // DTRT_LIB_CORE_COPYRUNS_H
