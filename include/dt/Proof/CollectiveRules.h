//===- CollectiveRules.h - What library collectives must be -----*- C++ -*-===//
//
// A library's collective is a rendezvous of its members: it ends at none of
// them before all have come to it. So it has each of them to itself in its
// wave, as a group has its device; and as waves are the one order in which all
// devices run, all come to their collectives in one order.
//
//===----------------------------------------------------------------------===//

#ifndef DT_PROOF_COLLECTIVERULES_H
#define DT_PROOF_COLLECTIVERULES_H

#include "dt/Proof/Certificate.h"

namespace dt {

/// Gives each collective its block size: as much as any of its pairs needs.
/// Pieces of a wave are sorted by (from, to).
void sizeBlocks(TransportPlan &plan);

/// No device of a collective has a part in another one of its wave, or in a
/// message. What a member of a broadcast or an all-gather gives goes to all
/// others alike; nobody but the root gives a broadcast. Where there are slots,
/// each member has one for the blocks that it gives and one for those that it
/// gets. That these meet nothing else is for checkSlots to see.
MaybeFault checkCollectives(const TransportPlan &plan);

} // namespace dt

#endif // DT_PROOF_COLLECTIVERULES_H
