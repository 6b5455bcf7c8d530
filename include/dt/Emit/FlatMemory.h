//===- FlatMemory.h - Programs that free as they go -------------*- C++ -*-===//
//
// Flat mode keeps no second copy of the state: a destination tensor is
// allocated when its first byte arrives, a source tensor freed when its last
// byte has left (packed into staging, sent or copied). Tensors are freed whole:
// one lifetime per shard and member, all states of the shard together.
//
//===----------------------------------------------------------------------===//

#ifndef DT_EMIT_FLATMEMORY_H
#define DT_EMIT_FLATMEMORY_H

#include "dtrt/PlanModel.h"

namespace dt {

/// Rewrites a program that was built for rollback: inserts Create before the
/// first write and Release after the last read of each tensor, zeroes padding
/// when its tensor is created, and moves every local copy to where its source
/// is done with sending. Create and Release name whole members by segments
/// (leading dims select the members, inner dims are the hull of the shard).
/// Returns the most bytes of source, destination and staging that are live at
/// once.
uint64_t makeFlat(const std::vector<dtrt::Family> &families,
                  dtrt::RankProgram &program);

} // namespace dt

#endif // DT_EMIT_FLATMEMORY_H
