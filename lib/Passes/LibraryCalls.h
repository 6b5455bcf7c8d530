//===- LibraryCalls.h - Which calls a collective is -------------*- C++ -*-===//
//
// A library's collective is a call on whole blocks, of one root or of all
// members. So data that several devices hold comes from one of them, and of an
// all-gather each part is held by one member alone. Blocks have one size: an
// all-gather whose parts differ much is a broadcast of each part instead.
//
//===----------------------------------------------------------------------===//

#ifndef DT_PASSES_LIBRARYCALLS_H
#define DT_PASSES_LIBRARYCALLS_H

#include "TransitionAnalysis.h"
#include "dt/Scheduling/LibraryWaves.h"

namespace dt {

struct LibraryCalls {
  std::vector<LibraryCall> calls;
  std::string whyNone; // where there are none
};

/// The calls that bring what a collective of flow `number`, which has cells,
/// brings to the members of its groups.
LibraryCalls callsOf(CollectiveOp op, uint32_t number, const Flow &flow,
                     const Cluster &cluster);

} // namespace dt

#endif // DT_PASSES_LIBRARYCALLS_H
