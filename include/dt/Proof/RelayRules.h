//===- RelayRules.h - Messages that go over a third device ------*- C++ -*-===//
//
// A message that is relayed comes to a slot of a device that neither holds nor
// wants what it carries, and a later wave sends the slot on as it is.
//
//===----------------------------------------------------------------------===//

#ifndef DT_PROOF_RELAYRULES_H
#define DT_PROOF_RELAYRULES_H

#include "dt/Proof/Certificate.h"

namespace dt {

/// Says of each slot whether its message is relayed. Pieces of a wave are
/// sorted by (from, to).
void markRelays(TransportPlan &plan);

/// All pieces of a message are relayed, or none. What a relay sends on came, in
/// an earlier wave, to the same slot and is the same, piece by piece; all that
/// comes to one is sent on, once. That slots are not used for anything else in
/// between is for checkSlots to see. Slots are marked.
MaybeFault checkRelays(const TransportPlan &plan);

} // namespace dt

#endif // DT_PROOF_RELAYRULES_H
