//===- FlatMemory.h - Programs that free as they go -------------*- C++ -*-===//
//
// Flat mode keeps no second copy of the state. Storage comes and goes by pages
// of every tensor's own row-major buffer: a page of a destination buffer when
// the first box that spans it is written, a page of a source buffer when the
// last box that spans it has been packed, sent or copied.
//
//===----------------------------------------------------------------------===//

#ifndef DT_EMIT_FLATMEMORY_H
#define DT_EMIT_FLATMEMORY_H

#include "dtrt/PlanModel.h"

namespace dt {

/// Rewrites a program that was built for rollback: inserts Create before the
/// first write and Release after the last read of every page of `pageBytes` (a
/// power of two, 64 at least; the last page of a buffer may be short), does
/// local copies one by one where they stand, and zeroes padding at the end.
/// Returns the most bytes of source, destination and staging that are live at
/// once.
uint64_t makeFlat(const std::vector<dtrt::Family> &families, int64_t pageBytes,
                  dtrt::RankProgram &program);

} // namespace dt

#endif // DT_EMIT_FLATMEMORY_H
