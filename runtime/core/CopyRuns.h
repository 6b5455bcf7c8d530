//===- CopyRuns.h - Inner loops of strided copies ---------------*- C++ -*-===//

#ifndef DTRT_LIB_CORE_COPYRUNS_H
#define DTRT_LIB_CORE_COPYRUNS_H

#include "dtrt/core/Packing.h"

namespace dtrt {

/// Copies of fewer bytes go through the cache.
constexpr int64_t kStreamBytes = 64 << 10;

/// Copies `dim.size` runs. `stream`: with stores that bypass the cache, which
/// saves reading the destination first; `finishStreaming` must follow before
/// another thread may read the bytes.
void copyRuns(std::byte *to, const std::byte *from, const StridedCopy::Dim &dim,
              int64_t run, bool stream);
void finishStreaming();

} // namespace dtrt

#endif // DTRT_LIB_CORE_COPYRUNS_H
